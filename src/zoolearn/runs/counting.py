"""The rows that some work takes, counted where they pass through nets."""

from collections import Counter
from collections.abc import Generator
from typing import TypeVar

from zoolearn.nets.net import passed
from zoolearn.training.fit import Progress

Result = TypeVar("Result")


def count_rows(work: Generator[Progress, None, Result]) -> Generator[Progress, None, tuple[Result, Counter[str]]]:
    """Does some work step by step; gives what it returns and the rows that it took, without those of others between."""
    total = Counter[str]()
    while True:
        before = passed.rows.copy()
        try:
            step = next(work)
        except StopIteration as end:
            return end.value, total + (passed.rows - before)
        total += passed.rows - before
        yield step
