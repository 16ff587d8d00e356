"""What some work takes: rows, counted where they pass through nets, and what an answer costs."""

from collections import Counter
from time import perf_counter
from typing import TypeVar

from zoolearn.data.stream import Benchmark
from zoolearn.methods.learner import Learner
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


def answer_costs(learner: Learner, benchmark: Benchmark, rows: int = 64) -> tuple[float, float]:
    """What an answer for one sample takes, averaged over the tasks: milliseconds, in batches of `rows`, and passes through nets."""
    started, before, asked = perf_counter(), passed.rows.copy(), 0
    for task in benchmark:
        learner.predict_proba(task.test.x[:rows], task.name)
        asked += len(task.test.x[:rows])
    return 1000 * (perf_counter() - started) / asked, (passed.rows - before)["asked"] / asked
