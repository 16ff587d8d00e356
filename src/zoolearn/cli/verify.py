"""`zoo verify FOLDER`: every checksum."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.flags import ZooPath, parse
from zoolearn.errors import StoreError
from zoolearn.words import plural
from zoolearn.zoo import Zoo


@dataclass
class VerifyOptions:
    """Which zoo."""

    folder: ZooPath


def main(arguments: Sequence[str]) -> None:
    """Reads all files of a zoo and says whether they are what was written."""
    options = parse(
        VerifyOptions, arguments, "zoo verify", "Read every file of a zoo and compare it with its checksum."
    )
    zoo = Zoo(options.folder)
    problems = follow(zoo.verify(), output.console(stderr=True))
    if problems:
        raise StoreError(f"{plural(len(problems), 'problem')} in {zoo.path}:\n  " + "\n  ".join(problems))
    output.console().print(f"{escape(str(zoo.path))} is whole: {len(zoo.index.files())} files and the index")
