"""What is there of each data set, whether it is the publisher's, and how to get what is not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zoolearn.data.datasets.catalog import MINI_IMAGENET, SOURCES, Source
from zoolearn.data.datasets.digits import digits_file
from zoolearn.data.datasets.mini_imagenet import problems
from zoolearn.data.datasets.root import data_root
from zoolearn.errors import MissingData

State = Literal["present", "verified", "missing", "damaged"]


@dataclass(frozen=True)
class Status:
    """One data set: "verified" if its files are the publisher's, "present" if that is not known."""

    name: str
    state: State
    path: Path
    problems: tuple[str, ...] = ()
    advice: str = ""


def status(data: Path | str | None = None, *, verify: bool = True) -> list[Status]:
    """The state of every data set; without `verify` no file is read, and what is there counts as "present".

    >>> [(entry.name, entry.state) for entry in status("no such folder")][-2:]
    [('mini-imagenet', 'missing'), ('digits', 'present')]
    """
    root = data_root(data)
    return [*(_status(source, root, verify) for source in SOURCES.values()), _digits()]


def _status(source: Source, root: Path, verify: bool) -> Status:
    layout = source.nearest(root)
    path = root / layout.folder
    missing = [f"{name} is missing" for name in layout.find_missing(root)]
    if missing:
        return Status(source.name, "missing", path, tuple(missing), source.advice(root))
    if not verify:
        return Status(source.name, "present", path)
    damaged = [f"{name} is not the publisher's file" for name in layout.find_altered(root)]
    if source is MINI_IMAGENET:
        damaged += problems(root)
    if damaged:
        return Status(source.name, "damaged", path, tuple(damaged), source.advice(root))
    has_checksums = any(file.checksum for file in layout.files)
    return Status(source.name, "verified" if has_checksums else "present", path)


def _digits() -> Status:
    try:
        return Status("digits", "present", digits_file().parent)
    except MissingData as error:
        return Status("digits", "missing", Path("sklearn"), (str(error),), "run `pip install scikit-learn`")
