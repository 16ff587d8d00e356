"""Base classes that several methods build on.

`single_net` is one network with a head for each task; `with_memory` adds stored examples, `penalties` a quadratic
penalty on weights, `task_net` layers that differ from task to task. `keeps_rows` is an ensemble that stores a share of
every task's rows, the base of Model Zoo and Isolated.
"""
