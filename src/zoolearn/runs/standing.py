"""What a learner came to in the end and what it took, as tables and figures that set several beside each other need it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """Mean accuracy over the tasks with the interval of what that tells about further rows, and what it cost.

    `balanced` is the mean of the classes' accuracies, and over the tasks: a rare class counts as much as a frequent one.
    """

    name: str
    accuracy: float
    low: float
    high: float
    balanced: float
    seconds: float  # of training
    rows_trained: int | None  # that nets in training were shown, counted as often as they were
    megabytes: float  # of the nets that answer
    rows_kept: int  # training rows that the next lesson needs
