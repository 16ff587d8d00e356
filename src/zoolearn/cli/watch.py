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
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import flag, optional, parse
from zoolearn.cli.folders import check_no_zoo
from zoolearn.errors import SettingsError
from zoolearn.runs.watch import RunStatus, read_statuses
from zoolearn.words import duration

STYLES = {"running": "bold cyan", "stopped": "yellow", "damaged": "red", "finished": "green"}
STATES = tuple(STYLES)
WIDE = 100  # columns of a terminal with room for bars


@dataclass
class WatchOptions:
    """Which runs, and how often to look."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        optional("DIR...", "folders that hold runs at any depth; new ones are found as they begin", "runs"),
    ]
    every: float = flag("time between two looks", "SECONDS", default=2.0)
    once: bool = flag("look once and leave", default=False)


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
            if seen and all(status.state in ("finished", "damaged") for status in seen):
                return
            sleep(options.every)


def view(seen: Sequence[RunStatus], width: int = 120) -> Group:
    """The table, running ones first, and one line that sums up; on a narrow terminal, or none, without bars."""
    above = os.path.commonpath([status.path.resolve().parent for status in seen]) if seen else ""
    cells: dict[str, Callable[[RunStatus], RenderableType]] = {
        "run": lambda status: Text(_name(status.path, above)),
        " ": lambda status: ProgressBar(total=status.tasks or 1, completed=_done(status), width=16),
        "state": lambda status: Text(status.state, STYLES[status.state]),
        "tasks": lambda status: f"{status.episodes}/{status.tasks}",
        "epoch": lambda status: f"{status.training.epoch}/{status.training.epochs}" if status.training else "",
        "loss": lambda status: "" if status.loss is None else f"{status.loss:.3f}",
        "accuracy": lambda status: "" if status.accuracy is None else f"{100 * status.accuracy:.2f} %",
        "spent": lambda status: duration(status.seconds),
        "left": _left,
    }
    if width < WIDE:
        del cells[" "]
    if not any(status.training and status.training.epochs > 1 for status in seen):
        del cells["epoch"]
    ordered = sorted(seen, key=lambda status: STATES.index(status.state))
    table = make_table(
        [*cells], [[cell(status) for cell in cells.values()] for status in ordered], words=(" ", "state")
    )
    problems = [Text(status.problem, STYLES["damaged"]) for status in seen if status.problem]
    return Group(table, *problems, Text(_sum(seen), "dim"))


def _left(status: RunStatus) -> str:
    if status.seconds_left is None or status.state != "running":
        return ""
    return duration(status.seconds_left) if status.seconds_left else "soon"


def _name(path: Path, above: str) -> str:
    """The path below what all have in common."""
    return os.path.relpath(path.resolve(), above)


def _done(status: RunStatus) -> float:
    return status.episodes + (status.training.step / status.training.steps if status.training else 0)


def _sum(seen: Sequence[RunStatus]) -> str:
    if not seen:
        return "no run yet"
    states = [status.state for status in seen]
    return ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
