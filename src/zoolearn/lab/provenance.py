"""The command that makes a run, read back from its settings, so that every figure can say how to repeat it."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.files import Json
from zoolearn.lab.presets import PRESETS
from zoolearn.methods.model_zoo import GROW
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results
from zoolearn.training.recipe import Recipe

DATA_SEEDS = ("samples_seed", "order_seed")
OPTIONS = {"samples_per_class", "tasks", "first_tasks", "after_tasks", *DATA_SEEDS}  # of a benchmark, by flags


def run_command(runs: Sequence[Results]) -> str:
    """The `zoo run` that made these runs, which differ in their seeds alone: settings that are not the defaults, as flags.

    >>> record = {"method": "isolated", "benchmark": "split-mnist", "tasks": ["0-1"]}
    >>> settings = {"backbone": "small-conv", "recipe": {"epochs": 1}, "benchmark": {"samples_per_class": 100}}
    >>> run_command([Results(**record, settings={**settings, "seed": seed}) for seed in (0, 1)])
    'zoo run isolated split-mnist --epochs 1 --samples-per-class 100 --seeds 2 --out runs/isolated-split-mnist-e8b311'
    """
    first = runs[0]
    options = first.settings.get("benchmark") or {}
    if "validation" in options:
        return f"zoo tune {first.method} {first.benchmark}"
    if first.method not in METHODS or first.benchmark not in BENCHMARKS or not options.keys() <= OPTIONS:
        return f"# made in Python: {first.method} on {first.benchmark}"
    if lost := gone(first):
        return (
            f"# no command of this version repeats {first.method} on {first.benchmark} with {shlex.join(_flags(lost))}"
        )
    words = ["zoo", "run", first.method, first.benchmark, *_flags(changes(first))]
    words += _flags({name: value for name, value in options.items() if name not in DATA_SEEDS})
    moving = [name for name in DATA_SEEDS if len({_option(run, name) for run in runs}) > 1]
    words += _flags({name: options[name] for name in DATA_SEEDS if name not in moving and options.get(name)})
    out = _folder(first)
    seeds = sorted(int(run.settings.get("seed", 0)) for run in runs)
    if moving and all(_option(run, name) == run.settings.get("seed") for run in runs for name in moving):
        flags = " ".join(f"--{name.replace('_', '-')} $seed" for name in moving)
        return _loop(seeds, f"{shlex.join(words)} --seed $seed {flags}", out)
    if moving:  # seeds of data or order that are not those of the learners
        each = ({"seed": run.settings.get("seed", 0), **{name: _option(run, name) for name in moving}} for run in runs)
        return "; ".join(shlex.join([*words, *_flags(own), "--out", f"{out}/{n}"]) for n, own in enumerate(each))
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        return _loop(seeds, f"{shlex.join(words)} --seed $seed", out)
    words += ["--seed", str(seeds[0])] if seeds[0] else []
    words += ["--seeds", str(len(seeds))] if len(seeds) > 1 else []
    return shlex.join([*words, *(["--out", out] if changes(first).keys() - {"epochs"} or options else [])])


def _option(run: Results, name: str) -> Json:
    return (run.settings.get("benchmark") or {}).get(name)


def _loop(seeds: Sequence[int], command: str, out: str) -> str:
    return f"for seed in {' '.join(map(str, seeds))}; do {command} --out {out}/$seed; done"


def _folder(run: Results) -> str:
    """A folder of its own for runs with these settings, so that one command does not come in another's way."""
    settings = {**run.settings, "benchmark": {**(run.settings.get("benchmark") or {})}}
    for name in DATA_SEEDS:
        settings["benchmark"].pop(name, None)
    settings.pop("seed", None)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
    return f"runs/{run.method}-{run.benchmark}-{digest}"


def short_name(name: str, most: int = 200) -> str:
    """A file's name that file systems take: a long one is cut, and told from others by a digest of all of it.

    >>> short_name("run-s0"), short_name("long" * 99, most=20)
    ('run-s0', 'longlonglon-e01511c2')
    """
    if len(name.encode()) <= most:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: most - 9].decode(errors='ignore')}-{digest}"


