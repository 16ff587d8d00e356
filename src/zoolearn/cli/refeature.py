"""`zoo refeature FOLDER TO --features FILE`: the same zoo on the features of another extractor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.flags import parse
from zoolearn.zoo import Zoo
from zoolearn.zoo.extracting import Given
from zoolearn.zoo.refeaturing import refeatured

IDEA = """Write a zoo on the features of another extractor: every picture is read again where it was when it was learned from,
and every head is made again. The zoo itself stays as it is: to go back is to keep using it."""


@dataclass
class RefeatureOptions:
    """The two zoos."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="a zoo on features of pictures")]
    to: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TO", help="a new or empty folder")]
    features: Annotated[Path, tyro.conf.arg(metavar="FILE", help="the ONNX file of the other extractor")]


def main(arguments: Sequence[str]) -> None:
    """Writes the other zoo and shows what changed."""
    options = parse(RefeatureOptions, arguments, "zoo refeature", IDEA)
    console = output.console()
    made = follow(refeatured(Zoo(options.folder), options.to, Given.of(options.features)), console)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("task", "before", "after", "rows"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for name, before in made.before.items():
        rows = made.zoo.tasks[name].rows_held_out
        table.add_row(Text(name), f"{before.accuracy:.1%}", f"{made.after[name].accuracy:.1%}", f"{rows:,}")
    console.print(table)
    console.print(f"{escape(str(options.to))} is on the new features; {escape(str(options.folder))} is as it was")
