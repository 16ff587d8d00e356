"""`zoo judge RUN...`: finished zoos that are not told the task, vote in other ways, or are distilled into one net."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import DataRoot, flag, parse
from zoolearn.cli.streams import find_benchmark
from zoolearn.errors import SettingsError
from zoolearn.lab.judge import iter_judge
from zoolearn.runs.own import Own

IDEA = """Judge finished runs of model-zoo in more ways, and write judged.json into their folders.

Not told the task of an input, the zoo finds it out by its members' evidence. Its members vote in other ways, and each
alone, which says what the others are good for. And one net is distilled from all."""


@dataclass
class JudgeOptions:
    """Which runs."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help="run folders", help_behavior_hint="(required)"),
    ]
    data: DataRoot = None
    epochs: int = flag("passes over the stored rows of the distilled net", default=1)
    benchmark: str | None = flag(
        "what made the benchmark, if it is your own: a function, or a zoo folder", "FILE.py:NAME", "none"
    )
    names: tuple[str, ...] = flag(
        "backbones and other functions of your own in the runs", "FILE.py:NAME...", "none", default=()
    )


def main(arguments: Sequence[str]) -> None:
    """Judges, and prints a table for each run."""
    options = parse(JudgeOptions, arguments, "zoo judge", IDEA)
    if not options.runs:
        raise SettingsError("there is nothing to judge; give folders of finished runs of model-zoo")
    console = output.console()
    names = {own.name: own.function() for own in map(Own.at, options.names)}
    made_by = find_benchmark(options.benchmark) if options.benchmark else None
    for run in options.runs:
        record = follow(iter_judge(run, options.data, options.epochs, names, made_by), console)
        rows = [
            ("told the task", record.zoo.accuracy),
            ("distilled, told the task", record.distilled.accuracy),
            *((f"not told, by {name}", *astuple(found)) for name, found in record.unknown_task.items()),
            *((f"voting by {rule}", value) for rule, value in record.voting.items()),
            *((f"{which} member alone", getattr(record.members, which)) for which in ("newest", "best", "average")),
        ]
        cells = [(name, *(f"{value:.2%}" for value in values)) for name, *values in rows]
        header = ("", "accuracy", "task found", "answered", "right if answered")
        console.print(make_table(header, cells, title=str(run)))
        console.print(f"two members differ on {record.members.disagreement:.2%} of the rows")
