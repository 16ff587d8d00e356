"""The results of a run: accuracies, times, settings, costs and draws, in one JSON file."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from zoolearn.errors import DataError, SettingsError, StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.methods.learner import Episode
from zoolearn.runs.decode import decode, plain
from zoolearn.runs.environment import differences
from zoolearn.runs.metrics import average_accuracy, backward_transfer, check, forgetting, forward_transfer
from zoolearn.runs.spec import RunSpec, write_flags

PHASES = ("train", "evaluate")
Count = Annotated[int, Meta(ge=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Number = TypeVar("Number", int, float)


class Costs(msgspec.Struct):
    """What a learner costs to store and to predict with."""

    stored_samples: Count
    num_parameters: Count
    ms_per_sample: NotNegative | None
    stored_bytes: Count | None = None
    passes: NotNegative | None = None


class Untold(msgspec.Struct, frozen=True):
    """Test accuracy of each task if the task is not given.

    By one softmax over the heads of all tasks, by inferring the task first, and by statistics of all classes.
    """

    accuracy: dict[str, Share]
    inferred: dict[str, Share] | None  # of a zoo that stores rows of every task
    rows_asked: Count  # that went through nets to measure it
    statistics: dict[str, Share] | None = None  # of such a zoo


class File(msgspec.Struct):
    """The content of `results.json`."""

    format: int
    method: str
    benchmark: str
    tasks: list[str]
    settings: dict[str, Json]
    accuracy: list[list[float | None]]
    episodes: list[Episode]
    summary: Costs  # and the measures of the matrix, which can be computed
    environment: dict[str, Json]
    finished: bool
    arrivals: list[str] = []
    train_samples: list[Count] = []
    sittings: list[dict[str, Json]] = []
    command: str = ""
    data: str = ""
    source: dict[str, str] = {}
    parameters: Count | None = None
    diverged: str = ""
    failed: str = ""
    untold: Untold | None = None
    unique: dict[str, Share] | None = None


@dataclass(kw_only=True)
class Results:
    """A run so far: settings, and for each episode a row of the accuracy matrix and a record.

    `tasks` names all tasks of the benchmark; row k of `accuracy` has tasks 0 to k. If tasks arrive in parts,
    `arrivals` names the task of every episode, and row k has the tasks met by then. The functions of `metrics` take
    the matrix as it is. Costs missing in older records are None.

    >>> episode = Episode(tasks=("0-1",), loss=0.25, seconds={"train": 1.5, "evaluate": 0.5})
    >>> results = Results(method="isolated", benchmark="split-mnist", tasks=["0-1", "2-3"], settings={"seed": 0})
    >>> results.accuracy.append([0.75])
    >>> results.episodes.append(episode)
    >>> results.finished, results.summary()["average_accuracy"], results.seconds
    (False, 0.75, {'train': 1.5, 'evaluate': 0.5})
    """

    FORMAT: ClassVar[int] = 1
    FILE: ClassVar[str] = "results.json"

    method: str
    benchmark: str
    tasks: list[str]
    settings: dict[str, Json]
    arrivals: list[str] = field(default_factory=list)
    environment: dict[str, Json] = field(default_factory=dict)
    accuracy: list[list[float | None]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    stored_samples: int = 0
    num_parameters: int = 0
    ms_per_sample: float | None = None
    stored_bytes: int | None = None  # of the samples that are kept
    passes: float | None = None  # through nets, for one answer
    train_samples: list[int] = field(default_factory=list)  # of each task; missing in older records
    sittings: list[dict[str, Json]] = field(default_factory=list)  # when it was begun or continued, and on what
    command: str = ""  # the command line that began it; empty if it was begun in Python
    data: str = ""  # a digest; empty in older records
    source: dict[str, str] = field(default_factory=dict)  # digests of the caller's code by name, at the beginning
    parameters: int | None = None  # of a new net with the caller's backbone
    diverged: str = ""  # the error, if a training diverged
    failed: str = ""  # any other error that ended it
    # of a finished run, where its tasks have classes of their own, and where near-duplicates of training rows are known
    untold: Untold | None = None
    unique: dict[str, float] | None = None  # each task's test accuracy without such rows

    def __post_init__(self) -> None:
        self.settings = plain(self.settings, "settings")
        self.environment = plain(self.environment, "environment")
        self._check()

    @cached_property
    def spec(self) -> RunSpec:
        return RunSpec.of_record(self.method, self.benchmark, self.settings)

    @property
    def stream(self) -> str:
        """The benchmark, and whether pre-trained features were used: tables are grouped by it."""
        return self.spec.stream

    @property
    def identity(self) -> str:
        """Equal for equal runs, one of which is redundant; includes the data, so incomplete data is other data."""
        return json.dumps([self.spec.identity, self.train_samples, self.made_with])

    @property
    def made_with(self) -> list[Json]:
        """What a run depends on beside its description: the data, the caller's code, and the size of its nets."""
        return [self.data, self.code, self.parameters]

    @property
    def code(self) -> dict[str, str]:
        """Digests of the caller's code; a run resumed with changed code has digests of its own."""
        changed = {
            f"after episode {each['episodes']}": "; ".join(each["code"]) for each in self.sittings if each.get("code")
        }
        return {**self.source, **changed}

    @property
    def made_by(self) -> str:
        """The command that made it, or a comment if it was made in Python or with settings that were deleted since."""
        if self.spec.deleted and not self.source:  # functions of the caller's have settings of their own
            flags = " ".join(write_flags(self.spec.deleted))
            return f"# no command of this version repeats {self.method} on {self.benchmark} with {flags}"
        return self.command or f"# made in Python: {self.method} on {self.benchmark}"

    @property
    def meetings(self) -> list[str]:
        """The task of every episode of the whole run."""
        return self.arrivals or self.tasks

    @property
    def places(self) -> list[int] | None:
        """The task number of every episode, as `metrics` take it; None if each brings a new one."""
        return [self.tasks.index(name) for name in self.arrivals] if self.arrivals else None

    @property
    def met(self) -> list[str]:
        return self.tasks[: len(self.accuracy[-1])] if self.accuracy else []

    @property
    def learned(self) -> list[float | None]:
        """The accuracy of each task right after it was learned, or after its last part."""
        latest = dict(zip(self.meetings, self.accuracy, strict=False))
        return [latest[name][place] for place, name in enumerate(self.met)]

    @property
    def finished(self) -> bool:
        return len(self.accuracy) == len(self.meetings)

    @property
    def changes(self) -> list[str]:
        """Changes when the run was resumed that decide the bits; usually none."""
        pairs = zip(self.sittings, self.sittings[1:], strict=False)
        return [
            f"after episode {after['episodes']} {change}"
            for before, after in pairs
            for change in [*after.get("code", []), *differences(before["environment"], after["environment"])]
        ]

    @property
    def seconds(self) -> dict[str, float]:
        """Total seconds of training and of evaluation over all episodes."""
        return {phase: math.fsum(episode.seconds[phase] for episode in self.episodes) for phase in PHASES}

    @property
    def processor_seconds(self) -> float | None:
        """Total processor seconds of training and of evaluation, over all threads and workers."""
        return _sum(episode.processor_seconds for episode in self.episodes)

    @property
    def rows_trained(self) -> int | None:
        """Rows passed through nets in training, over all episodes."""
        return _sum(episode.rows_trained for episode in self.episodes)

    @property
    def rows_asked(self) -> int | None:
        """Rows passed through nets in evaluation mode while learning, over all episodes, without tests."""
        return _sum(episode.rows_asked for episode in self.episodes)

    def summary(self) -> dict[str, float | None]:
        """The paper's measures of the matrix so far, and the costs of training, storage and prediction."""
        return {
            "average_accuracy": average_accuracy(self.accuracy, self.places),
            "forgetting": forgetting(self.accuracy, self.places),
            "forward_transfer": forward_transfer(self.accuracy, self.places),
            "backward_transfer": backward_transfer(self.accuracy, self.places),
            "processor_seconds": self.processor_seconds,
            "rows_trained": self.rows_trained,
            "rows_asked": self.rows_asked,
            "unique_accuracy": _mean(self.unique),
            "class_incremental_accuracy": _mean(self.untold.accuracy if self.untold else None),
            "class_incremental_inferred": _mean(self.untold.inferred if self.untold else None),
            "class_incremental_statistics": _mean(self.untold.statistics if self.untold else None),
            "class_incremental_rows_asked": self.untold.rows_asked if self.untold else None,
            **msgspec.structs.asdict(self.costs),
        }

    @property
    def costs(self) -> Costs:
        return Costs(*(getattr(self, name) for name in Costs.__struct_fields__))

    def save(self, path: Path | str) -> None:
        """Writes `results.json` into a folder, or to a path that ends in .json, whole or not at all."""
        self._check()
        own = {name: getattr(self, name) for name in File.__struct_fields__ if name not in ("format", "summary")}
        own |= {"episodes": [asdict(each) for each in self.episodes], "untold": msgspec.to_builtins(self.untold)}
        content = {"format": self.FORMAT, **own, "summary": self.summary()}
        save_json(_results_file(Path(path)), plain(content, "results"))

    @classmethod
    def load(cls, path: Path | str) -> "Results":
        """Reads what `save` wrote, from the folder or the file."""
        file = _results_file(Path(path))
        if not file.is_file():
            raise StoreError(f"{file} is missing; give the folder of a run, or its {cls.FILE}")
        return cls.from_json(load_json(file), str(file))

    @classmethod
    def from_json(cls, content: Mapping[str, Json], where: str) -> "Results":
        """Results from a record written by `save`; an error names where it was read."""
        _check_other_format(where, content, cls.FORMAT)
        what = "the record of a run"
        file = decode(content, File, where, what)
        read = {name: value for name, value in msgspec.structs.asdict(file).items() if name in cls.__dataclass_fields__}
        try:
            results = cls(**read, **msgspec.structs.asdict(file.summary))
        except (DataError, SettingsError) as error:
            raise StoreError(f"{where} is not {what}: {error}") from error
        if file.finished is not results.finished:
            met = f"{len(results.accuracy)} of {len(results.meetings)} tasks were met"
            raise StoreError(f"{where} is not {what}: finished is {file.finished}, but {met}")
        return results

    def _check(self) -> None:
        if self.arrivals and [*dict.fromkeys(self.arrivals)] != self.tasks:
            raise DataError(f"arrivals are of {[*dict.fromkeys(self.arrivals)]}, but the run's tasks are {self.tasks}")
        if len(self.accuracy) > len(self.meetings):
            what = "arrival" if self.arrivals else "task"
            raise DataError(
                f"{len(self.accuracy)} rows of accuracy but {len(self.meetings)} {what}s; give at most one row per {what}"
            )
        check(self.accuracy, self.places)
        if len(self.accuracy) != len(self.episodes):
            raise DataError(
                f"{len(self.accuracy)} rows of accuracy but {len(self.episodes)} episodes; give one row per episode"
            )
        untold = (self.untold.accuracy, self.untold.inferred, self.untold.statistics) if self.untold else ()
        for what, shares in (
            *(("without the task told", shares) for shares in untold),
            ("on unique rows", self.unique),
        ):
            if shares is not None and {*shares} != {*self.tasks}:
                raise DataError(f"accuracy {what} is of {[*shares]}, but the run's tasks are {self.tasks}")
        for number, episode in enumerate(self.episodes):
            if {*episode.seconds} != {*PHASES} or min(episode.seconds.values()) < 0:
                took = f"episode {number} took {dict(episode.seconds)} seconds"
                raise DataError(f"{took}; give those to 'train' and to 'evaluate', from 0")
            for name in [*episode.tasks, *(episode.weights or {})]:
                if name not in self.tasks:
                    raise DataError(
                        f"episode {number} mentions task {name!r}, which is not among the run's {len(self.tasks)}"
                    )


def _mean(shares: Mapping[str, float] | None) -> float | None:
    return math.fsum(shares.values()) / len(shares) if shares else None


def _sum(counts: Iterable[Number | None]) -> Number | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _results_file(path: Path) -> Path:
    is_file = path.is_file() or (path.suffix == ".json" and not path.is_dir())
    return path if is_file else path / Results.FILE


def _check_other_format(file: str, content: Mapping[str, Json], known: int) -> None:
    found = content.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise StoreError(
            f"{file} has format {found!r}; results of zoolearn have format {known}: is it another program's?"
        )
    if found > known:
        raise StoreError(
            f"{file} has format {found}, this zoolearn reads up to format {known}; install a newer zoolearn"
        )
