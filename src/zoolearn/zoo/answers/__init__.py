"""Predictions of a zoo: for a given task, with an inferred task, and "none of these".

`queries` turns what callers pass into rows, `answers` holds probabilities and votes, `recognition` infers the task, and
`none_of_these` detects inputs that are unlike everything stored.
"""
