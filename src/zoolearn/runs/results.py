"""What a run leaves behind: accuracies, times, settings and what each episode drew, in one JSON file."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import ClassVar

from zoolearn.errors import DataError, SettingsError, StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.runs.environment import differences
from zoolearn.runs.metrics import average_accuracy, backward_transfer, check, forgetting, forward_transfer

PHASES = ("train", "evaluate")


@dataclass(frozen=True)
class EpisodeRecord:
    """What one episode did: the tasks trained on, the sampling weights of past tasks, the training loss, the seconds.

    `weights` is None where nothing was drawn, `loss` is None where nothing was trained.

    >>> EpisodeRecord(tasks=["0-1"], weights=None, loss=0.25, seconds={"train": 1.5, "evaluate": 0.5})
    EpisodeRecord(tasks=['0-1'], weights=None, loss=0.25, seconds={'train': 1.5, 'evaluate': 0.5})
    """

    tasks: list[str]
    weights: dict[str, float] | None
    loss: float | None
    seconds: dict[str, float]

    def __post_init__(self) -> None:
        if set(self.seconds) != set(PHASES):
            raise DataError(f"an episode's seconds are given for {sorted(self.seconds)}; give 'train' and 'evaluate'")
        for phase, value in self.seconds.items():
            _check_unless_finite(f"seconds to {phase}", value, lowest=0)
        for task, value in (self.weights or {}).items():
            _check_unless_finite(f"sampling weight of task {task!r}", value, lowest=0)
        if self.loss is not None:
            _check_unless_finite("training loss", self.loss)


@dataclass(kw_only=True)
class Results:
    """A run so far: settings, and for each episode a row of the accuracy matrix and a record.

    `tasks` names all tasks of the benchmark, those not yet met included; row k of `accuracy` answers for tasks 0 to k.
    The functions of `metrics` take it as it is.

    >>> record = EpisodeRecord(tasks=["0-1"], weights=None, loss=0.25, seconds={"train": 1.5, "evaluate": 0.5})
    >>> results = Results(method="isolated", benchmark="split-mnist", tasks=["0-1", "2-3"], settings={"seed": 0})
    >>> results.accuracy.append([0.75])
    >>> results.episodes.append(record)
    >>> results.finished, results.summary()["average_accuracy"], results.seconds
    (False, 0.75, {'train': 1.5, 'evaluate': 0.5})
    """

    FORMAT: ClassVar[int] = 1
    FILE: ClassVar[str] = "results.json"

    method: str
    benchmark: str
    tasks: list[str]
    settings: dict[str, Json]
    environment: dict[str, Json] = field(default_factory=dict)
    accuracy: list[list[float | None]] = field(default_factory=list)
    episodes: list[EpisodeRecord] = field(default_factory=list)
    stored_samples: int = 0
    num_parameters: int = 0
    ms_per_sample: float | None = None
    train_samples: list[int] = field(default_factory=list)  # of each task; records that are older have none
    sittings: list[dict[str, Json]] = field(
        default_factory=list
    )  # each time it was begun or continued: when, after how many episodes, on what

    def __post_init__(self) -> None:
        self.settings = plain(self.settings, "settings")
        self.environment = plain(self.environment, "environment")
        self._check()

    @property
    def finished(self) -> bool:
        """Whether all tasks were met."""
        return len(self.accuracy) == len(self.tasks)

    @property
    def changes(self) -> list[str]:
        """What decided the bits and was changed when the run was continued; nothing for most runs."""
        pairs = zip(self.sittings, self.sittings[1:], strict=False)
        return [
            f"after episode {after['episodes']} {change}"
            for before, after in pairs
            for change in differences(before["environment"], after["environment"])
        ]

    @property
    def seconds(self) -> dict[str, float]:
        """Total seconds of training and of evaluation over all episodes."""
        return {phase: math.fsum(episode.seconds[phase] for episode in self.episodes) for phase in PHASES}

    def summary(self) -> dict[str, float | None]:
        """The paper's measures of the matrix so far, and what the learner costs to keep and to ask."""
        return {
            "average_accuracy": average_accuracy(self.accuracy),
            "forgetting": forgetting(self.accuracy),
            "forward_transfer": forward_transfer(self.accuracy),
            "backward_transfer": backward_transfer(self.accuracy),
            "stored_samples": self.stored_samples,
            "num_parameters": self.num_parameters,
            "ms_per_sample": self.ms_per_sample,
        }

    def save(self, path: Path | str) -> None:
        """Writes `results.json` into a folder, or to a path that ends in .json, whole or not at all."""
        self._check()
        content = {
            "format": self.FORMAT,
            "method": self.method,
            "benchmark": self.benchmark,
            "tasks": self.tasks,
            "train_samples": self.train_samples,
            "settings": self.settings,
            "accuracy": self.accuracy,
            "episodes": [asdict(episode) for episode in self.episodes],
            "summary": self.summary(),
            "environment": self.environment,
            "sittings": self.sittings,
            "finished": self.finished,
        }
        save_json(_results_file(Path(path)), plain(content, "results"))

    @classmethod
    def load(cls, path: Path | str) -> "Results":
        """Reads what `save` wrote, from the folder or the file; a file that is anything else is an error that says how."""
        file = _results_file(Path(path))
        if not file.is_file():
            raise StoreError(f"{file} is missing; give the folder of a run, or its {cls.FILE}")
        return cls.from_json(load_json(file), str(file))

    @classmethod
    def from_json(cls, content: Mapping[str, Json], where: str) -> "Results":
        """What a record says, as `save` wrote it; an error names where it was read."""
        _check_other_format(where, content, cls.FORMAT)
        try:
            return _from_json(content)
        except (DataError, SettingsError) as error:
            raise StoreError(f"{where} is not the record of a run: {error}") from error

    def _check(self) -> None:
        check(self.accuracy)
        if len(self.accuracy) > len(self.tasks):
            raise DataError(
                f"{len(self.accuracy)} rows of accuracy but {len(self.tasks)} tasks; give at most one row per task"
            )
        if len(self.accuracy) != len(self.episodes):
            raise DataError(
                f"{len(self.accuracy)} rows of accuracy but {len(self.episodes)} episodes; give one row per episode"
            )
        for number, episode in enumerate(self.episodes):
            for name in [*episode.tasks, *(episode.weights or {})]:
                if name not in self.tasks:
                    raise DataError(
                        f"episode {number} mentions task {name!r}, which is not among the run's {len(self.tasks)}"
                    )
        _check_unless_finite("number of stored samples", self.stored_samples, lowest=0)
        _check_unless_finite("number of parameters", self.num_parameters, lowest=0)
        if self.ms_per_sample is not None:
            _check_unless_finite("time per sample", self.ms_per_sample, lowest=0)


