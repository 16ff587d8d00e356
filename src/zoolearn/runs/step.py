"""Progress of long work other than training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """How far some work other than training has come."""

    what: str
    done: int
    total: int
