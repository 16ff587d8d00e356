"""`zoo export FOLDER [NAME] --to onnx|torch`: one task as one file, or every task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.flags import ZooPath, flag, optional, parse
from zoolearn.errors import SettingsError
from zoolearn.words import megabytes, plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.export.export import SUFFIXES, Exported, check_target

IDEA = """Write one file that takes raw inputs (uint8 pixels or float features) and gives a task's probabilities.

The file is loaded again and compared with the zoo on stored rows before it gets its name."""


@dataclass
class ExportOptions:
    """What to write."""

    folder: ZooPath
    name: Annotated[str | None, tyro.conf.Positional, optional("[NAME]", "the task", "every task, a file each")] = None
    to: Literal["onnx", "torch"] = flag("torch: load it with torch.export.load", default="onnx")
    out: Path | None = flag("the file to write; without NAME, a folder", "FILE", "NAME.onnx or NAME.pt2, here")
    int8: bool = flag(
        "of a zoo on features: 8-bit whole numbers, about twice as fast; tells what that costs", default=False
    )
    overwrite: bool = flag("write over files that exist", default=False)


def main(arguments: Sequence[str]) -> None:
    """Exports a task, or all, and says how close it came."""
    options = parse(ExportOptions, arguments, "zoo export", IDEA)
    zoo = Zoo(options.folder)
    if options.name is not None:
        zoo.index.task(options.name)
        targets = {options.name: options.out or Path(file_name(options.name, options.to))}
    else:
        targets = _all_targets(zoo, options.out or Path(), options.to)
    for path in targets.values():
        check_target(path, overwrite=options.overwrite)  # all of them, before the work begins
    for name, path in targets.items():
        _tell(zoo, zoo.export(name, path, options.to, overwrite=options.overwrite, int8=options.int8))


def _all_targets(zoo: Zoo, folder: Path, to: Literal["onnx", "torch"]) -> dict[str, Path]:
    """A file for every task; refused where two would have one."""
    if not zoo.tasks:
        raise SettingsError(f"{zoo.path} has learned nothing yet; there is nothing to export")
    targets = {name: folder / file_name(name, to) for name in zoo.tasks}
    for name, path in targets.items():
        alike = next(other for other in targets if targets[other].name.lower() == path.name.lower())
        if alike != name:
            raise SettingsError(
                f"tasks {alike!r} and {name!r} would both be {path.name}; export one of them with --out"
            )
    return targets


def file_name(task: str, to: Literal["onnx", "torch"]) -> str:
    """The name of a task's file.

    >>> file_name("../sea/birds", "onnx")
    'sea-birds.onnx'
    """
    return f"{task.replace('/', '-').replace(chr(92), '-').lstrip('.-') or 'task'}{SUFFIXES[to]}"


def _tell(zoo: Zoo, made: Exported) -> None:
    shape = ", ".join(map(str, zoo.settings.shape or ()))
    kind = "uint8" if zoo.settings.kind == "images" else "float32"
    rows = "held-out rows" if zoo.settings.features is None else "pictures made for it"
    output.console().print(
        f"{escape(str(made.path))}: {plural(made.members, 'member')}, {megabytes(made.bytes)}; takes (rows, {shape}) {kind}; "
        f"checked on {made.rows} {rows}, largest difference {made.difference:.1e}"
        f"{'' if made.before is None else ' from the same head on features in 8 bits'}"
    )
    if made.before is not None:
        output.console().print(
            f"in 8 bits, accuracy {made.before:.1%} -> {made.after:.1%} on {plural(made.pictures, 'held-out picture')}"
        )
