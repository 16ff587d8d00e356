"""`zoo export FOLDER NAME --to onnx|torch`: one task as one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.flags import optional, parse
from zoolearn.cli.show import megabytes
from zoolearn.zoo import Zoo
from zoolearn.zoo.exporting import SUFFIXES

IDEA = """Write one file that takes raw inputs (uint8 pixels or float features) and gives a task's probabilities.

The file is loaded again and compared with the zoo on stored rows before it gets its name."""


@dataclass
class ExportOptions:
    """What to write."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="the zoo")]
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="the task")]
    to: Annotated[Literal["onnx", "torch"], tyro.conf.arg(help="torch: load it with torch.export.load")] = "onnx"
    out: Annotated[Path | None, optional("FILE", "the file to write", "NAME.onnx or NAME.pt2")] = None


def main(arguments: Sequence[str]) -> None:
    """Exports a task and says how close it came."""
    options = parse(ExportOptions, arguments, "zoo export", IDEA)
    zoo = Zoo(options.folder)
    path = options.out or Path(f"{options.name.replace('/', '-').lstrip('.-') or 'task'}{SUFFIXES[options.to]}")
    made = zoo.export(options.name, path, options.to)
    shape = ", ".join(map(str, zoo.settings.shape or ()))
    kind = "uint8" if zoo.settings.kind == "images" else "float32"
    output.console().print(
        f"{escape(str(made.path))}: {made.members} member(s), {megabytes(made.bytes)}; takes (rows, {shape}) {kind}; checked "
        f"on {made.rows} held-out rows, largest difference {made.difference:.1e}"
    )
