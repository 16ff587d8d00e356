"""Trials of settings on a whole stream, rung by rung; each is recorded in a small JSON file, so that a search resumes.

A trial is a run on validation data. At its rungs (after a ninth, a third and all of the tasks) its mean accuracy over
the tasks met is compared with that of other trials; a third of them goes on, the others are stopped. A trial that goes
on continues its run folder, on any machine.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from zoolearn.errors import Diverged, SettingsError
from zoolearn.files import Json, load_json, save_json
from zoolearn.lab.report import SEARCH
from zoolearn.lab.tune.search import Search
from zoolearn.runs.decode import decode
from zoolearn.runs.execute import Plan, job
from zoolearn.runs.jobs import Done, Event, Failed, Job, Place, Report, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.store import RunFolder


@dataclass
class Trial:
    """Settings, their values at each rung, and how the trial ended."""

    number: int
    settings: dict[str, Json]
    values: list[float] = field(default_factory=list)
    state: Literal["under way", "done", "stopped", "diverged", "failed"] = "under way"

    @property
    def name(self) -> str:
        return f"trial-{self.number:04d}"


def rungs(tasks: int) -> list[int]:
    """The numbers of tasks after which trials are compared.

    >>> rungs(20), rungs(5), rungs(2)
    ([3, 7, 20], [1, 2, 5], [1, 2])
    """
    return sorted({max(1, -(-tasks // 9)), max(1, -(-tasks // 3)), tasks})


class Tuning:
    """A search in a folder; `spec(settings)` is the run that tries some settings."""

    def __init__(
        self,
        folder: Path,
        setup: Mapping[str, Json],
        spec: Callable[[Mapping[str, Any]], RunSpec],
        plan: Plan,
        rungs: list[int],
    ) -> None:
        self.folder, self.spec, self.plan, self.rungs = folder.absolute(), spec, plan, rungs
        self._begin(setup)
        self.trials: list[Trial] = []
        self.handles: dict[int, Any] = {}  # of trials under way, as the search knows them
        self.waiting: deque[Trial] = deque()

    def execute(self, search: Search, count: int, place: Place) -> Generator[Event, None, None]:
        """Runs trials until `count` have ended; yields their events."""
        self._take_up(search)
        with closing(map_jobs(self._jobs(search, count), place)) as events:
            for event in events:
                if not isinstance(event, Report):
                    self._count(search, event)
                yield event

    @property
    def best(self) -> Trial:
        """The completed trial with the highest value."""
        done = [trial for trial in self.trials if trial.state == "done"]
        if not done:
            raise SettingsError(f"no trial in {self.folder} came to its end; try more trials, or a smaller space")
        return max(done, key=lambda trial: trial.values[-1])

    def results(self, trial: Trial) -> Results:
        return Results.load(self.folder / trial.name)

    def _begin(self, setup: Mapping[str, Json]) -> None:
        file = self.folder / SEARCH
        if not file.exists():
            save_json(file, setup, indent=1)
            return
        before = load_json(file)
        for name in {**before, **setup}:
            if before.get(name) != setup.get(name):
                raise SettingsError(
                    f"{self.folder} is another search: {_describe_difference(name, before.get(name), setup.get(name))}. "
                    "Use it, or another folder (--out)"
                )

    def _take_up(self, search: Search) -> None:
        """Loads recorded trials and tells the search of them."""
        for file in sorted(self.folder.glob("trial-*.json")):
            trial = decode(load_json(file), Trial, str(file), "a trial of a search")
            if trial.state == "failed":  # for a reason of its machine, which may be fixed by now
                trial.state = "under way"
            self.trials.append(trial)
            handle, _ = search.ask(trial.settings)
            for rung, value in enumerate(trial.values):
                search.goes_on(handle, rung, value)
            if trial.state == "under way":
                self.handles[trial.number] = handle
                self.waiting.append(trial)
            else:
                self._tell(search, trial, handle)
                self._strip(trial)

    def _jobs(self, search: Search, count: int) -> Iterator[Job | None]:
        """The next part of a trial that goes on, or a new trial; None while that depends on running ones."""
        while True:
            if self.waiting:
                yield self._part(self.waiting.popleft())
            elif len(self.trials) < count:
                handle, settings = search.ask()
                trial = Trial(len(self.trials) + 1, settings)
                self.trials.append(trial)
                self.handles[trial.number] = handle
                self._save(trial)
                yield self._part(trial)
            else:
                yield None

    def _part(self, trial: Trial) -> Job:
        """A trial up to its next rung."""
        tasks = self.rungs[len(trial.values)]
        plan = replace(self.plan, out=self.folder / trial.name, episodes=tasks)
        return job(f"{trial.name} to task {tasks}", self.spec(trial.settings), plan)

    def _count(self, search: Search, event: Done | Failed) -> None:
        """Records the end of a part."""
        trial = self.trials[int(event.job.name.split()[0].removeprefix("trial-")) - 1]
        handle = self.handles[trial.number]
        if isinstance(event, Failed):
            trial.state = "diverged" if isinstance(event.error, Diverged) else "failed"
        else:
            row = event.result.accuracy[-1]
            value = sum(row) / len(row)
            goes_on = search.goes_on(handle, len(trial.values), value)
            trial.values.append(value)
            if len(trial.values) == len(self.rungs):
                trial.state = "done"
            elif goes_on:
                self.waiting.append(trial)
            else:
                trial.state = "stopped"
        self._save(trial)
        if trial.state != "under way":
            self._tell(search, trial, self.handles.pop(trial.number))
            self._strip(trial)

    def _strip(self, trial: Trial) -> None:
        """Deletes what only a running trial needs."""
        if trial.state in ("done", "stopped"):
            RunFolder(self.folder / trial.name).strip()

    def _tell(self, search: Search, trial: Trial, handle: Any) -> None:
        value = {"diverged": 0.0, "failed": None}.get(trial.state, trial.values[-1] if trial.values else None)
        search.tell(handle, value, stopped=trial.state == "stopped")

    def _save(self, trial: Trial) -> None:
        save_json(self.folder / f"{trial.name}.json", asdict(trial))


def _describe_difference(name: str, before: Json, now: Json) -> str:
    """What differs, by the innermost name."""
    if isinstance(before, dict) and isinstance(now, dict):
        inner = next(key for key in {**before, **now} if before.get(key) != now.get(key))
        return _describe_difference(inner, before.get(inner), now.get(inner))
    return f"{name} was {before}, now {now}"
