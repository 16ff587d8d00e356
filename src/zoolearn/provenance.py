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
    >>> settings = {"backbone": "small-conv", "seed": 1, "recipe": {"epochs": 1}, "benchmark": {"samples_per_class": 100}}
    >>> run_command([Results(**record, settings=settings)])
    'zoo run isolated split-mnist --seed 1 --epochs 1 --samples-per-class 100'
    """
    first = runs[0]
    words = ["zoo", "run", first.method, first.benchmark, *_seeds(runs)]
    words += _flags(_different(first.settings, _defaults(first.method)))
    options = first.settings.get("benchmark") or {}
    words += _flags({name: value for name, value in options.items() if not name.endswith("_seed") or len(runs) == 1})
    return shlex.join(words)


def _seeds(runs: Sequence[Results]) -> list[str]:
    seeds = [str(run.settings["seed"]) for run in runs if "seed" in run.settings]
    return ["--seed", *seeds] if len(seeds) == 1 else ["--seeds", *seeds] if seeds else []


def _defaults(method: str) -> dict[str, Json]:
    return METHODS[method]().settings() if method in METHODS else {}


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
            words += [f"--{flag}", f"{value:g}" if isinstance(value, float) else str(value)]
    return words
