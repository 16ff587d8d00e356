"""`zoo sweep METHOD BENCHMARK --vary SETTING=VALUE,VALUE`: a run for every combination and seed, one table of all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import tyro

from zoolearn.cli.commands import wrap
from zoolearn.cli.flags import flag
from zoolearn.cli.form import RunOptions, change_settings, find_setting, make_plan, make_specs, read_form, read_value
from zoolearn.cli.side_by_side import run_side_by_side
from zoolearn.errors import SettingsError
from zoolearn.runs.own import Own, is_place, split_names
from zoolearn.runs.spec import RunSpec

USAGE = """usage: zoo sweep METHOD BENCHMARK --vary SETTING=VALUE,VALUE... [--vary ...] [--seeds N] [--out DIR] [--on ray] ...

A run for every combination of the values, and for every seed: a folder each, named by what varies, and one table over
all in the end. Any setting of the method, its recipe and the benchmark can vary (`zoo run METHOD --help` lists them);
all values are checked before the first run starts. The same command again skips what is finished and continues the rest.

example:    zoo sweep model-zoo split-digits --vary lr=0.001,0.01,0.1 --vary tasks_per_episode=2,5 --seeds 3 --epochs 5"""


@dataclass
class SweepOptions(RunOptions):
    """The sweep."""

    out: Path | None = flag("folder of the run folders", "DIR", "runs/sweep-METHOD-BENCHMARK")
    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = flag(
        "values that a setting takes in turn; may be given for several settings",
        "SETTING=VALUE,...",
        "none",
        default=(),
    )


def main(arguments: Sequence[str]) -> None:
    """Runs what is missing of a sweep, and shows the table of all."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(wrap(USAGE))
        return
    name = arguments[0]
    form = read_form([name], arguments[1:], f"zoo sweep {name}", SweepOptions)
    specs: dict[str, RunSpec] = {}
    for title, spec in _specs(name, form):
        if specs.setdefault(title, spec) is not spec:
            raise SettingsError(f"two runs would have the folder {title}; give files of orders other names")
    first = next(iter(specs.values()))
    folder = form.run.out or Path("runs") / f"sweep-{first.method}-{first.benchmark}"
    place = form.place.place()
    torch.set_num_threads(place.threads)
    run_side_by_side(specs, folder, make_plan(form, "sweep", *arguments), place)


def _specs(name: str, form: Any) -> Iterator[tuple[str, RunSpec]]:
    """All runs by their folders' names; a value that cannot be is refused here."""
    varied = [_values(form, text) for text in form.run.vary]
    if not varied:
        raise SettingsError(
            "nothing varies; give --vary SETTING=VALUE,VALUE (for seeds alone there is `zoo run --seeds`)"
        )
    settings = [setting for setting, _ in varied]
    for setting in settings:
        if settings.count(setting) > 1:
            raise SettingsError(f"{setting} varies twice; give all its values in one --vary {setting}=...")
    seeds = make_specs(name, form)
    for values in product(*(values for _, values in varied)):
        chosen = dict(zip(settings, values, strict=True))
        words = [f"{setting}={_title(value)}" for setting, value in chosen.items()]
        for seed, spec in seeds.items():
            other = change_settings(spec, chosen)
            if other.options != spec.options:
                other.tasks(form.tasks.data)
            yield "-".join([*words, f"seed{seed}"]), other


def _title(value: Any) -> str:
    """A value in the name of a folder."""
    if isinstance(value, str) and is_place(value):
        return Own.at(value).title
    return Path(value).name if isinstance(value, str) else str(value)


def _values(form: Any, text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    _, hint = find_setting(form, name)
    if not equals or not values.strip():
        raise SettingsError(f"--vary {text}: no values; write --vary {name}=VALUE,VALUE")
    return name, list(dict.fromkeys(read_value(name, hint, value) for value in split_names(values)))