def plain(value: Json, name: str) -> Json:
    """The value as JSON gives it back (tuples as lists, numbers as Python's), or an error that names what JSON cannot hold.

    >>> plain({"classes": (1, 2)}, "settings")
    {'classes': [1, 2]}
    >>> plain({"recipe": {"device": 1j}}, "settings")
    Traceback (most recent call last):
    zoolearn.errors.SettingsError: settings.recipe.device is 1j, which JSON cannot hold; record its name or number
    """
    if value is None or isinstance(value, str | bool | int) or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(entry, f"{name}[{place}]") for place, entry in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(entry, f"{name}.{key}") for key, entry in value.items()}
    raise SettingsError(f"{name} is {value!r}, which JSON cannot hold; record its name or number")


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


def _from_json(content: Mapping[str, Json]) -> Results:
    summary = _entry(content, "summary", dict)
    results = Results(
        method=_entry(content, "method", str),
        benchmark=_entry(content, "benchmark", str),
        tasks=_all(_entry(content, "tasks", list), "tasks", str),
        settings=_entry(content, "settings", dict),
        environment=_entry(content, "environment", dict),
        accuracy=_all(_entry(content, "accuracy", list), "accuracy", list),
        episodes=[_episode(entry) for entry in _all(_entry(content, "episodes", list), "episodes", dict)],
        stored_samples=_entry(summary, "stored_samples", int),
        num_parameters=_entry(summary, "num_parameters", int),
        ms_per_sample=_entry(summary, "ms_per_sample", float, int, type(None)),
        train_samples=_all(content.get("train_samples") or [], "train_samples", int),
        sittings=_all(content.get("sittings") or [], "sittings", dict),
    )
    if content.get("finished") is not results.finished:
        raise DataError(
            f"'finished' is {content.get('finished')!r}, but {len(results.accuracy)} of {len(results.tasks)} tasks were met"
        )
    return results


def _episode(content: Mapping[str, Json]) -> EpisodeRecord:
    return EpisodeRecord(
        tasks=_all(_entry(content, "tasks", list), "tasks", str),
        weights=_entry(content, "weights", dict, type(None)),
        loss=_entry(content, "loss", float, int, type(None)),
        seconds=_entry(content, "seconds", dict),
    )


def _entry(content: Mapping[str, Json], key: str, *kinds: type) -> Json:
    if key not in content:
        raise DataError(f"it lacks the entry {key!r}")
    return _of_kind(content[key], repr(key), *kinds)


def _all(values: list[Json], name: str, kind: type) -> list[Json]:
    return [_of_kind(value, f"entry {place} of {name!r}", kind) for place, value in enumerate(values)]


def _of_kind(value: Json, name: str, *kinds: type) -> Json:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise DataError(f"{name} is {value!r}, not of type {' or '.join(kind.__name__ for kind in kinds)}")
    return value


def _check_unless_finite(name: str, value: object, lowest: float = -math.inf) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < lowest:  # type: ignore[arg-type, operator]
        bound = "" if lowest == -math.inf else f" from {lowest}"
        raise DataError(f"the {name} is {value!r}; give a finite number{bound}")
