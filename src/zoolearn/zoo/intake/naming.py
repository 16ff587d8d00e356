"""What tasks, classes, columns and files of features may be named, checked before anything of them is read."""

from zoolearn.errors import DataError
from zoolearn.words import JOINERS, is_printable
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.settings import LONGEST_NAME


def check_name(name: str, index: Index) -> None:
    """Raises if a task's name is taken or cannot be displayed."""
    check_odd_name("task", name)
    if name in index.tasks:
        raise DataError(
            f"task {name!r} was learned already; give the new one another name, or forget the old one first"
        )


def check_odd_name(kind: str, name: str) -> None:
    """Raises if a name is empty to the eye, too long, or would not be displayed as it is."""
    if not name.strip(f" {JOINERS}") or not is_printable(name) or len(name) > LONGEST_NAME:
        shown = f"{name[:80]!r}... ({len(name)} characters)" if len(name) > LONGEST_NAME else repr(name)
        raise DataError(f"a {kind} is named {shown}; give it a name of 1 to {LONGEST_NAME} printable characters")
