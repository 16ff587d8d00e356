"""The methods of continual learning: one file each.

A method is a `learner.Learner`: it learns one task after another and answers for any of them. `model_zoo` is the paper's,
`isolated` its reference; `bases` holds what several methods build on, `parts` the pieces they share. `registry` names all.
"""
