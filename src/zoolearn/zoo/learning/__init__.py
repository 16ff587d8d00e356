"""An episode of a zoo and its evaluation.

`recall` loads a learner from the folder, `episode` trains and stores a new member, `statistics` keeps feature
statistics, `retraining` repeats trainings whose rows have changed; `scores` and `evaluation` measure tasks on held-out
rows, and `gate` compares them before and after.
"""
