"""`zoo distil FOLDER TO`: one small net that answers like the whole zoo."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.bars import follow, take_threads
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import ZooPath, about, flag, parse
from zoolearn.words import megabytes
from zoolearn.zoo import Zoo
from zoolearn.zoo.distilling import iter_distil_zoo

IDEA = """Train one net to answer for every task as all members of a zoo together do, with the rows that the zoo stores.

It becomes the only member of a new zoo, which predicts, exports and learns on like any other; the old one stays."""


@dataclass
class DistilOptions:
    """From where, to where."""

    folder: ZooPath
    to: Annotated[Path, tyro.conf.Positional, about("a new or empty folder", "TO")]
    epochs: int | None = flag("passes over all stored rows", "N", "as the zoo's members")


def main(arguments: Sequence[str]) -> None:
    """Distils, and prints what that costs each task."""
    options = parse(DistilOptions, arguments, "zoo distil", IDEA)
    console = output.console()
    zoo = Zoo(options.folder)
    take_threads(console)
    small = follow(iter_distil_zoo(zoo, options.to, options.epochs), console)
    rows = [
        (
            name,
            f"{len(zoo.index.voters(name))} -> 1",
            f"{zoo.measure(name).accuracy:.1%} -> {small.measure(name).accuracy:.1%}",
        )
        for name in zoo.tasks
    ]
    console.print(make_table(("task", "members", "accuracy"), rows))
    sizes = [sum(member.bytes for member in each.members) for each in (zoo, small)]
    passes = sum(len(zoo.index.voters(name)) for name in zoo.tasks) / len(zoo.tasks)
    console.print(
        f"{escape(str(options.to))}: {megabytes(sizes[0])} -> {megabytes(sizes[1])}, "
        f"{passes:.1f} nets asked for an answer -> 1"
    )
