"""`zoo list`: every name that the other commands take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from zoolearn.benchmarks import BENCHMARKS
from zoolearn.cli.flags import parse
from zoolearn.methods import METHODS
from zoolearn.nets import BACKBONES


@dataclass
class ListOptions:
    """Nothing to choose."""


def main(arguments: Sequence[str]) -> None:
    """Prints methods, benchmarks and backbones, each with its idea in a line."""
    parse(ListOptions, arguments, "zoo list", "The methods, benchmarks and backbones by name.")
    console = Console()
    for title, table in (("methods", METHODS), ("benchmarks", BENCHMARKS), ("backbones", BACKBONES)):
        console.print(_listing(title, table))


def _listing(title: str, table: Mapping[str, Callable[..., Any]]) -> Table:
    listing = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
    for name, thing in table.items():
        first_sentence = " ".join((thing.__doc__ or "").partition("\n\n")[0].split())
        listing.add_row(name, first_sentence)
    return listing
