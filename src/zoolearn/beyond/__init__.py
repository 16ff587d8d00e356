"""Past the paper: what a zoo can do with the members that it has.

`distil` teaches one small net to answer like all of them, `task_inference` finds out which task an input belongs to,
`voting` compares ways to join their votes. Each is one idea in one module; the paper's zoo needs none of them.
"""
