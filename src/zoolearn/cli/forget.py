"""`zoo forget FOLDER NAME`: a task, a class or rows removed permanently, with all that was made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.asking import confirm
from zoolearn.cli.bars import follow, take_threads
from zoolearn.cli.flags import ZooPath, flag, optional, parse
from zoolearn.cli.outcome import on_kept_rows, show_other_tasks
from zoolearn.errors import SettingsError
from zoolearn.words import duration, plural, some
from zoolearn.zoo import Zoo
from zoolearn.zoo.changes.forgetting import Cost
from zoolearn.zoo.changes.forgetting_rows import check_forgettable

IDEA = """Remove a task permanently: its stored rows, its heads, its name, and every weight that was trained on it.

Members that saw it are retrained, with the same seeds, on what is stored of the rest of their tasks; a member that knew
nothing else is removed. There is no way back. Copies outside of the folder (backups, exports) are yours to find."""


@dataclass
class ForgetOptions:
    """What to forget."""

    folder: ZooPath
    name: Annotated[
        str | None, tyro.conf.Positional, optional("[NAME]", "the task", "with --rows, every task that has them")
    ] = None
    label: Annotated[
        str | None,
        tyro.conf.arg(name="class"),
        optional("CLASS", "forget a class of the task, in a zoo on features", "the whole task"),
    ] = None
    rows: tuple[Path, ...] = flag(
        "forget the rows of these files, in a zoo on features", "FILE...", "all rows", default=()
    )
    drop: bool = flag("delete members that saw the task instead of retraining them", default=False)
    yes: bool = flag("do not ask", default=False)


def main(arguments: Sequence[str]) -> None:
    """Tells the cost, asks, and forgets."""
    options = parse(ForgetOptions, arguments, "zoo forget", IDEA)
    zoo = Zoo(options.folder)
    console = output.console()
    if options.rows or options.label is not None:
        _forget_part(zoo, options, console)
        return
    if options.name is None:
        raise SettingsError("there is nothing to forget; name a task, or rows (--rows FILE...)")
    _tell(zoo.cost_of_forgetting(options.name, drop=options.drop), options.name, zoo.settings.replay, console)
    if not options.yes and not confirm(f"Forget {options.name!r}", "forgetting"):
        console.print("nothing was changed")
        return
    take_threads(console)
    cost = follow(zoo.iter_forget(options.name, drop=options.drop), console)
    console.print(
        f"{escape(options.name)} is forgotten; {plural(len(zoo.tasks), 'task')}, {plural(len(zoo.members), 'member')} left"
    )
    if cost.changes:
        show_other_tasks(zoo, cost.changes, console)


def _forget_part(zoo: Zoo, options: ForgetOptions, console: Console) -> None:
    if options.rows and options.label is not None:
        raise SettingsError("both --class and --rows were given; forget one, then the other")
    if options.drop:
        raise SettingsError("--drop is for members that were trained; leave it out")
    what = f"class {options.label}" if options.rows == () else f"the rows of {plural(len(options.rows), 'file')}"
    if options.rows == () and options.name is None:
        raise SettingsError(f"whose {what} is to be forgotten? Name the task")
    check_forgettable(zoo.index)
    if not options.yes and not confirm(f"Forget {what!r}", "forgetting"):
        console.print("nothing was changed")
        return
    if options.rows:
        count = zoo.forget_rows(options.rows, options.name)
    else:
        assert options.name is not None
        assert options.label is not None
        count = zoo.forget_class(options.name, options.label)
    console.print(f"{escape(what)}: {plural(count, 'row')} forgotten, and no bit of any head is of them")


def _tell(cost: Cost, name: str, replay: float, console: Console) -> None:
    console.print(f"forgetting {escape(name)} deletes its {cost.rows:,} stored rows and")
    for numbers, what in (
        (cost.removed, "removes, for knowing nothing else,"),
        (cost.retrained, f"retrains{on_kept_rows(replay)}, in about {duration(cost.seconds)},"),
        (cost.dropped, "deletes, with all they know of other tasks,"),
    ):
        if numbers:
            who = "member" if len(numbers) == 1 else "members"
            console.print(f"  {what} {who} {some([*map(str, numbers)])}")
    if cost.kept_for_others:
        console.print(
            f"  keeps {cost.kept_for_others:,} bytes of rows that another task has stored too, as that task's"
        )
