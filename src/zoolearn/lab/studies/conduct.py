"""Carrying out a study: its parts on all cores, those that are there reused, then its figures and its JSON file."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from zoolearn.data.benchmarks import load_benchmark
from zoolearn.errors import DataError
from zoolearn.files import Json
from zoolearn.lab.figures import Figure
from zoolearn.lab.studies import ablations, competition, growing, together, transfer, tricks
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import Study
from zoolearn.lab.studies.thresholds import apart_figure, competition_figure, constant_figure, estimator_figure
from zoolearn.runs.execute import Plan, check_failures, execute_all
from zoolearn.runs.jobs import ALL_CORES, Done, Event, Failed, Job, Place, Ray, Shared, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec
from zoolearn.training.step import Step


@dataclass(frozen=True)
class Kind:
    """A study made of runs: which, what they show, and the paper's settings for it."""

    summary: str
    specs: Callable[[Setup], list[RunSpec]]
    figures: Callable[[Setup, Mapping[str, Results]], list[Figure]]
    epochs: int = 1
    samples_per_class: int | None = None
    seeds: int = 3
    keep: bool = True  # the nets; runs of hundreds that take a minute each leave their results alone


STUDIES: dict[str, Kind] = {
    "competition": Kind(
        "every pair of tasks against each task alone", competition.specs, competition.figures, 200, 100, keep=False
    ),
    "together": Kind("one net on the first 1, 2, ... tasks", together.specs, together.figures, 200, 100, keep=False),
    **{
        study.kind: Kind(study.title.lower(), study.specs, study.figures)
        for study in (ablations.REPLAY, ablations.TASKS_PER_EPISODE, ablations.WEIGHING, ablations.ENSEMBLE)
    },
    "tricks": Kind("what each idea of a warm start is worth, by training rows alone", tricks.specs, tricks.figures),
    "growing": Kind("tasks that begin with all but two classes and grow by one twice", growing.specs, growing.figures),
    "samples": Kind(ablations.SAMPLES.title.lower(), ablations.SAMPLES.specs, ablations.SAMPLES.figures, 200, 100, 5),
}
TRANSFER = "transfer"  # made of nets and their features, not of runs


def conduct(
    setup: Setup, folder: Path, place: Place = ALL_CORES, reuse: Sequence[Path] = ()
) -> Generator[Step, None, Study]:
    """Does what is missing, part by part, and returns the study, which is then in the folder too."""
    started = perf_counter()
    is_transfer = setup.study == TRANSFER
    found = yield from _risks(setup, folder, place) if is_transfer else _runs(setup, folder, place, reuse)
    study = Study(setup.study, setup.benchmark, setup.record(), found, perf_counter() - started)
    study.save(folder)
    return study


def _runs(setup: Setup, folder: Path, place: Place, reuse: Sequence[Path]) -> Generator[Step, None, list[Figure]]:
    kind = STUDIES[setup.study]
    specs = {spec.name: spec for spec in kind.specs(setup)}
    jobs = execute_all(specs, folder, Plan(data=setup.data, keep=kind.keep), place, reuse)
    outcome = yield from _ends(jobs, len(specs))
    _check_other_data(outcome)
    return kind.figures(setup, outcome)


def _ends(events: Generator[Event, None, None], parts: int) -> Generator[Step, None, dict[str, Any]]:
    """What the parts come to, by their names. One that fails does not stop the others; all failures are named in the end."""
    found: dict[str, Any] = {}
    failures: list[Failed] = []
    with closing(events):
        for event in events:
            if isinstance(event, Failed):
                failures.append(event)
            if isinstance(event, Done):
                found[event.job.name] = event.result
                yield Step(event.job.name, len(found), parts)
    check_failures(failures, parts)
    return found


def _check_other_data(outcome: Mapping[str, Results]) -> None:
    """Refuses runs that were made with other amounts of the same task's data; older records do not tell theirs."""
    first: dict[tuple[str, Json], tuple[str, int]] = {}
    for name, results in outcome.items():
        per_class = results.settings["benchmark"].get("samples_per_class")
        for task, rows in zip(results.tasks, results.train_samples, strict=False):
            other, others = first.setdefault((task, per_class), (name, rows))
            if rows != others:
                raise DataError(
                    f"{name} was trained on {rows:,} rows of task {task!r}, {other} on {others:,}: they saw different data, "
                    "so they say nothing beside each other; leave one of them out (--reuse), or use another --out"
                )


def _risks(setup: Setup, folder: Path, place: Place) -> Generator[Step, None, list[Figure]]:
    whole, every = Shared(load_benchmark, (setup.benchmark, setup.data)), 1 if isinstance(place, Ray) else None
    sources = ((seed, source) for seed in setup.seeds for source in range(len(setup.tasks)))
    jobs = [
        Job(name, transfer.measure, (setup, source, seed, folder.absolute() / name, whole, every))
        for name, (seed, source) in zip(transfer.part_names(setup), sources, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    parts = yield from _ends(map_jobs(jobs, place), len(jobs))
    figures = (competition_figure(), apart_figure(), constant_figure(), estimator_figure())
    simulated = [replace(figure, commands=[setup.command]) for figure in figures]
    return [*transfer.figures(setup, parts), *simulated]