def run_name(run: Results) -> str:
    """A name for a run's folder that says what it is: what is not default, in words."""
    options = run.settings.get("benchmark") or {}
    words = [f"{name.replace('_', '')}{value}" for name, value in {**changes(run), **options}.items()]
    return short_name("-".join([run.method, run.benchmark, *words, f"s{run.settings.get('seed', 0)}"]))


def preset_of(run: Results) -> str:
    """The name of the preset that a run was made with, and up to two settings that it changes; nothing if there is none.

    >>> settings = {"recipe": {"epochs": 1}, "benchmark": {}}
    >>> preset_of(Results(method="isolated", benchmark="split-cifar100", tasks=["0-1"], settings=settings))
    'zoo-2022'
    """
    usual = defaults(run.method)
    usual = {**usual, **usual.get("recipe", {})}
    options = {name: value for name, value in (run.settings.get("benchmark") or {}).items() if name not in DATA_SEEDS}
    near = ""
    for preset in PRESETS:
        named = {**preset.learner, **preset.recipe}
        wanted = {**preset.tasks, **{name: value for name, value in named.items() if value != usual.get(name)}}
        own = {**options, **{name: value for name, value in changes(run).items() if name != "epochs" or name in named}}
        if not preset.suits(run.method, run.benchmark) or not wanted.items() <= own.items():
            continue
        more = {name: value for name, value in own.items() if name not in wanted}
        if not more:
            return preset.name
        if len(more) <= 2 < len(wanted):  # else it is hardly the preset
            near = near or ", ".join([preset.name, *(f"{name}={value}" for name, value in more.items())])
    return near


def defaults(method: str) -> dict[str, Json]:
    """The settings of a method that nobody has touched."""
    return METHODS[method]().settings() if method in METHODS else {}


def changes(run: Results) -> dict[str, Json]:
    """The settings of learner and recipe that are not the method's defaults, under their own names."""
    return _different(run.settings, defaults(run.method))


def _different(settings: Mapping[str, Json], defaults: Mapping[str, Json]) -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for name, value in settings.items():
        if name == "recipe":
            flat |= _different(value, defaults.get("recipe", {}))
        elif name not in ("seed", "benchmark") and value != defaults.get(name):
            flat |= _by_flags(name, value) if isinstance(value, Mapping) else {name: value}
    return flat


def _by_flags(name: str, choice: Mapping[str, Json]) -> dict[str, Json]:
    """A function that has settings of its own as flags give it: its name, and those that are not its defaults."""
    usual = {own.name: own.default for own in fields(GROW[choice["name"]])} if choice.get("name") in GROW else {}
    own = {setting: value for setting, value in choice.items() if setting != "name" and value != usual.get(setting)}
    return {name: choice.get("name"), **own}


def flat_settings(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Settings of a learner as a preset has them: those of a function beside its name."""
    flat: dict[str, Json] = {}
    for name, value in settings.items():
        flat |= _by_flags(name, value) if isinstance(value, Mapping) else {name: value}
    return flat


def gone(run: Results) -> dict[str, Json]:
    """What a run was made with and this version does not have: settings that were tried and deleted (docs/log.md)."""
    if run.method not in METHODS:
        return {}
    known = {setting.name: setting for cls in (METHODS[run.method], Recipe) for setting in fields(cls)}
    known |= {own.name: own for grow in GROW.values() if is_dataclass(grow) for own in fields(grow)}
    choices = {name: setting.metadata["choices"] for name, setting in known.items() if "choices" in setting.metadata}
    return {
        name: value
        for name, value in changes(run).items()
        if name not in known or (name in choices and value not in choices[name])
    }


def _flags(settings: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            short = isinstance(value, float) and float(f"{value:g}") == value
            words += [f"--{flag}", f"{value:g}" if short else str(value)]
    return words
