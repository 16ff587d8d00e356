"""Deletes rows or a class from a zoo on features; the result is bit-equal to a zoo that never saw them.

A head is a function of the rows of its task: it is recomputed in milliseconds, and no other task changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace as changed

from zoolearn.errors import DataError, SettingsError, unknown_name
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.changes.rewriting import Numbers, iter_rewrite, last_labels, rewrite_task
from zoolearn.zoo.disk.arrivals import SIDES, Rows, Side, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.journal import Chain
from zoolearn.zoo.disk.stored import load_names
from zoolearn.zoo.learning.episode import now
from zoolearn.zoo.settings import Names


def check_forgettable(index: Index) -> None:
    """Raises if members were trained: single rows cannot be removed from their weights."""
    if index.settings.features is None:
        raise SettingsError(
            "rows and classes can be forgotten in a zoo on features, whose heads are made again of the other rows; in this "
            "one, members were trained on them; `zoo correct FOLDER NAME FILE.csv --purge` deletes rows and trains them again"
        )


def find_class_rows(folder: ZooFolder, entry: TaskEntry, label: str) -> Numbers:
    """All rows of a class, also those that a correction has deleted since."""
    if label not in entry.classes:
        raise DataError(unknown_name("class", label, entry.classes))
    place = entry.classes.index(label)
    labels = last_labels(folder, entry)
    return {side: frozenset(number for number, own in labels[side].items() if own == place) for side in SIDES}


def find_file_rows(folder: ZooFolder, tasks: Iterable[TaskEntry], words: Sequence[str]) -> dict[str, Numbers]:
    """The rows of each task made of these files, by content or name; raises if a file made none."""
    named, by_digest = {*words}, dict[bytes, list[str]]()
    for word in named:
        if Path(word).is_file():
            by_digest.setdefault(sha256(Path(word).read_bytes()).digest(), []).append(word)
    found: dict[str, dict[Side, frozenset[int]]] = {}
    matched: set[str] = set()
    for entry in tasks:
        for side in SIDES:
            made_of = [row for arrival in entry.arrivals for row in _list_origins(folder, arrival.rows(side))]
            same = [{*by_digest.get(id_, ()), *({name} & named)} for name, id_ in made_of]
            numbers = frozenset(number for number, each in enumerate(same) if each)
            matched = matched.union(*same)
            found.setdefault(entry.name, {})[side] = numbers
    for word in words:
        if word not in matched:
            raise DataError(
                f"no stored row was made of {word!r}, by its content or by its name; `zoo correct FOLDER NAME --list` tells names"
            )
    return {name: sides for name, sides in found.items() if any(sides.values())}


def _list_origins(folder: ZooFolder, rows: Rows | None) -> list[tuple[str, bytes]]:
    """The name and the digest of the file that each row was made of."""
    if rows is None:
        return []
    names = load_names(folder, rows) or [""] * rows.count
    ids = [row.tobytes() for row in folder.tensor(rows.ids).numpy()] if rows.ids else [b""] * rows.count
    return list(zip(names, ids, strict=True))


def forget_rows(folder: ZooFolder, index: Index, gone: Mapping[str, Numbers], names: Names | None) -> Index:
    """The zoo without some rows of some tasks, by name."""
    rewritten = [rewrite_task(folder, index.task(task), numbers) for task, numbers in gone.items()]
    rest = run_to_end(iter_rewrite(folder, index, rewritten, index.settings.learner(names), names))
    count = sum(len(numbers) for sides in gone.values() for numbers in sides.values())
    log = [changed(line, detail="") if line.task in gone else line for line in rest.log]
    return replace(rest, log=Chain(new=log)).with_log("forgot rows", now(), detail=f"{count:,}")
