"""One run of a study as plain data, and many of them carried out on all cores; what is finished is found and reused."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from zoolearn.data.benchmarks import cut_down, options_record, whole_benchmark
from zoolearn.data.task import Benchmark
from zoolearn.errors import SettingsError, StoreError, ZooError, unknown_name
from zoolearn.files import Json
from zoolearn.lab.provenance import short_name
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS, learner_from
from zoolearn.runs.jobs import ALL_CORES, Done, Failed, Job, Place, Ray, Shared, map_jobs
from zoolearn.runs.records import iter_runs
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress
from zoolearn.runs.store import RunFolder, check_unseen
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method with settings that are not its defaults, on a benchmark, or on a few of its tasks, with one seed.

    `length` is for streams that can have any number of tasks; `after_tasks` leaves out the first ones.
    With `samples_per_class`, the seed picks the samples too, unless `samples_seed` does. A trial that does not `keep` its
    nets leaves nothing but a results.json: right for one of hundreds that take a minute each.
    """

    method: str
    benchmark: str
    learner: Mapping[str, Json] = field(default_factory=dict)
    recipe: Mapping[str, Json] = field(default_factory=dict)
    seed: int = 0
    samples_per_class: int | None = None
    samples_seed: int | None = None  # None: the trial's seed, which makes seeds bootstraps
    length: int | None = None
    first_tasks: int | None = None
    after_tasks: int | None = None
    only: tuple[int, ...] = ()  # places of tasks
    keep: bool = True

    @property
    def name(self) -> str:
        """Its folder: what is not default, in words.

        >>> Trial(method="model-zoo", benchmark="split-mnist", learner={"replay": 0.1}, recipe={"epochs": 1}, seed=2).name
        'model-zoo-split-mnist-replay0.1-epochs1-s2'
        """
        words = [self.method, self.benchmark]
        words += [f"{name.replace('_', '')}{value}" for name, value in {**self.learner, **self.recipe}.items()]
        words += [f"samples{self.samples_per_class}"] if self.samples_per_class else []
        words += [f"samplesseed{self.samples_seed}"] if self.samples_seed is not None else []
        words += [f"of{self.length}"] if self.length else []
        words += [f"first{self.first_tasks}"] if self.first_tasks else []
        words += [f"after{self.after_tasks}"] if self.after_tasks else []
        words += [f"tasks{'+'.join(map(str, self.only))}"] if self.only else []
        return short_name("-".join([*words, f"s{self.seed}"]))

    def new_learner(self) -> Learner:
        """An untrained learner with these settings."""
        if self.method not in METHODS:
            raise SettingsError(unknown_name("method", self.method, METHODS))
        method = METHODS[self.method]
        recipe = asdict(Recipe(**self.recipe))
        return learner_from(method, {**self.learner, "recipe": recipe, "seed": self.seed})

    def tasks(self, whole: Benchmark) -> Benchmark:
        """The tasks of the whole benchmark that the learner is shown."""
        whole = cut_down(whole, first_tasks=self.first_tasks, after_tasks=self.after_tasks)
        if self.only:
            options = {**whole.options, **_only_options(self.only)}
            whole = Benchmark(whole.name, tuple(whole[place] for place in self.only), options)
        return whole if self.samples_per_class is None else whole.per_class(self.samples_per_class, self._samples_seed)

    @property
    def _samples_seed(self) -> int:
        return self.seed if self.samples_seed is None else self.samples_seed

    def settings(self) -> dict[str, Json]:
        """What the results of this trial record as their settings."""
        options = options_record(
            samples_per_class=self.samples_per_class,
            samples_seed=self._samples_seed,
            tasks=self.length,
            first_tasks=self.first_tasks,
            after_tasks=self.after_tasks,
            **_only_options(self.only),
        )
        return {**self.new_learner().settings(), "benchmark": options}

    def identity(self) -> str:
        """Equal for trials and results that are the same run."""
        return _identity(self.method, self.benchmark, self.settings())


def _only_options(only: Sequence[int]) -> dict[str, int]:
    return {f"task_{number}": place for number, place in enumerate(only)}


def _identity(method: str, name: str, settings: Mapping[str, Json]) -> str:
    return json.dumps([method, name, settings], sort_keys=True)


def finished_runs(folders: Iterable[Path]) -> dict[str, Results]:
    """The finished runs below some folders, by what they are."""
    found: dict[str, Results] = {}
    for folder in folders:
        for _, results in iter_runs(folder):
            if results.finished:
                found.setdefault(_identity(results.method, results.benchmark, results.settings), results)
    return found


def attempt(
    trial: Trial, folder: Path, whole: Benchmark, checkpoint_every: int | None = None
) -> Generator[Progress | Results, None, Results]:
    """Carries out one trial in its folder, or reads what it left there before."""
    check_unseen(folder.parent)
    if (folder / Results.FILE).exists():
        before = Results.load(folder)
        if before.finished and _identity(before.method, before.benchmark, before.settings) == trial.identity():
            return before
    results = None
    out = folder if trial.keep or checkpoint_every is not None else None
    for event in progress(trial.new_learner(), trial.tasks(whole), out, checkpoint_every):
        if isinstance(event, Results):
            results = event
        yield event
    if results is None:
        raise StoreError(f"{folder} gave no results; remove it and try again")
    if not trial.keep:
        results.save(folder)
        RunFolder(folder).strip()
    return results


def attempts(
    trials: Sequence[Trial],
    folder: Path,
    *,
    data: Path | None = None,
    place: Place = ALL_CORES,
    reuse: Sequence[Path] = (),
) -> Iterator[tuple[Trial, Results]]:
    """Every trial with its results as they come: first those that are finished already, here or below `reuse`.

    A trial that fails does not stop the others; the first failure is raised in the end. On a cluster, where machines may
    be lost, trainings under way are saved every epoch.
    """
    folder = folder.absolute()
    there = finished_runs(path for path in [folder, *reuse] if path.exists())
    missing = []
    for trial in trials:
        if (found := there.get(trial.identity())) is not None:
            yield trial, found
        else:
            missing.append(trial)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
    by_name = {trial.name: trial for trial in missing}
    failures: list[Failed] = []
    every = 1 if isinstance(place, Ray) else None
    jobs = []
    for trial in by_name.values():
        whole = Shared(whole_benchmark, (trial.benchmark, data, trial.length))
        jobs.append(Job(trial.name, attempt, (trial, folder / trial.name, whole, every)))
    with closing(map_jobs(jobs, place)) as events:
        for event in events:
            if isinstance(event, Done):
                yield by_name[event.job.name], event.result
            elif isinstance(event, Failed):
                failures.append(event)
    check_failures(failures, len(trials))


def check_failures(failures: Sequence[Failed], count: int) -> None:
    """Names every job that failed, with its error."""
    if failures:
        named: dict[str, list[str]] = {}
        for failed in failures:
            named.setdefault(str(failed.error), []).append(failed.job.name)
        errors = "; ".join(f"{_some(names)}: {error}" for error, names in named.items())
        raise ZooError(f"{len(failures)} of {count} failed: {errors}") from failures[0].error


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} others"
