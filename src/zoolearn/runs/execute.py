"""Executes runs from their descriptions: one, here or as a job; or many, reusing those that are finished."""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from zoolearn.data.benchmarks import load_benchmark
from zoolearn.data.fingerprint import fingerprint_of_data
from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError, ZooError
from zoolearn.features.benchmarks import FEATURES
from zoolearn.runs.jobs import ALL_CORES, Done, Event, Failed, Job, Place, Ray, Shared, map_jobs
from zoolearn.runs.own import Own
from zoolearn.runs.records import iter_runs
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.step_log import Log
from zoolearn.runs.store import RunFolder, check_unseen
from zoolearn.training.fit import Progress


@dataclass(frozen=True)
class Plan:
    """How and where a run is executed; nothing of it changes the results.

    `episodes` ends the run after that many tasks; a plan for more of them continues it. A run that does not `keep`
    its nets leaves only a results.json: for one of hundreds of short runs. `command` is the command line to record,
    by default that of this run alone. With `anyway`, a run is resumed with changed code. `log` says what is logged
    within trainings.
    """

    out: Path | None = None
    data: Path | None = None
    checkpoint_every: int | None = None
    workers: int = 1
    episodes: int | None = None
    exact: bool = False
    keep: bool = True
    command: str = ""
    anyway: bool = False
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        if self.log.is_on and not self.keep:
            raise SettingsError("steps are logged in the folder of a run that is kept; trials are not: log a `zoo run`")


def execute(spec: RunSpec, plan: Plan, whole: Benchmark) -> Generator[Progress | Results, None, Results]:
    """Executes a run, yielding what `progress` yields; returns the results, which are only read if it is finished."""
    if plan.out is not None:
        check_unseen(plan.out.parent)
        if (before := load_finished(spec, plan.out, plan.data)) is not None:
            return before
    folder = plan.out if plan.keep or plan.checkpoint_every is not None else None
    command = plan.command or spec.command
    how = (folder, plan.checkpoint_every, plan.workers, plan.exact, command, plan.anyway, plan.log)
    events = progress(spec.learner(), spec.tasks(plan.data, whole), *how)
    results = None
    with closing(events):
        for event in events:
            yield event
            if isinstance(event, Results):
                results = event
                if plan.episodes is not None and len(event.accuracy) >= plan.episodes:
                    break
    assert results is not None
    if plan.out is not None and not plan.keep:
        results.save(plan.out)
        RunFolder(plan.out).strip()
    return results


def load_finished(spec: RunSpec, folder: Path, data: Path | None = None) -> Results | None:
    """The results in a folder, if they are of this run and complete."""
    if not (folder / Results.FILE).exists():
        return None
    results = Results.load(folder)
    return results if results.finished and _is(spec, results, data) else None


def _is(spec: RunSpec, results: Results, data: Path | None) -> bool:
    """Whether results are of this run, made with the present code."""
    if results.spec.identity != spec.identity or results.code != spec.source:
        return False
    return "benchmark" not in spec.own or results.data == fingerprint_of_data(spec.tasks(data))


def job(title: str, spec: RunSpec, plan: Plan) -> Job:
    """A run as a job; all runs on the same benchmark share its data."""
    shared = Shared(
        _whole, (spec.benchmark, spec.own.get("benchmark"), plan.data, json.dumps(spec.making, sort_keys=True))
    )
    return Job(title, execute, (spec, plan, shared))


def _whole(benchmark: str, own: Own | None, data: Path | None, making: str) -> Benchmark:
    options = json.loads(making)
    return own.benchmark(data, options) if own else load_benchmark(benchmark, data, **options)


def find_finished(folders: Iterable[Path]) -> dict[str, Results]:
    """The finished runs below some folders, by identity."""
    found: dict[str, Results] = {}
    for folder in folders:
        for _, results in iter_runs(folder):
            if results.finished:
                found.setdefault(results.identity, results)
    return found


def execute_all(
    specs: Mapping[str, RunSpec], folder: Path, plan: Plan, place: Place = ALL_CORES, reuse: Iterable[Path] = ()
) -> Generator[Event, None, None]:
    """Executes runs by title, each in a folder of that name; yields the events of all.

    Finished runs, here or below `reuse`, come first. On a cluster, where machines may be lost, every epoch is
    saved; here, runs share spare workers.
    """
    known = find_finished(path for path in reuse if path.exists()).values()
    there = {results.spec.identity: results for results in known}
    missing = {}
    for title, spec in specs.items():
        results = load_finished(spec, folder / title, plan.data) or there.get(spec.identity)
        if results is not None and _is(spec, results, plan.data):
            yield Done(job(title, spec, plan), results)
        else:
            missing[title] = spec
    if not missing:
        return
    if isinstance(place, Ray):
        folder, plan = folder.absolute(), replace(plan, checkpoint_every=plan.checkpoint_every or 1)
    else:
        plan = replace(plan, workers=max(1, place.workers_for() // place.workers_for(len(missing))))
    for spec in missing.values():
        if FEATURES in spec.options:
            spec.tasks(plan.data)  # each picture is passed through the extractor once, not by every worker
    folder.mkdir(parents=True, exist_ok=True)  # a machine that does not see it shares no storage with this one
    jobs = [job(title, spec, replace(plan, out=folder / title)) for title, spec in missing.items()]
    with closing(map_jobs(jobs, place)) as events:
        yield from events


def check_failures(failures: Sequence[Failed], count: int) -> None:
    """Raises an error that names every failed job."""
    if failures:
        named: dict[str, list[str]] = {}
        for failed in failures:
            named.setdefault(failed.why, []).append(failed.job.name)
        errors = "; ".join(f"{_some(names)}: {error}" for error, names in named.items())
        raise ZooError(f"{len(failures)} of {count} failed: {errors}") from failures[0].error


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} others"
