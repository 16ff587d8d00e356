"""Whether a folder is a run or a zoo."""

from collections.abc import Sequence
from pathlib import Path

from zoolearn.errors import SettingsError
from zoolearn.zoo.disk.index_files import HEAD


def is_zoo(folder: Path) -> bool:
    """Whether a folder is a zoo."""
    return (folder / HEAD).is_file()


def check_no_zoo(folders: Sequence[Path], command: str, also: str = "") -> None:
    """Raises on a zoo folder where runs are expected, naming the command for it."""
    for folder in folders:
        if is_zoo(folder):
            more = f"; {also}" if also else ""
            raise SettingsError(
                f"{folder} is a zoo, and `{command}` is about runs; see it with `zoo show {folder}`{more}"
            )
