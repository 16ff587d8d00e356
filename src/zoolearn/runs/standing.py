"""The accuracy and costs of a learner, as tables and figures that compare several need them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """Mean accuracy over the tasks with its 95 % interval, and costs.

    `balanced` is the mean accuracy over classes and tasks: a rare class counts as much as a frequent one.
    """

    name: str
    accuracy: float
    low: float
    high: float
    balanced: float
    seconds: float  # of training
    rows_trained: int | None  # passed through nets in training, with repetitions
    megabytes: float  # of the nets that answer
    rows_kept: int  # training rows kept for later episodes
