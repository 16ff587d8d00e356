"""The rows of a task as the folder has them: all that arrived and was not deleted since, with the labels of today."""

from collections.abc import Callable

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, StoreError
from zoolearn.training.predict import joined
from zoolearn.zoo.arrivals import Fixes, Rows, Side, TaskEntry
from zoolearn.zoo.folder import ZooFolder


def stored_task(folder: ZooFolder, entry: TaskEntry) -> Task:
    """A task with its kept training rows; refused where none are kept: held-out rows are never trained on."""
    if not entry.keeps_rows:
        raise DataError(
            f"no rows to train on are kept of task {entry.name!r} (replay is 0); its held-out ones are for measuring alone"
        )
    train, test = stored_examples(folder, entry, "train"), stored_examples(folder, entry, "test")
    try:
        return Task(entry.name, train, test, entry.classes, entry.augment)
    except DataError as error:
        raise StoreError(f"{folder.path}: {error}; the files were altered, restore them from a copy") from error


def stored_examples(folder: ZooFolder, entry: TaskEntry, side: Side) -> Examples:
    """The rows of a task on one side; memory-mapped where they came at once."""
    try:
        return Examples(stored_inputs(folder, entry, side), stored_labels(folder, entry, side))
    except (DataError, IndexError) as error:
        raise StoreError(f"{folder.path}: {error}; the files were altered, restore them from a copy") from error


def stored_inputs(folder: ZooFolder, entry: TaskEntry, side: Side) -> Tensor:
    """The inputs of a task on one side."""
    return _together(folder, entry, side, lambda rows: folder.tensor(rows.x), without_deleted)


def stored_labels(folder: ZooFolder, entry: TaskEntry, side: Side) -> Tensor:
    """The labels of a task on one side."""
    return _together(folder, entry, side, lambda rows: folder.tensor(rows.y), _corrected)


def _together(
    folder: ZooFolder,
    entry: TaskEntry,
    side: Side,
    read: Callable[[Rows], Tensor],
    correct: Callable[[ZooFolder, Fixes, Tensor], Tensor],
) -> Tensor:
    """What arrived on one side, in its order; a correction is of what had arrived before it."""
    found: list[Tensor] = []
    for arrival in entry.arrivals:
        fixes, rows = arrival.fixes(side), arrival.rows(side)
        if fixes is not None:
            found = [correct(folder, fixes, joined(found))]
        if rows is not None:
            found.append(read(rows))
    return joined(found)


def without_deleted(folder: ZooFolder, fixes: Fixes, rows: Tensor) -> Tensor:
    """What is left of rows once those are gone that a correction deletes."""
    pairs = folder.tensor(fixes.pairs)
    kept = torch.ones(len(rows), dtype=torch.bool)
    kept[pairs[pairs[:, 1] < 0, 0]] = False
    return rows[kept]


def _corrected(folder: ZooFolder, fixes: Fixes, labels: Tensor) -> Tensor:
    pairs, labels = folder.tensor(fixes.pairs), labels.clone()
    labels[pairs[:, 0]] = pairs[:, 1]
    return without_deleted(folder, fixes, labels)
