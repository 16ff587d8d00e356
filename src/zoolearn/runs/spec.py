"""The description of a run as plain data: runs are made, named, found, compared and repeated by it."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Self

from zoolearn.data.benchmarks import BENCHMARKS, CUTS, load_benchmark, record_options, restrict
from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.features.benchmarks import FEATURES, extract_benchmark, open_extractor_file
from zoolearn.files import Json
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS, learner_from, settings_of
from zoolearn.runs.own import Own
from zoolearn.runs.settings import defaults, flatten, nest, recipe_defaults, setting_names
from zoolearn.runs.source import digest_code

ORDERS = ("task_order", "class_order", "permutation_seed", "arrivals_seed")  # seeds, or orders themselves
DATA_SEEDS = ("samples_seed", *ORDERS)
LONGEST_NAME = 200  # bytes that file systems take


@dataclass(frozen=True)
class RunSpec:
    """A method with its settings, on a benchmark with its options, with a seed.

    `settings` are those of the learner and of its recipe, flat, as flags and presets have them; the others are
    default. `options` are what `benchmark` takes, and the checksum of an extractor if the run is on `features`.
    `own` says where the caller's code is, and `extractor` where that file is; records of runs hold neither.

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
    own: Mapping[str, Own] = field(default_factory=dict, compare=False)  # by what it is: method, benchmark, a setting
    extractor: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        usual = {name: record_options(**{name: usual.default}).get(name) for name, usual in self._takes().items()}
        given = record_options(**self.options).items()
        object.__setattr__(self, "options", {n: value for n, value in given if n in CUTS or value != usual.get(n)})

    @classmethod
    def of_record(cls, method: str, benchmark: str, settings: Mapping[str, Json]) -> Self:
        """The description in the record of a run."""
        flat = flatten({name: value for name, value in settings.items() if name not in ("benchmark", "seed")})
        if "recipe" in settings:  # records leave out later settings at their defaults, whatever the method
            flat = {**recipe_defaults(Learner), **flat}
        return cls(method, benchmark, flat, settings.get("benchmark") or {}, settings.get("seed", 0))

    def check(self) -> Self:
        """Raises if it cannot be run, before any work; drops settings of functions that are not chosen."""
        if self.benchmark not in BENCHMARKS and "benchmark" not in self.own:
            raise SettingsError(unknown_name("benchmark", self.benchmark, BENCHMARKS))
        self.learner()
        return replace(self, settings=flatten(nest(self.kind, self.settings)))

    @property
    def kind(self) -> type[Learner]:
        if "method" in self.own:
            return self.own["method"].method()
        if self.method not in METHODS:
            raise SettingsError(unknown_name("method", self.method, METHODS))
        return METHODS[self.method]

    def learner(self) -> Learner:
        names: dict[str, Any] = {}
        for setting, own in self.own.items():
            if setting not in ("method", "benchmark"):
                names[own.name] = own.function()
        whole = {**recipe_defaults(self.kind), **self.settings}
        return learner_from(self.kind, {**nest(self.kind, whole), "seed": self.seed}, names)

    def tasks(self, data: Path | None = None, whole: Benchmark | None = None) -> Benchmark:
        """The tasks that the learner is shown: from the data root, or cut from a loaded benchmark."""
        whole = whole or self.whole(data)
        cut = restrict(whole, **{name: value for name, value in self.options.items() if name in CUTS})
        return self._extract(cut, data) if FEATURES in self.options else cut

    def _extract(self, tasks: Benchmark, data: Path | None) -> Benchmark:
        if self.extractor is None:
            raise SettingsError(f"the run is on features of {self.options[FEATURES]}; name the file (--features FILE)")
        steps = self.settings.get("grow") == "statistics"  # statistics are of rows as they are stored
        made = extract_benchmark(tasks, open_extractor_file(self.extractor), data, steps=steps)
        if made.options[FEATURES] != self.options[FEATURES]:
            raise SettingsError(
                f"{self.extractor} is {made.options[FEATURES]}, the run is on features of {self.options[FEATURES]}; name that file"
            )
        return made

    def whole(self, data: Path | None = None) -> Benchmark:
        """The benchmark before it is cut down."""
        if "benchmark" in self.own:
            return self.own["benchmark"].benchmark(data, self.making)
        return load_benchmark(self.benchmark, data, **self.making)

    @property
    def source(self) -> dict[str, str]:
        """Digests of the caller's code."""
        made_by = self.own.get("benchmark")
        return {**digest_code(self.learner()), **(made_by.benchmark_source if made_by else {})}

    @property
    def making(self) -> dict[str, Json]:
        """The options that the benchmark is made with; the others restrict it."""
        return {name: value for name, value in self.options.items() if name not in CUTS and name != FEATURES}

    def record(self) -> dict[str, Json]:
        return {**settings_of(self.learner()), "benchmark": self.options}

    @property
    def changes(self) -> dict[str, Json]:
        usual = self._defaults()
        return {
            name: value for name, value in self.settings.items() if name in self.own or value != usual.get(name, ...)
        }

    @property
    def deleted(self) -> dict[str, Json]:
        """Settings of a record that its method no longer has."""
        known = setting_names(self.kind) if self.method in METHODS else self.settings.keys()
        return {name: value for name, value in self.settings.items() if name not in known}

    @property
    def without_deleted(self) -> Self:
        """The run of today that comes next to a record; not the same one."""
        return replace(self, settings={n: value for n, value in self.settings.items() if n not in self.deleted})

    @property
    def identity(self) -> str:
        """Equal for descriptions of the same run."""
        whole = {**self._defaults(), **self.settings, "seed": self.seed}
        if "method" in self.own:  # as its record has it, where the class is not known
            whole = {**defaults(Learner, {}), **flatten(settings_of(self.learner())), "seed": self.seed}
        return json.dumps([self.method, self.benchmark, whole, self.options], sort_keys=True)

    @property
    def family(self) -> str:
        """Equal for runs that differ in seeds only: of the learner, of its samples and of orders."""
        return replace(self, seed=0, options=self.shown_options).identity

    @property
    def shown_options(self) -> dict[str, Json]:
        """The options without seeds; an order decided by a seed is "shuffled"."""
        shown: dict[str, Json] = {}
        for name, value in self.options.items():
            if name in ORDERS and not isinstance(value, int):
                shown[name] = value
            elif name in ("task_order", "class_order"):
                shown[name] = "shuffled"
            elif name not in DATA_SEEDS:
                shown[name] = value
        return shown

    @property
    def stream(self) -> str:
        """The benchmark; on pre-trained features it counts as another one."""
        return f"{self.benchmark} on pre-trained features" if FEATURES in self.options else self.benchmark

    def _takes(self) -> Mapping[str, Parameter]:
        """The parameters of the benchmark's function."""
        if "benchmark" in self.own:
            return self.own["benchmark"].takes
        return signature(BENCHMARKS[self.benchmark]).parameters if self.benchmark in BENCHMARKS else {}

    def _defaults(self) -> dict[str, Json]:
        known = "method" in self.own or self.method in METHODS
        return defaults(self.kind if known else Learner, self.settings)

    @property
    def name(self) -> str:
        """A folder name: what is not default, in words."""
        shown = {**self.changes, **self.options}
        words = [f"{name.replace('_', '')}{_word(value)}" for name, value in shown.items()]
        return short_name("-".join([self.method, self.benchmark, *words, f"s{self.seed}"]))

    @property
    def command(self) -> str:
        if "validation" in self.options:
            return shlex.join(["zoo", "tune", *self.subject])
        file = {FEATURES: str(self.extractor)} if self.extractor else {}
        seed = {"seed": self.seed} if self.seed else {}
        flags = write_flags({**self.changes, **self.own_settings, **self.options, **file, **seed})
        return shlex.join(["zoo", "run", *self.subject, *flags])

    @property
    def subject(self) -> tuple[str, str]:
        """The words that name the method and the benchmark."""
        method, benchmark = (self.own[name].word if name in self.own else None for name in ("method", "benchmark"))
        return method or self.method, benchmark or self.benchmark

    @property
    def own_settings(self) -> dict[str, Json]:
        """The settings that are the caller's functions, by the words that name them."""
        return {name: own.word for name, own in self.own.items() if name not in ("method", "benchmark")}


def short_name(name: str, most: int = LONGEST_NAME) -> str:
    """A valid file name: a long one is cut and gets a digest.

    >>> short_name("run-s0"), short_name("long" * 99, most=20)
    ('run-s0', 'longlonglon-e01511c2')
    """
    if len(name.encode()) <= most:
        return name
    return f"{name.encode()[: most - 9].decode(errors='ignore')}-{sha256(name.encode()).hexdigest()[:8]}"


def _word(value: Json) -> str:
    return "+".join(map(_number, value)) if isinstance(value, list | tuple) else str(value)


def write_flags(settings: Mapping[str, Json]) -> list[str]:
    """The command-line words of these settings."""
    words: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *_words(name, value)]
    return words


def _words(name: str, value: Json) -> list[str]:
    if isinstance(value, list | tuple):
        return [",".join(value)] if name in ORDERS else [*map(_number, value)]
    return [_number(value)]


def _number(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
