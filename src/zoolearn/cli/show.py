"""`zoo show FOLDER`: what a zoo knows, what it holds, and a picture of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from shlex import quote
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.columns import All, Table, cut_to_screen, make_table
from zoolearn.cli.flags import ZooPath, optional, parse
from zoolearn.cli.scores import format_interval, show_confusion, show_scores
from zoolearn.words import megabytes, plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.learning.scores import is_overconfident

BARS = "▁▂▃▄▅▆▇█"
LONGEST_TRAIL = 8
MOST_DRAWN = 200  # members, however wide the output is: the picture has a mark for each and each task
DOUBT = "!"


@dataclass
class ShowOptions:
    """Which zoo, or which of its tasks."""

    folder: ZooPath
    name: Annotated[
        str | None, tyro.conf.Positional, optional("[NAME]", "a task: its classes and what it mistakes", "all tasks")
    ] = None
    everything: All = False


def main(arguments: Sequence[str]) -> None:
    """Prints tasks, members, storage and settings; or one task in detail."""
    options = parse(
        ShowOptions, arguments, "zoo show", "What a zoo knows: tasks, members, accuracy over time, storage."
    )
    zoo = Zoo(options.folder)
    console = output.console()
    if options.name is not None:
        _show_task(zoo, options.name, console)
        return
    console.print(
        f"[bold]{escape(str(zoo.path))}[/]: {plural(len(zoo.tasks), 'task')}, {plural(len(zoo.members), 'member')}"
    )
    if not zoo.tasks:
        console.print(f"It has learned nothing yet: zoo learn {escape(quote(str(zoo.path)))} NAME DATA")
    else:
        names, rest = cut_to_screen([*zoo.tasks], zoo.index.episodes[-1].measures, everything=options.everything)
        console.print(_tasks(zoo, names))
        if rest:
            console.print(rest)
        console.print(_explain(zoo, names))
        console.print(_picture(zoo, names, console))
        console.print(_storage(zoo))
    console.print(_settings(zoo))


def _show_task(zoo: Zoo, name: str, console: Console) -> None:
    entry = zoo.index.task(name)
    console.print(
        f"[bold]{escape(name)}[/]: {plural(len(entry.classes), 'class', 'classes')}, learned in episode {entry.episode}{_growths(entry)}, "
        f"{entry.rows_kept:,} rows kept, answered by {plural(len(zoo.index.voters(name)), 'member')}"
    )
    scores = zoo.scores(name)
    show_scores(scores, console, f"on the {entry.rows_held_out:,} rows that are held out")
    show_confusion(scores, console)
    console.print(
        f"answers have the temperature {zoo.temperature(name):.2f}: above 1 members are surer than right, below 1 less sure"
    )
    trail = _trail(zoo, name)
    if len(trail) > 1:
        console.print(f"accuracy after each episode that changed it: {format_trail(trail[-20:])}")


def _growths(entry: TaskEntry) -> str:
    later = [str(arrival.episode) for arrival in entry.arrivals[1:]]
    return f", grown or corrected in {', '.join(later)}" if later else ""


def _trail(zoo: Zoo, name: str) -> list[tuple[int, float]]:
    """The number of classes and the accuracy after each episode that changed a task."""
    entry = zoo.tasks[name]
    return [(len(entry.as_of(number).classes), measure.accuracy) for number, measure in zoo.index.history[name]]


def format_trail(trail: Sequence[tuple[int, float]]) -> str:
    """Accuracies over time; one among more classes is no sequel of those before.

    >>> format_trail([(3, 0.98), (3, 1.0), (60, 0.158)])
    '98.0%, 100.0% | 60 classes: 15.8%'
    """
    groups = [(classes, ", ".join(f"{value:.1%}" for _, value in group)) for classes, group in groupby(trail, _classes)]
    return " | ".join([groups[0][1], *(f"{classes} classes: {shown}" for classes, shown in groups[1:])])


def _classes(step: tuple[int, float]) -> int:
    return step[0]


def _tasks(zoo: Zoo, names: Sequence[str]) -> Table:
    *header, trail = (
        "\ntask", "clas-\nses", "rows\nkept", "held\nout", "mem-\nbers", "accu-\nracy", "\n95 %", "bal-\nanced", "most\nfreq.",
        "confi-\ndence", "over time\n0-100 %",
    )  # fmt: skip
    rows = []
    for name in names:
        task = zoo.tasks[name]
        now, accuracy, (_, majority) = zoo.measure(name), zoo.accuracy(name), zoo.majority(name)
        row = (
            name,
            str(len(task.classes)),
            f"{task.rows_kept:,}",
            f"{task.rows_held_out:,}",
            str(len(zoo.index.voters(name))),
            (DOUBT if accuracy.low <= majority else "") + f"{100 * accuracy.value:.1f}",
            format_interval(accuracy),
            f"{100 * now.balanced:.1f}",
            f"{100 * majority:.1f}",
            (DOUBT if is_overconfident(accuracy, now.confidence) else "") + f"{100 * now.confidence:.1f}",
            draw_trail(_trail(zoo, name)[-LONGEST_TRAIL:]),
        )
        rows.append(row)
    return make_table([*header, trail], rows, words=(trail,), gap=1)


def _explain(zoo: Zoo, names: Sequence[str]) -> str:
    """What the columns mean, and what is wrong with some of the figures."""
    poor, proud = [], []
    for name in names:
        accuracy = zoo.accuracy(name)
        poor += [name] if accuracy.low <= zoo.majority(name)[1] else []
        proud += [name] if is_overconfident(accuracy, zoo.measure(name).confidence) else []
    lines = [
        "[dim]accuracy on held-out rows in %, and where it lies with 95 % certainty; balanced: the mean of its classes' own; most freq.: the accuracy of always "
        "naming the most frequent class; confidence: the mean probability of the class that is named[/]"
    ]
    if any(len({*map(_classes, _trail(zoo, name))}) > 1 for name in names):
        lines.append("[dim]over time: behind a | there are more classes to tell apart[/]")
    if poor:
        lines.append(f"! accuracy not surely above that of always naming one class: {escape(', '.join(poor))}")
    if proud:
        lines.append(f"! surer than right (its probabilities are too high): {escape(', '.join(proud))}")
    return "\n".join(lines)


def draw_trail(trail: Sequence[tuple[int, float]]) -> str:
    """Accuracies over time as bars, with a line where classes came.

    >>> draw_trail([(3, 0.98), (3, 1.0), (60, 0.158)])
    '██|▂'
    """
    return "|".join(sparkline([value for _, value in group]) for _, group in groupby(trail, _classes))


def sparkline(values: Sequence[float]) -> str:
    """Shares as a row of bars on one scale, the same for every task and zoo: 0 to 1.

    >>> sparkline([0.0, 0.5, 0.98, 1.0])
    '▁▅██'
    """
    return "".join(BARS[int(value * (len(BARS) - 1) + 0.5)] for value in values)


def _picture(zoo: Zoo, names: Sequence[str], console: Console) -> Table:
    room = console.width - 4 - min(24, max(map(len, names)))  # two blanks behind each column
    members = zoo.members[-min(MOST_DRAWN, max(10, room)) :]
    which = "" if len(members) == len(zoo.members) else f", the newest {len(members)} of {len(zoo.members)}"
    console.print(
        f"[bold]who knows what[/] (a column is a member, oldest first{which}): "
        "● its own task  ○ replayed  ∘ fitted  ◌ not asked  · not seen"
    )
    rows = [(name, "".join(_mark(zoo, member, zoo.tasks[name]) for member in members)) for name in names]
    return make_table(("", ""), rows, words=("",))


def _mark(zoo: Zoo, member: MemberEntry, task: TaskEntry) -> str:
    if task.name not in member.heads:
        return "·"
    if not zoo.index.counts(member, task.name):
        return "◌"
    if task.name not in member.tasks:
        return "∘"
    return "●" if member.episode in {arrival.episode for arrival in task.arrivals} else "○"


def _storage(zoo: Zoo) -> str:
    parts = {part for task in zoo.tasks.values() for part in task.stored}
    rows = sum(task.rows_kept for task in zoo.tasks.values())
    held = sum(task.rows_held_out for task in zoo.tasks.values())
    members = sum(member.bytes for member in zoo.members)
    weights = sum(parameter.numel() for parameter in zoo.net(zoo.members[0].number).parameters())
    counted = sum(task.statistics is not None for task in zoo.tasks.values())
    statistics = f", statistics of the features of {plural(counted, 'task')}" if counted else ""
    return (
        f"[bold]stored[/] {rows:,} rows to train on and {held:,} held out in {megabytes(sum(p.bytes for p in parts))}{statistics}; "
        f"{plural(len(zoo.members), 'member')} in {megabytes(members)}, about {weights:,} weights each"
    )


def _settings(zoo: Zoo) -> str:
    shape = "x".join(map(str, zoo.settings.shape)) if zoo.settings.shape else "settled by the first data"
    own = ", ".join(zoo.settings.phrases())
    return f"[bold]settings[/] inputs {shape}, {escape(own)}; generation {zoo.generation} (changes so far)"
