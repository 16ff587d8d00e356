"""`zoo watch DIR...`: a table that follows running folders until all are done, or Ctrl-C."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Annotated

import tyro
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.flags import parse
from zoolearn.cli.folders import check_no_zoo
from zoolearn.errors import SettingsError
from zoolearn.runs.watch import RunStatus, read_statuses

STYLES = {"running": "bold cyan", "stopped": "yellow", "damaged": "red", "finished": "green"}
STATES = tuple(STYLES)
WIDE = 100  # columns of a terminal with room for bars


@dataclass
class WatchOptions:
    """Which runs, and how often to look."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="DIR...",
            help="folders that hold runs at any depth; new ones are found as they begin",
            help_behavior_hint="(default: runs)",
        ),
    ]
    every: Annotated[float, tyro.conf.arg(metavar="SECONDS", help="time between two looks")] = 2.0
    once: Annotated[bool, tyro.conf.arg(help="look once and leave")] = False


def main(arguments: Sequence[str]) -> None:
    """Looks again and again; what it reads it never changes."""
    options = parse(
        WatchOptions, arguments, "zoo watch", "Follow running folders: progress, loss, accuracy, time left."
    )
    if options.every <= 0:
        raise SettingsError(f"every is {options.every}; give seconds above 0")
    check_no_zoo(options.runs, "zoo watch")
    folders = options.runs or (Path("runs"),)
    console = output.console()
    if options.once or not console.is_terminal:
        console.print(view(read_statuses(folders), console.width if console.is_terminal else 0))
        return
    with Live(view(read_statuses(folders), console.width), console=console, refresh_per_second=4) as live:
        while True:
            seen = read_statuses(folders)
            live.update(view(seen, console.width))
            if seen and all(sight.state in ("finished", "damaged") for sight in seen):
                return
            sleep(options.every)


def view(seen: Sequence[RunStatus], width: int = 120) -> Group:
    """The table, running ones first, and one line that sums up; on a narrow terminal, or none, without bars."""
    above = os.path.commonpath([sight.path.resolve().parent for sight in seen]) if seen else ""
    columns: dict[str, Callable[[RunStatus], RenderableType]] = {
        "run": lambda sight: Text(_name(sight.path, above)),
        " ": lambda sight: ProgressBar(total=sight.tasks or 1, completed=_done(sight), width=16),
        "state": lambda sight: Text(sight.state, STYLES[sight.state]),
        "tasks": lambda sight: f"{sight.episodes}/{sight.tasks}",
        "epoch": lambda sight: f"{sight.training.epoch}/{sight.training.epochs}" if sight.training else "",
        "loss": lambda sight: "" if sight.loss is None else f"{sight.loss:.3f}",
        "accuracy": lambda sight: "" if sight.accuracy is None else f"{100 * sight.accuracy:.2f} %",
        "spent": lambda sight: duration(sight.seconds),
        "left": _left,
    }
    if width < WIDE:
        del columns[" "]
    if not any(sight.training and sight.training.epochs > 1 for sight in seen):
        del columns["epoch"]
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in columns:
        left = name in ("run", " ", "state")
        table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=name != "run")
    for sight in sorted(seen, key=lambda sight: STATES.index(sight.state)):
        table.add_row(*(cell(sight) for cell in columns.values()))
    problems = [Text(sight.problem, STYLES["damaged"]) for sight in seen if sight.problem]
    return Group(table, *problems, Text(_sum(seen), "dim"))


def _left(sight: RunStatus) -> str:
    if sight.seconds_left is None or sight.state != "running":
        return ""
    return duration(sight.seconds_left) if sight.seconds_left else "soon"


def _name(path: Path, above: str) -> str:
    """The path below what all have in common: it is said once, by whoever asked."""
    return os.path.relpath(path.resolve(), above)


def _done(sight: RunStatus) -> float:
    return sight.episodes + (sight.training.step / sight.training.steps if sight.training else 0)


def _sum(seen: Sequence[RunStatus]) -> str:
    if not seen:
        return "no run yet"
    states = [sight.state for sight in seen]
    return ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(7), duration(125), duration(8000), duration(200_000)
    ('7 s', '2 min', '2.2 h', '2.3 days')
    """
    for size, unit in ((86400, "days"), (3600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
