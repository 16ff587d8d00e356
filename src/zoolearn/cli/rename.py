"""`zoo rename FOLDER NAME NEW`: another name for a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.flags import TaskName, ZooPath, about, parse
from zoolearn.zoo import Zoo

IDEA = """Give a task another name. Members, answers and measures stay as they are; programs that ask for the old name are
told that it is unknown."""


@dataclass
class RenameOptions:
    """Which task, and its new name."""

    folder: ZooPath
    name: TaskName
    new: Annotated[str, tyro.conf.Positional, about("its new name", "NEW")]


def main(arguments: Sequence[str]) -> None:
    """Renames a task."""
    options = parse(RenameOptions, arguments, "zoo rename", IDEA)
    Zoo(options.folder).rename(options.name, options.new)
    output.console().print(f"{escape(options.name)} is now {escape(options.new)}")
