"""`zoo correct FOLDER NAME FILE.csv`: stored rows get another label, or go."""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.asking import confirm
from zoolearn.cli.bars import follow, take_threads
from zoolearn.cli.flags import EpisodeEpochs, TaskName, ZooPath, flag, optional, parse
from zoolearn.cli.outcome import on_kept_rows, show_other_tasks, show_outcome
from zoolearn.cli.scores import show_scores
from zoolearn.errors import DataError, SettingsError
from zoolearn.words import duration, some
from zoolearn.zoo import Zoo
from zoolearn.zoo.changes.corrections import Correction
from zoolearn.zoo.inputs.tables import read_csv

IDEA = """Correct rows that a zoo has stored: FILE.csv has a column `row`, with numbers of stored rows or the paths that they were
learned from, and a column `label`, with their right class; where it is empty, the row is deleted.

--list prints such a file, with all stored rows of the task as they are: edit it and give it back. A correction is an episode
like any other: one member more, and `zoo undo` takes it back. With --purge it is permanent: no byte of a deleted row is left,
and members that were trained on rows that change are trained again."""


@dataclass
class CorrectOptions:
    """What to correct."""

    folder: ZooPath
    name: TaskName
    file: Annotated[
        Path | None,
        tyro.conf.Positional,
        optional("[FILE.csv]", "rows, and the labels they should have", "none, with --list"),
    ] = None
    list: bool = flag("print the stored rows of the task as a table to edit, and stop", default=False)
    purge: bool = flag("permanently: retrain every member that saw the rows; no way back", default=False)
    yes: bool = flag("do not ask before a purge", default=False)
    epochs: EpisodeEpochs = None


def main(arguments: Sequence[str]) -> None:
    """Corrects rows and shows what that did to all tasks."""
    options = parse(CorrectOptions, arguments, "zoo correct", IDEA)
    zoo = Zoo(options.folder)
    if options.list:
        _print_rows(zoo, options.name)
        return
    if options.purge and options.epochs is not None:
        raise SettingsError(
            f"epochs is {options.epochs}, but --purge trains members again for as many as they had; leave --epochs out"
        )
    if options.file is None:
        raise SettingsError("there is nothing to correct; give FILE.csv, or --list to see the stored rows")
    console, rows = output.console(), _read_table(options.file)
    if options.purge:
        _purge(zoo, options, rows, console)
        return

    def show_correction(event: Any) -> None:
        if isinstance(event, Correction):
            console.print(Text(str(event)))

    _take_threads(zoo, console)
    learned = follow(zoo.iter_correct(options.name, rows, epochs=options.epochs), console, also=show_correction)
    if learned.trained_on:
        trains = zoo.settings.features is None
        show_outcome(learned, console, everything=None, trains=trains, known="the corrected task")
        return
    console.print(f"episode {learned.episode}: measured again, nothing was trained")
    show_scores(learned.scores, console, "on held-out rows")


def _take_threads(zoo: Zoo, console: Console) -> None:
    if zoo.settings.features is None:  # else only heads are fitted
        take_threads(console)


def _purge(zoo: Zoo, options: CorrectOptions, rows: Mapping[str | int, str | None], console: Console) -> None:
    """Tells the cost, asks, and purges."""
    correction, cost = zoo.cost_of_purging(options.name, rows)
    console.print(Text(str(correction)))
    if cost.retrained:
        on = on_kept_rows(zoo.settings.replay)
        numbers = some([*map(str, cost.retrained)])
        console.print(f"retrained{on}, in about {duration(cost.seconds)}: members {numbers}")
    else:
        console.print("nothing is trained again: only held-out rows change, and the task is measured again")
    if not options.yes and not confirm("Purge", "a purge"):
        console.print("nothing was changed")
        return
    if cost.retrained:
        _take_threads(zoo, console)
    cost = follow(zoo.iter_purge(options.name, rows), console)
    show_scores(zoo.scores(options.name), console, "on held-out rows")
    if cost.changes:
        show_other_tasks(zoo, cost.changes, console)


def _print_rows(zoo: Zoo, task: str) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["row", "label", "side", "path"])
    for row in zoo.stored_rows(task):
        writer.writerow([row.number, row.label, "train" if row.side == "train" else "held out", row.name or ""])


def _read_table(file: Path) -> dict[str | int, str | None]:
    """What a table says about rows, each once."""
    table, numbers = read_csv(file, 2)
    if not {"row", "label"} <= table.keys():
        raise DataError(f"{file} has the columns {', '.join(table)}; it needs `row` and `label`")
    found: dict[str | int, str | None] = {}
    for number, row, label in zip(numbers, table["row"].tolist(), table["label"].tolist(), strict=True):
        if found.setdefault(row.strip(), label.strip()) != label.strip():
            raise DataError(f"{file}, row {number}: row {row.strip()!r} has two labels; say which is right")
    return found
