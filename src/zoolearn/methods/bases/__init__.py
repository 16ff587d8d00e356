"""What several methods build on: one network for all tasks, with a memory, with penalties, or gated for each task."""
