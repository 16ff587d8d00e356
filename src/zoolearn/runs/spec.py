"""A run as plain data, to be carried out here, in a worker process or on a cluster."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoolearn.data.benchmarks import cut_down, options_record, whole_benchmark
from zoolearn.data.task import Benchmark
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.names import registered_name
from zoolearn.runs.jobs import Job, Shared
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress
from zoolearn.runs.store import check_unseen
from zoolearn.training.fit import Progress


@dataclass(frozen=True, eq=False)
class RunSpec:
    """A new learner, the benchmark it is to be shown (by name, with options as `benchmark` takes them), and the folder.

    `episodes` ends the run after so many tasks; an order for more of them continues it.
    """

    learner: Learner
    benchmark: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Path | None = None
    out: Path | None = None
    checkpoint_every: int | None = None
    workers: int = 1
    episodes: int | None = None
    exact: bool = False

    def job(self, name: str) -> Job:
        """This order as a job; all orders for a benchmark share its data."""
        return Job(
            name, execute, (self, Shared(whole_benchmark, (self.benchmark, self.data, self.options.get("tasks"))))
        )

    def finished(self) -> Results | None:
        """The results in the folder, if they are of this very run, and complete."""
        if self.out is None or not (self.out / Results.FILE).exists():
            return None
        results = Results.load(self.out)
        settings = {**self.learner.settings(), "benchmark": options_record(**self.options)}
        same = (results.method, results.benchmark, results.settings) == (
            registered_name(type(self.learner), METHODS),
            self.benchmark,
            settings,
        )
        return results if same and results.finished else None


def execute(order: RunSpec, whole: Benchmark) -> Generator[Progress | Results, None, Results]:
    """The run itself: reports as `progress` does, and returns the results."""
    if order.out is not None:
        check_unseen(order.out.parent)
    chosen = cut_down(whole, **{name: value for name, value in order.options.items() if name != "tasks"})
    results = None
    events = progress(order.learner, chosen, order.out, order.checkpoint_every, order.workers, order.exact)
    with closing(events):
        for event in events:
            yield event
            if isinstance(event, Results):
                results = event
                if order.episodes is not None and len(event.accuracy) >= order.episodes:
                    break
    assert results is not None
    return results
