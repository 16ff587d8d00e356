"""A benchmark shown to a learner, kept and continued.

`run` shows the tasks one by one, evaluates after each and commits every episode to a folder (`store`), so that the same
call resumes after a stop. `results` is the outcome, `records` keeps many of them in few files, `metrics` are the
field's measures, `watch` reads the status of runs, and `jobs` executes many runs on all cores or on a cluster.
"""
