"""The paper's analyses, one file each: many small runs, made in parallel, kept and read together.

A study lists the `specs` of its runs and makes `figures` of their results; `setup` has what all of them share, and
`conduct` executes what is missing.
"""
