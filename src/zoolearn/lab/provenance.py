"""The command that makes a run, read back from its settings, so that every figure can say how to repeat it."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.files import Json, short_name
from zoolearn.lab.presets import PRESETS
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results

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
    words = ["zoo", "run", first.method, first.benchmark, *_flags(changes(first))]
    words += _flags({name: value for name, value in options.items() if name not in DATA_SEEDS})
    moving = [name for name in DATA_SEEDS if len({_option(run, name) for run in runs}) > 1]
    words += _flags({name: options[name] for name in DATA_SEEDS if name not in moving and options.get(name)})
    if crew := first.environment.get("workers_per_member"):
        words += ["--on", "ray", "--workers-per-member", str(crew)]
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
            flat[name] = value
    return flat


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
