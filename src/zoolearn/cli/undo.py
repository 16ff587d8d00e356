"""`zoo undo FOLDER`: back to before the last episode."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.flags import ZooPath, parse
from zoolearn.words import plural
from zoolearn.zoo import Zoo

IDEA = """Take the last episode back: what it brought of its task, all or more of it, and its member are deleted.

Members never change, so the zoo is then exactly what it was before. What was forgotten or pruned permanently stays so.
Where the last change brought it to other features (`zoo refeature`), that is taken back."""


@dataclass
class UndoOptions:
    """Which zoo."""

    folder: ZooPath


def main(arguments: Sequence[str]) -> None:
    """Undoes the last episode."""
    options = parse(UndoOptions, arguments, "zoo undo", IDEA)
    zoo = Zoo(options.folder)
    name = zoo.undo()
    if name is None:
        output.console().print(f"{escape(str(options.folder))} is on {escape(zoo.settings.phrases()[0])} again")
        return
    gone = "as it was before" if name in zoo.tasks else "no longer known"
    output.console().print(
        f"{escape(name)} is {gone}; {plural(len(zoo.tasks), 'task')} and {plural(len(zoo.members), 'member')} left"
    )
