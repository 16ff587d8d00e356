"""Data on its way into a zoo: read, checked for copies and leaks, split and stored.

`growth` says what rows would add to a known task before anything is learned, `leaks` finds copies and similar pictures,
`split` and `holdout` decide which rows are held out, `extracting` turns pictures into features, and `intake` stores the
result.
"""
