"""Episodes of a zoo: a task in the folder becomes a member and its votes, is measured, and may be taken back if it lost."""
