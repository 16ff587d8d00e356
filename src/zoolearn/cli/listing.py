"""`zoo list`: every name that the other commands take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from zoolearn.cli import output
from zoolearn.cli.flags import parse
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.lab.published import PRESETS
from zoolearn.methods.registry import METHODS
from zoolearn.nets.backbones import BACKBONES


@dataclass
class ListOptions:
    """What to list."""

    presets: Annotated[bool, tyro.conf.arg(help="the settings behind published numbers instead")] = False


def main(arguments: Sequence[str]) -> None:
    """Prints methods, benchmarks and backbones, each with its idea in a line; or the presets with what they aim at."""
    options = parse(ListOptions, arguments, "zoo list", "The methods, benchmarks and backbones by name.")
    console = output.console()
    if options.presets:
        console.print(_presets())
        return
    for title, table in (("methods", METHODS), ("benchmarks", BENCHMARKS), ("backbones", BACKBONES)):
        console.print(_listing(title, table))


def _listing(title: str, table: Mapping[str, Callable[..., Any]]) -> Table:
    listing = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
    for name, thing in table.items():
        first_sentence = " ".join((thing.__doc__ or "").partition("\n\n")[0].split())
        listing.add_row(name, first_sentence)
    return listing


def _presets() -> Table:
    table = Table("command", "aims at %", "published by", box=None, padding=(0, 2))
    for preset in PRESETS:
        command = f"zoo run {preset.spec.method} {preset.spec.benchmark} --preset {preset.name}"
        table.add_row(command, preset.target, preset.source)
    return table
