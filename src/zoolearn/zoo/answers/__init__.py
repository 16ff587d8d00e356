"""Predictions of a zoo: for a given task, with an inferred task, and "none of these"."""
