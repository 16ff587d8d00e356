"""Costs: rows counted as they pass through nets, and the cost of an answer."""

from collections import Counter
from time import perf_counter
from typing import TypeVar

from zoolearn.data.stream import Benchmark
from zoolearn.methods.learner import Learner
from zoolearn.nets.net import passed
from zoolearn.training.fit import Work

Result = TypeVar("Result")


def count_rows(work: Work[Result]) -> Work[tuple[Result, Counter[str]]]:
    """Runs a generator, counting the rows that pass through nets in it; returns its result and the counts."""
    total = Counter[str]()
    while True:
        before = passed.rows.copy()
        try:
            step = next(work)
        except StopIteration as end:
            return end.value, total + (passed.rows - before)
        total += passed.rows - before
        yield step


def measure_answers_cost(learner: Learner, benchmark: Benchmark, rows: int = 64) -> tuple[float, float]:
    """The cost of an answer for one sample, averaged over tasks: milliseconds in batches of `rows`, and passes."""
    started, before, asked = perf_counter(), passed.rows.copy(), 0
    for task in benchmark:
        learner.predict_proba(task.test.x[:rows], task.name)
        asked += len(task.test.x[:rows])
    return 1000 * (perf_counter() - started) / asked, (passed.rows - before)["asked"] / asked
