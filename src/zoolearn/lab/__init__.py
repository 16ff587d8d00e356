"""What researchers do with many runs: compare, search, draw, and set beside the paper.

`report` averages runs over seeds, `figures` and `pages` show them, `presets` are published settings, `tune` searches for
others, `studies` are the paper's analyses, and `paper` holds its numbers beside ours.
"""
