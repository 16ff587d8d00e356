"""What long work other than training tells of its progress."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Progress of long work other than training."""

    what: str
    done: int
    total: int
