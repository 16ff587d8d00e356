"""What a run is, as plain data: by it runs are made, named, found again, compared and repeated."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from inspect import Parameter, signature
from pathlib import Path
from typing import Self

from zoolearn.data.benchmarks import BENCHMARKS, CUTS, cut_down, options_record, whole_benchmark
from zoolearn.data.task import Benchmark
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS, learner_from
from zoolearn.runs.settings import defaults, flatten, nest

DATA_SEEDS = ("samples_seed", "order_seed")  # options of a benchmark that are seeds
LONGEST_NAME = 200  # bytes that file systems take


@dataclass(frozen=True)
class RunSpec:
    """A method with its settings, on a benchmark cut by its options, with a seed.

    `settings` are those of the learner and of its recipe, under their own names, as flags and presets have them; those
    that are not given have their defaults. `options` are what `benchmark` takes.

    >>> spec = RunSpec("model-zoo", "split-mnist", {"replay": 0.1, "epochs": 1}, {"first_tasks": 3}, seed=2)
    >>> spec.name
    'model-zoo-split-mnist-replay0.1-epochs1-firsttasks3-s2'
    >>> spec.command
    'zoo run model-zoo split-mnist --replay 0.1 --epochs 1 --first-tasks 3 --seed 2'
    """

    method: str
    benchmark: str
    settings: Mapping[str, Json] = field(default_factory=dict)
    options: Mapping[str, Json] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        usual = {name: usual.default for name, usual in _takes(self.benchmark).items()}
        given = options_record(**self.options).items()
        object.__setattr__(self, "options", {n: value for n, value in given if n in CUTS or value != usual.get(n)})

    @classmethod
    def of_record(cls, method: str, benchmark: str, settings: Mapping[str, Json]) -> Self:
        """What the record of a run says that it is."""
        flat = flatten({name: value for name, value in settings.items() if name not in ("benchmark", "seed")})
        return cls(method, benchmark, flat, settings.get("benchmark") or {}, settings.get("seed", 0))

    def check(self) -> Self:
        """Refuses what cannot be run, before any work; settings of functions that are not chosen are left out."""
        if self.benchmark not in BENCHMARKS:
            raise SettingsError(unknown_name("benchmark", self.benchmark, BENCHMARKS))
        self.learner()
        return replace(self, settings=flatten(nest(self.kind, self.settings)))

    @property
    def kind(self) -> type[Learner]:
        """The class of the learner."""
        if self.method not in METHODS:
            raise SettingsError(unknown_name("method", self.method, METHODS))
        return METHODS[self.method]

    def learner(self) -> Learner:
        """A new learner with these settings."""
        return learner_from(self.kind, {**nest(self.kind, self.settings), "seed": self.seed})

    def tasks(self, data: Path | None = None, whole: Benchmark | None = None) -> Benchmark:
        """The tasks that the learner is shown: from the data root, or cut from the whole benchmark that is at hand."""
        whole = whole or whole_benchmark(self.benchmark, data, **self.making)
        return cut_down(whole, **{name: value for name, value in self.options.items() if name in CUTS})

    @property
    def making(self) -> dict[str, Json]:
        """The options that the benchmark itself is made with; the others cut it down."""
        return {name: value for name, value in self.options.items() if name not in CUTS}

    def record(self) -> dict[str, Json]:
        """The settings as a run records them."""
        return {**self.learner().settings(), "benchmark": self.options}

    @property
    def changes(self) -> dict[str, Json]:
        """The settings that are not the method's defaults."""
        usual = self._defaults()
        return {name: value for name, value in self.settings.items() if name not in usual or value != usual[name]}

    @property
    def identity(self) -> str:
        """Equal for descriptions of the same run."""
        whole = {**self._defaults(), **self.settings, "seed": self.seed}
        return json.dumps([self.method, self.benchmark, whole, self.options], sort_keys=True)

    @property
    def family(self) -> str:
        """Equal for runs that differ in their seeds alone: those of the learner, of its samples and of the task order."""
        options = {name: value for name, value in self.options.items() if name not in DATA_SEEDS}
        shuffled = {"order": "shuffled"} if "order_seed" in self.options else {}
        return replace(self, seed=0, options={**options, **shuffled}).identity

    def _defaults(self) -> dict[str, Json]:
        return defaults(METHODS[self.method], self.settings) if self.method in METHODS else {}

    @property
    def name(self) -> str:
        """A name for its folder: what is not default, in words."""
        said = {**self.changes, **self.options}
        words = [f"{name.replace('_', '')}{_word(value)}" for name, value in said.items()]
        return short_name("-".join([self.method, self.benchmark, *words, f"s{self.seed}"]))

    @property
    def command(self) -> str:
        """The command that does it."""
        if "validation" in self.options:
            return f"zoo tune {self.method} {self.benchmark}"
        flags = _flags({**self.changes, **self.options, **({"seed": self.seed} if self.seed else {})})
        return shlex.join(["zoo", "run", self.method, self.benchmark, *flags])


def _takes(benchmark: str) -> Mapping[str, Parameter]:
    """What a benchmark's own function takes."""
    return signature(BENCHMARKS[benchmark]).parameters if benchmark in BENCHMARKS else {}


def short_name(name: str, most: int = LONGEST_NAME) -> str:
    """A file's name that file systems take: a long one is cut, and told from others by a digest of all of it.

    >>> short_name("run-s0"), short_name("long" * 99, most=20)
    ('run-s0', 'longlonglon-e01511c2')
    """
    if len(name.encode()) <= most:
        return name
    return f"{name.encode()[: most - 9].decode(errors='ignore')}-{sha256(name.encode()).hexdigest()[:8]}"


def _word(value: Json) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _flags(settings: Mapping[str, Json]) -> list[str]:
    words: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *(map(str, value) if isinstance(value, list) else [_number(value)])]
    return words


def _number(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
