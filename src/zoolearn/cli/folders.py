"""Which kind of folder a command was given: a run, or a zoo that people own."""

from collections.abc import Sequence
from pathlib import Path

from zoolearn.errors import SettingsError
from zoolearn.zoo.disk.index_files import HEAD


def is_zoo(folder: Path) -> bool:
    """Whether somebody's own zoo lives there."""
    return (folder / HEAD).is_file()


def check_no_zoo(folders: Sequence[Path], command: str, also: str = "") -> None:
    """Refuses a zoo folder where runs are meant, and says which command is for it."""
    for folder in folders:
        if is_zoo(folder):
            more = f"; {also}" if also else ""
            raise SettingsError(
                f"{folder} is a zoo, and `{command}` is about runs; see it with `zoo show {folder}`{more}"
            )
