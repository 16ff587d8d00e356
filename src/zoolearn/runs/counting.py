"""The rows that some work takes, counted where they pass through nets."""

from collections import Counter
from typing import TypeVar

from zoolearn.nets.net import passed
from zoolearn.training.fit import Work

Result = TypeVar("Result")


def count_rows(work: Work[Result]) -> Work[tuple[Result, Counter[str]]]:
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
