"""Past the paper: what else a zoo's members can do.

`warm_start` starts members from the last one, `distil` trains one small net to answer like all of them,
`task_inference` infers the task of an input, `all_classes` compares the classes of all tasks, `voting` compares ways to
combine votes. Each is one idea in one module; the paper's zoo needs none of them.
"""
