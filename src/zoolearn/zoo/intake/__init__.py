"""Data on its way into a zoo: read, checked for copies and leaks, split and stored, after telling what it would add."""
