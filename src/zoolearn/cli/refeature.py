"""`zoo refeature FOLDER --features FILE`: the same zoo on the features of another extractor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import about, parse
from zoolearn.zoo import Zoo
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.refeaturing import iter_refeature

IDEA = """Bring a zoo to the features of another extractor: every picture is read again where it was when it was learned from,
and every head is made again. Until the next change, `zoo undo` gives back the zoo before, bit for bit."""


@dataclass
class RefeatureOptions:
    """The zoo, and what to see with."""

    folder: Annotated[Path, tyro.conf.Positional, about("a zoo on features of pictures", "FOLDER")]
    features: Annotated[Path, about("the ONNX file of the other extractor", "FILE")]


def main(arguments: Sequence[str]) -> None:
    """Makes all of it again and shows what changed."""
    options = parse(RefeatureOptions, arguments, "zoo refeature", IDEA)
    console = output.console()
    zoo = Zoo(options.folder)
    made = follow(iter_refeature(zoo, Given.of(options.features)), console)
    rows = [
        (name, f"{was.accuracy:.1%}", f"{made.after[name].accuracy:.1%}", f"{zoo.tasks[name].rows_held_out:,}")
        for name, was in made.before.items()
    ]
    console.print(make_table(("task", "before", "after", "rows"), rows))
    folder = escape(str(options.folder))
    console.print(f"{folder} is on the new features; until its next change, zoo undo {folder} gives the one before")
