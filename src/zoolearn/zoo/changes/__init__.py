"""What changes a zoo beside learning: undo, forget, prune, correct and rename."""
