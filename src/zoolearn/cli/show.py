"""`zoo show FOLDER`: what a zoo knows, what it holds, and a picture of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.flags import parse
from zoolearn.files import Json
from zoolearn.zoo import Zoo
from zoolearn.zoo.index import MemberEntry, TaskEntry
from zoolearn.zoo.settings import FROM_SCRATCH

BARS = "▁▂▃▄▅▆▇█"
LONGEST_TRAIL = 12
LEAST_SPAN = 0.1  # of a row of bars


@dataclass
class ShowOptions:
    """Which zoo."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="the zoo")]


def main(arguments: Sequence[str]) -> None:
    """Prints tasks, members, storage and settings."""
    options = parse(
        ShowOptions, arguments, "zoo show", "What a zoo knows: tasks, members, accuracy over time, storage."
    )
    zoo = Zoo(options.folder)
    console = output.console()
    console.print(f"[bold]{escape(str(zoo.path))}[/], generation {zoo.generation}")
    if not zoo.tasks:
        console.print(f"It has learned nothing yet: zoo learn {escape(str(zoo.path))} NAME DATA")
    else:
        console.print(_tasks(zoo))
        console.print(_picture(zoo))
        console.print(_storage(zoo))
    console.print(_settings(zoo))


def _tasks(zoo: Zoo) -> Table:
    table = Table(title="tasks", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("task")
    for column in ("classes", "rows\nkept", "held\nout", "members", "at\nfirst", "now", "confi-\ndence"):
        table.add_column(column, justify="right")
    table.add_column("accuracy\nover time")
    table.add_column("confidence\nover time")
    for name, task in zoo.tasks.items():
        measures = [episode.measures[name] for episode in zoo.index.episodes if name in episode.measures]
        trail = [measure.accuracy for measure in measures]
        now = zoo.measure(name)
        table.add_row(
            Text(name),
            str(len(task.classes)),
            f"{task.train.count if task.train else 0:,}",
            f"{task.test.count:,}",
            str(len(zoo.index.voters(name))),
            f"{trail[0]:.1%}" if trail else "",
            f"{now.accuracy:.1%}",
            f"{now.confidence:.1%}",
            sparkline(trail[-LONGEST_TRAIL:]),
            sparkline([measure.confidence for measure in measures[-LONGEST_TRAIL:]]),
        )
    return table


def sparkline(values: Sequence[float]) -> str:
    """Shares as a row of bars from the lowest to the highest, or from ten points below that: a flat line is no low one.

    >>> sparkline([0.5, 0.75, 1.0]), sparkline([1.0, 1.0]), sparkline([0.98, 0.99])
    ('▁▅█', '██', '▇█')
    """
    high = max(values, default=0.0)
    low = min([*values, high - LEAST_SPAN])
    span = high - low
    return "".join(BARS[int((value - low) / span * (len(BARS) - 1) + 0.5)] for value in values)


def _picture(zoo: Zoo) -> Table:
    table = Table(
        title="who knows what (a column is a member, oldest first)",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
        show_header=False,
    )
    for name, task in zoo.tasks.items():
        table.add_row(Text(name), Text("".join(_mark(member, task) for member in zoo.members)))
    table.add_row("", "[dim]● its own task  ○ replayed  ∘ fitted  ◌ pruned  · not seen[/]")
    return table


def _mark(member: MemberEntry, task: TaskEntry) -> str:
    if task.name not in member.heads:
        return "·"
    if not member.votes_on(task.name):
        return "◌"
    if task.name not in member.tasks:
        return "∘"
    return "●" if member.episode == task.episode else "○"


def _storage(zoo: Zoo) -> str:
    parts = {part for task in zoo.tasks.values() for part in task.stored}
    rows = sum(task.train.count if task.train else 0 for task in zoo.tasks.values())
    held = sum(task.test.count for task in zoo.tasks.values())
    members = sum(member.bytes for member in zoo.members)
    weights = sum(parameter.numel() for parameter in zoo.net(zoo.members[0].number).parameters())
    return (
        f"[bold]stored[/] {rows:,} rows to train on and {held:,} held out in {megabytes(sum(p.bytes for p in parts))}; "
        f"{len(zoo.members)} member(s) in {megabytes(members)}, about {weights:,} weights each"
    )


def megabytes(size: float) -> str:
    """Bytes as people read them.

    >>> megabytes(1_234_567), megabytes(999)
    ('1.23 MB', '0.00 MB')
    """
    return f"{size / 1e6:,.2f} MB"


def _settings(zoo: Zoo) -> str:
    settings = zoo.settings
    recipe = settings.recipe
    more = _growing(settings.grow) + (", flip tta" if recipe["flip_tta"] else "")
    shape = "x".join(map(str, settings.shape)) if settings.shape else "settled by the first data"
    return (
        f"[bold]settings[/] inputs {shape}, backbone {settings.backbone or 'open'}, epochs {recipe['epochs'] or 'open'}, "
        f"batch size {recipe['batch_size']}, lr {recipe['lr']:g}, up to {settings.tasks_per_episode} tasks per episode, "
        f"replay {settings.replay:g}, weigh {settings.weigh}, seed {settings.seed}{more}"
    )


def _growing(grow: Json) -> str:
    """How members begin, in words, if not from scratch."""
    if isinstance(grow, Mapping):
        own = (f"{name.replace('_', ' ')} {value}" for name, value in grow.items() if name != "name")
        return f", grow {grow['name']} ({', '.join(own)})"
    return "" if grow == FROM_SCRATCH else f", grow {grow}"
