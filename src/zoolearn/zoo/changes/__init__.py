"""Changes of a zoo beside learning: undo, forget, prune, correct and rename.

Each module computes a new index from the old one, and `Zoo` commits it. `rewriting` removes or relabels rows of a task;
forgetting rows and purging corrections are built on it, and members that saw changed rows are retrained.
"""
