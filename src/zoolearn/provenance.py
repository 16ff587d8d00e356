"""The command that makes a run, read back from its settings, so that every figure can say how to repeat it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from zoolearn.files import Json
from zoolearn.methods import METHODS
from zoolearn.results import Results


def run_command(runs: Sequence[Results]) -> str:
    """The `zoo run` that made these runs, which differ in their seeds alone: settings that are not the defaults, as flags.

    >>> record = {"method": "isolated", "benchmark": "split-mnist", "tasks": ["0-1"]}
    >>> settings = {"backbone": "small-conv", "recipe": {"epochs": 1}, "benchmark": {"samples_per_class": 100}}
    >>> run_command([Results(**record, settings={**settings, "seed": seed}) for seed in (0, 1)])
    'zoo run isolated split-mnist --epochs 1 --samples-per-class 100 --seeds 2'
    """
    first = runs[0]
    options = first.settings.get("benchmark") or {}
    data_seeds = [name for name in options if name.endswith("_seed")]
    words = ["zoo", "run", first.method, first.benchmark, *_flags(changes(first))]
    words += _flags({name: value for name, value in options.items() if name not in data_seeds})
    seeds = sorted(int(run.settings.get("seed", 0)) for run in runs)
    moving = [name for name in data_seeds if len({run.settings["benchmark"].get(name) for run in runs}) > 1]
    words += _flags({name: options[name] for name in data_seeds if name not in moving and options[name] != 0})
    if moving:  # each run has data or an order of its own: a loop over seeds
        flags = " ".join(f"--{name.replace('_', '-')} $seed" for name in moving)
        return f"for seed in {' '.join(map(str, seeds))}; do {shlex.join(words)} --seed $seed {flags}; done"
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        return f"for seed in {' '.join(map(str, seeds))}; do {shlex.join(words)} --seed $seed; done"
    words += ["--seed", str(seeds[0])] if seeds[0] else []
    words += ["--seeds", str(len(seeds))] if len(seeds) > 1 else []
    return shlex.join(words)


def run_name(run: Results) -> str:
    """A name for a run's folder that says what it is: what is not default, in words."""
    options = run.settings.get("benchmark") or {}
    words = [f"{name.replace('_', '')}{value}" for name, value in {**changes(run), **options}.items()]
    return "-".join([run.method, run.benchmark, *words, f"s{run.settings.get('seed', 0)}"])


def changes(run: Results) -> dict[str, Json]:
    """The settings of learner and recipe that are not the method's defaults, under their own names."""
    return _different(run.settings, METHODS[run.method]().settings() if run.method in METHODS else {})


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
