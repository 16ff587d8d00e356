"""Corrections of stored rows: relabelling and deletion, checked before anything is changed."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TypeVar

import torch

from zoolearn.errors import DataError, unknown_name
from zoolearn.words import plural
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Fixes, Side, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_labels, load_row_names

DELETED = -1  # instead of a label
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class StoredRow:
    """One stored row: its number, whether it is trained on or held out, what it was called, and its class."""

    number: int  # from 1; rows to train on first
    side: Side
    place: int  # among those of its side
    name: str | None
    label: str


def list_rows(folder: ZooFolder, entry: TaskEntry) -> list[StoredRow]:
    """All stored rows of a task, with their current numbers."""
    rows: list[StoredRow] = []
    for side in SIDES if entry.keeps_rows else SIDES[1:]:
        labels, names = load_labels(folder, entry, side).tolist(), load_row_names(folder, entry, side)
        rows += [
            StoredRow(len(rows) + 1 + place, side, place, name, entry.classes[label])
            for place, (label, name) in enumerate(zip(labels, names, strict=True))
        ]
    return rows


@dataclass(frozen=True)
class Correction:
    """The new class of stored rows, None for those to delete."""

    task: str
    rows: Mapping[StoredRow, str | None]

    def __str__(self) -> str:
        to = Counter(self.rows.values())
        deleted = to.pop(None, 0)
        changes = [f"{count:,} to {name}" for name, count in to.items()]
        changes += [f"{deleted:,} deleted"] if deleted else []
        held = sum(row.side == "test" for row in self.rows)
        return f"{self.task}: {len(self.rows):,} of its rows change: {', '.join(changes)} ({held:,} of them held out)"

    @classmethod
    def of(cls, folder: ZooFolder, entry: TaskEntry, wanted: Sequence[tuple[str, str]]) -> "Correction":
        """From pairs of a row, by number or by the path it was learned from, and a class, empty to delete it."""
        rows = list_rows(folder, entry)
        stored, found = _Found(rows, entry.name), dict[StoredRow, str | None]()
        for word, label in wanted:
            if label and label not in entry.classes:
                raise DataError(
                    f"row {word!r}: {unknown_name('class', label, entry.classes)}; a correction brings no new class, "
                    "`zoo learn` does"
                )
            row = stored.find(word)
            if found.setdefault(row, label or None) != (label or None):
                raise DataError(
                    f"row {word!r} is corrected twice, to {found[row]!r} and to {label!r}; say which is right"
                )
        changes = {row: label for row, label in found.items() if label != row.label}
        if not changes:
            raise DataError(
                f"nothing would change: {plural(len(wanted), 'row is', 'rows are')} labelled like this in task {entry.name!r}"
            )
        correction = cls(entry.name, changes)
        correction.check_left(rows)
        return correction

    def check_left(self, rows: Sequence[StoredRow]) -> None:
        """Raises if a class would have no training row left, or the task no held-out row."""
        after = [(row.side, self.rows.get(row, row.label)) for row in rows]
        for name in sorted(
            {row.label for row in rows if row.side == "train"} - {label for side, label in after if side == "train"}
        ):
            raise DataError(
                f"no row of class {name!r} would be left to train on; keep one, or forget the task and learn it again"
            )
        if not any(side == "test" and label is not None for side, label in after):
            raise DataError(f"no row of task {self.task!r} would be left to measure it by; keep some that are held out")

    def arrival(self, folder: ZooFolder, index: Index) -> Arrival:
        """The correction as an arrival, which changes rows and brings none."""
        entry = index.task(self.task)
        train, test = (self._fixes(folder, entry, side) for side in SIDES)
        counts: Counter[str] = Counter()
        for row, label in self.rows.items():
            if row.side == "train":
                counts[row.label] -= 1
                counts.update([label] if label is not None else [])
        moved = {name: count for name, count in counts.items() if count}
        return Arrival(self.task, len(index.episodes) + 1, (), entry.augment, moved, None, None, train, test)

    def _fixes(self, folder: ZooFolder, entry: TaskEntry, side: Side) -> Fixes | None:
        place_of = {name: place for place, name in enumerate(entry.classes)}
        rows = {row: label for row, label in self.rows.items() if row.side == side}
        pairs = [[row.place, DELETED if label is None else place_of[label]] for row, label in rows.items()]
        if not pairs:
            return None
        return Fixes(folder.store_tensor(torch.tensor(sorted(pairs))), sum(label is None for label in rows.values()))


def find_correction(folder: ZooFolder, index: Index, task: str, rows: Mapping[str | int, str | None]) -> Correction:
    """The correction of rows, by number or path: another class, or None to delete."""
    wanted = [(str(row), label or "") for row, label in rows.items()]
    return Correction.of(folder, index.task(task), wanted)


class _Found:
    """Rows by their numbers, or by the paths that they were learned from; each path is read once, however many are asked for."""

    def __init__(self, rows: Sequence[StoredRow], task: str) -> None:
        self.rows, self.task = rows, task
        self.by_end: dict[int, dict[tuple[str, ...], list[StoredRow]]] = {}

    def find(self, word: str) -> StoredRow:
        """The row of this number, or the one that was learned from this path or from one that ends like it."""
        if word.isascii() and word.isdigit():
            if not 1 <= int(word) <= len(self.rows):
                raise DataError(f"there is no row {word}; task {self.task!r} has 1 to {len(self.rows):,}")
            return self.rows[int(word) - 1]
        same = self.by_name.get(word) or [row for row in self._ending(word) if str(row.name).endswith(word)]
        if not same:
            raise DataError(
                f"no stored row of task {self.task!r} was learned from {word!r}; `zoo correct --list` tells all"
            )
        if len(same) > 1:
            raise DataError(
                f"{len(same)} rows were learned from {word!r}; give numbers: {', '.join(str(row.number) for row in same[:10])}"
            )
        return same[0]

    @cached_property
    def by_name(self) -> dict[str, list[StoredRow]]:
        return _group((row.name, row) for row in self.rows if row.name)

    @cached_property
    def parts(self) -> list[tuple[tuple[str, ...], StoredRow]]:
        return [(PurePath(row.name).parts, row) for row in self.rows if row.name]

    def _ending(self, end: str) -> list[StoredRow]:
        """The rows whose paths have the parts of this one at their end."""
        wanted = PurePath(end).parts
        if len(wanted) not in self.by_end:
            self.by_end[len(wanted)] = _group((parts[-len(wanted) :], row) for parts, row in self.parts)
        return self.by_end[len(wanted)].get(wanted, []) if wanted else []


def _group(pairs: Iterable[tuple[Key, StoredRow]]) -> dict[Key, list[StoredRow]]:
    groups: dict[Key, list[StoredRow]] = {}
    for key, row in pairs:
        groups.setdefault(key, []).append(row)
    return groups
