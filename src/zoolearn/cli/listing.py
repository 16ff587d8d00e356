"""`zoo list`: every name that the other commands take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoolearn.cli import output
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import flag, parse
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.lab.published import PRESETS
from zoolearn.methods.registry import METHODS
from zoolearn.nets.backbones import BACKBONES


@dataclass
class ListOptions:
    """What to list."""

    presets: bool = flag("the settings behind published numbers instead", default=False)


def main(arguments: Sequence[str]) -> None:
    """Prints methods, benchmarks and backbones, each with its idea in a line; or the presets with what they aim at."""
    options = parse(ListOptions, arguments, "zoo list", "The methods, benchmarks and backbones by name.")
    console = output.console()
    if options.presets:
        header = ("command", "aims at %", "published by")
        rows = [
            (f"zoo run {each.spec.method} {each.spec.benchmark} --preset {each.name}", each.target, each.source)
            for each in PRESETS
        ]
        console.print(make_table(header, rows, words=header))
        return
    known: dict[str, Mapping[str, Callable[..., Any]]]
    known = {"methods": METHODS, "benchmarks": BENCHMARKS, "backbones": BACKBONES}
    for title, table in known.items():
        listed = [(name, _sentence(thing)) for name, thing in table.items()]
        console.print(make_table(("", ""), listed, words=("",), title=title))


def _sentence(thing: Callable[..., Any]) -> str:
    """The first sentence that a thing says of itself."""
    return " ".join((thing.__doc__ or "").partition("\n\n")[0].split())
