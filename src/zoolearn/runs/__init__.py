"""A benchmark shown to a learner, kept and continued.

`run` shows the tasks one by one, evaluates after each and commits every episode to a folder (`store`), so that the same
call continues after a stop. `results` is what came out, `records` keeps many of them in few files, `metrics` is what the
field calls it, `watch` looks on from outside, and `jobs` works off many runs on all cores or on a cluster.
"""
