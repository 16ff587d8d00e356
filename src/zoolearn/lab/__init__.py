"""What researchers do with many runs: compare, search, draw, and set beside the paper.

`report` averages runs over seeds, `figures` and `pages` show them, `presets` are published settings, `tune` searches
for settings, `studies` are the paper's analyses, and `paper` compares its numbers with ours.
"""
