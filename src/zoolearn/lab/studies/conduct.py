"""Carrying out a study: its parts on all cores, those that are there reused, then its figures and its JSON file."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from zoolearn.data.benchmarks import whole_benchmark
from zoolearn.errors import DataError
from zoolearn.files import Json
from zoolearn.lab.figures import Figure
from zoolearn.lab.studies import ablations, competition, together, transfer, tricks
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import Study
from zoolearn.lab.studies.thresholds import competition_figure, estimator_figure
from zoolearn.lab.studies.trials import Trial, attempts, check_failures
from zoolearn.runs.jobs import ALL_CORES, Done, Failed, Job, Place, Ray, Shared, map_jobs
from zoolearn.runs.results import Results


@dataclass(frozen=True)
class Kind:
    """A study made of runs: which, what they show, and the paper's settings for it."""

    summary: str
    trials: Callable[[Setup], list[Trial]]
    figures: Callable[[Setup, Mapping[str, Results]], list[Figure]]
    epochs: int = 1
    samples_per_class: int | None = None
    seeds: int = 3


STUDIES: dict[str, Kind] = {
    "competition": Kind(
        "every pair of tasks against each task alone", competition.trials, competition.figures, 200, 100
    ),
    "together": Kind("one net on the first 1, 2, ... tasks", together.trials, together.figures, 200, 100),
    **{
        study.kind: Kind(study.title.lower(), study.trials, study.figures)
        for study in (ablations.REPLAY, ablations.TASKS_PER_EPISODE, ablations.WEIGHING, ablations.ENSEMBLE)
    },
    "tricks": Kind("what each idea of a warm start is worth, by training rows alone", tricks.trials, tricks.figures),
    "samples": Kind(ablations.SAMPLES.title.lower(), ablations.SAMPLES.trials, ablations.SAMPLES.figures, 200, 100, 5),
}
TRANSFER = "transfer"  # made of nets and their features, not of runs


@dataclass(frozen=True)
class Step:
    """A part of a study that is done, of so many."""

    name: str
    done: int
    parts: int


def parts_of(setup: Setup) -> list[str]:
    """The names of a study's parts."""
    if setup.study == TRANSFER:
        return transfer.part_names(setup)
    return [trial.name for trial in STUDIES[setup.study].trials(setup)]


def conduct(setup: Setup, folder: Path, place: Place = ALL_CORES, reuse: Sequence[Path] = ()) -> Iterator[Step | Study]:
    """Does what is missing, part by part, and gives the study in the end, which is then in the folder too."""
    started = perf_counter()
    is_transfer = setup.study == TRANSFER
    found = yield from _risks(setup, folder, place) if is_transfer else _runs(setup, folder, place, reuse)
    study = Study(setup.study, setup.benchmark, setup.record(), found, perf_counter() - started)
    study.save(folder)
    yield study


def _runs(setup: Setup, folder: Path, place: Place, reuse: Sequence[Path]) -> Generator[Step, None, list[Figure]]:
    kind = STUDIES[setup.study]
    trials = kind.trials(setup)
    outcome = {}
    for trial, results in attempts(trials, folder, data=setup.data, place=place, reuse=reuse):
        outcome[trial.name] = results
        yield Step(trial.name, len(outcome), len(trials))
    _check_other_data(outcome)
    return kind.figures(setup, outcome)


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
    whole, every = Shared(whole_benchmark, (setup.benchmark, setup.data)), 1 if isinstance(place, Ray) else None
    sources = ((seed, source) for seed in setup.seeds for source in range(len(setup.tasks)))
    jobs = [
        Job(name, transfer.measure, (setup, source, seed, folder.absolute() / name, whole, every))
        for name, (seed, source) in zip(transfer.part_names(setup), sources, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Mapping[str, Json]] = {}
    failures: list[Failed] = []
    with closing(map_jobs(jobs, place)) as events:
        for event in events:
            if isinstance(event, Failed):
                failures.append(event)
            if isinstance(event, Done):
                parts[event.job.name] = event.result
                yield Step(event.job.name, len(parts), len(jobs))
    check_failures(failures, len(jobs))
    simulated = [replace(figure, commands=[setup.command]) for figure in (competition_figure(), estimator_figure())]
    return [*transfer.figures(setup, parts), *simulated]
