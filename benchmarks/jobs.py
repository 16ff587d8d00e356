"""What the engine adds to two hundred small jobs, here, on two workers and on Ray, and what a driver of a thousand nodes would bear."""

import os
import pickle
from collections.abc import Callable, Generator, Iterator
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch

from benchmarks import bare
from benchmarks.tables import Table
from zoolearn.runs.jobs import Done, Job, Local, Place, Ray, map_jobs
from zoolearn.training.fit import Progress

JOBS = 200


def nothing(number: int) -> Generator[int, None, int]:
    yield number
    return number


def some_work(number: int) -> Generator[int, None, float]:
    """Some 50 milliseconds of training."""
    yield number
    return train()


def train() -> float:
    net = bare.net_for("mlp-100", (1, 8, 8))
    x, y = torch.zeros(16, 1, 8, 8), torch.arange(16) % 5
    return bare.train(torch.nn.Sequential(net.backbone, net.head("task")), [(x, y)] * 100)


def measure(*, quick: bool) -> list[Table]:
    """Seconds on the clock, in turn; workers and cluster are started before, by jobs that do not count."""
    import ray

    torch.set_num_threads(1)
    jobs, rounds = (20, 1) if quick else (JOBS, 3)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    started = perf_counter()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    start = perf_counter() - started
    try:
        tables = [_cost(nothing, lambda: None, jobs, rounds), _cost(some_work, train, jobs, rounds)]
        tables[0].notes.append(f"a cluster on this machine takes {start:.1f} s to start, before any job")
        return [*tables, _strain(quick=quick)]
    finally:
        ray.shutdown()


def _cost(work: Callable[..., Any], plain: Callable[[], Any], jobs: int, rounds: int) -> Table:
    places: dict[str, Place] = {"here": Local(1), "local, 2 workers": Local(2), "ray, 2 CPUs": Ray()}
    seconds: dict[str, list[float]] = {"bare loop": [], **{name: [] for name in places}}
    for _ in range(rounds):
        started = perf_counter()
        for _ in range(jobs):
            plain()
        seconds["bare loop"].append(perf_counter() - started)
        for name, place in places.items():
            seconds[name].append(_seconds(work, jobs, place))
    title = f"{jobs} jobs, each {(work.__doc__ or 'nothing').strip().rstrip('.').lower()}"
    table = Table(title, ["where", "seconds", "times the bare loop's speed", "milliseconds a job beyond the bare loop"])
    least = median(seconds["bare loop"])
    for name, values in seconds.items():
        taken = median(values)
        share = 2 if "2" in name and least > 1 else 1  # what two cores would need at least
        table.rows.append([name, taken, least / taken, 1000 * (taken - least / share) / jobs])
    return table


def _seconds(work: Callable[..., Any], jobs: int, place: Place) -> float:
    """From the first end to the last, over the jobs in between: starting workers is not counted."""
    ends: list[float] = []
    for event in map_jobs([Job(str(number), work, (number,)) for number in range(jobs + 10)], place):
        if isinstance(event, Done):
            ends.append(perf_counter())
    return (ends[-1] - ends[9]) * jobs / (len(ends) - 10)


class _Canned:
    """A cluster that is not there: its mailbox always holds one letter of every running job."""

    class exceptions:  # noqa: N801 (as Ray has it)
        RayError = RuntimeError

    def __init__(self, jobs: int) -> None:
        progress = Progress("task-001", 10, 100, 1, 10, 0.5)
        contents = [pickle.dumps(progress)] * 5
        self.letters = [pickle.dumps((number, contents, False)) for number in range(jobs)]
        self.take = self

    def remote(self) -> "_Canned":
        return self

    def wait(self, references: list[Any], **_: object) -> tuple[list[Any], list[Any]]:
        return references, []

    def get(self, _: Any) -> list[bytes]:
        return self.letters


def _strain(*, quick: bool) -> Table:
    """How long the driver needs for one letter of every running job; they write one every half second."""
    from zoolearn.runs.jobs.on_ray import SECONDS_BETWEEN_REPORTS, _Attempt, _Driver

    table = Table(
        "a driver alone with canned letters of five reports each",
        ["running jobs", "seconds for a letter from each", "share of the time between letters", "megabytes a second"],
    )
    for jobs in (100, 1000) if quick else (1000, 8000, 64_000):
        driver = object.__new__(_Driver)
        driver.ray = driver.mailbox = canned = _Canned(jobs)
        driver.post = None
        driver.under_way = {n: _Attempt(Job(str(n), nothing), n, 1, None, None) for n in range(jobs)}
        started = process_time()
        count = _exhaust(driver._listen())
        taken = process_time() - started
        assert count == 5 * jobs
        size = sum(map(len, canned.letters)) / 1e6 / SECONDS_BETWEEN_REPORTS
        table.rows.append([jobs, taken, taken / SECONDS_BETWEEN_REPORTS, size])
    table.notes.append("above a share of 1 the driver falls behind: letters queue up, and jobs wait to send theirs")
    return table


def _exhaust(events: Iterator[Any]) -> int:
    return sum(1 for _ in events)
