"""The paper's tables and ablations (Ramesh and Chaudhari, 2022), and our numbers beside them.

`tables` and `others` list rows with the published numbers, `compare` finds the runs that reproduce them, `reproduction`
writes REPRODUCTION.md and its pages, `equal` and `board` compare all methods under equal conditions, and `collect`
gathers finished runs in results/.
"""
