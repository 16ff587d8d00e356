"""A run as plain data, to be carried out here or in a worker process."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoolearn.benchmarks import benchmark
from zoolearn.learner import Learner
from zoolearn.results import Results
from zoolearn.runs import progress
from zoolearn.train import Progress


@dataclass(frozen=True, eq=False)
class Order:
    """A new learner, the benchmark it is to be shown (by name, with options as `benchmark` takes them), and the folder."""

    learner: Learner
    benchmark: str
    options: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    checkpoint_every: int | None = None
    workers: int = 1


def carry_out(order: Order) -> Generator[Progress | Results, None, Results]:
    """The run itself: reports as `progress` does, and returns the results."""
    chosen = benchmark(order.benchmark, **order.options)
    results = None
    for event in progress(order.learner, chosen, order.out, order.checkpoint_every, order.workers):
        if isinstance(event, Results):
            results = event
        yield event
    assert results is not None
    return results
