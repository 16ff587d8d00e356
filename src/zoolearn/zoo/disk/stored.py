"""The stored rows of a task: all that arrived and were not deleted since, with corrected labels."""

import json
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, StoreError
from zoolearn.training.predict import join
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Fixes, Rows, Side, Stored, TaskEntry
from zoolearn.zoo.disk.folder import WRITE_AT_ONCE, ZooFolder
from zoolearn.zoo.disk.index import Index


def load_task(folder: ZooFolder, entry: TaskEntry) -> Task:
    """A task with its kept training rows; raises if none are kept, since held-out rows are never trained on."""
    if not entry.keeps_rows:
        raise DataError(
            f"no rows to train on are kept of task {entry.name!r} (replay is 0); its held-out ones are for measuring alone"
        )
    train, test = load_examples(folder, entry, "train"), load_examples(folder, entry, "test")
    try:
        return Task(entry.name, train, test, entry.classes, entry.augment)
    except DataError as error:
        raise StoreError(f"{folder.path}: {error}; the files were altered, restore them from a copy") from error


def load_arrival(folder: ZooFolder, index: Index, arrival: Arrival) -> Task:
    """The arrived part of a task, labelled by all classes of the task; a new task whole."""
    entry = index.with_arrival(arrival).tasks[arrival.task]
    if len(entry.arrivals) == 1:
        return load_task(folder, entry)
    alone = TaskEntry(arrival.task, (arrival,))
    train = load_examples(folder, alone, "train")
    nothing = train.select(torch.empty(0, dtype=torch.int64))
    test = nothing if arrival.test is None else load_examples(folder, alone, "test")
    return Task(arrival.task, train, test, entry.classes, entry.augment, part=True)


def load_examples(folder: ZooFolder, entry: TaskEntry, side: Side) -> Examples:
    """The rows of a task on one side; memory-mapped if they arrived at once."""
    try:
        return Examples(load_inputs(folder, entry, side), load_labels(folder, entry, side))
    except (DataError, IndexError) as error:
        raise StoreError(f"{folder.path}: {error}; the files were altered, restore them from a copy") from error


def load_inputs(folder: ZooFolder, entry: TaskEntry, side: Side) -> Tensor:
    """The inputs of a task on one side."""
    return join_arrivals(folder, entry, side, lambda rows: folder.tensor(rows.x), drop_deleted)


def load_labels(folder: ZooFolder, entry: TaskEntry, side: Side) -> Tensor:
    """The labels of a task on one side."""
    return join_arrivals(folder, entry, side, lambda rows: folder.tensor(rows.y), _apply_fixes)


def load_parts(folder: ZooFolder, entry: TaskEntry) -> list[tuple[int, Task]]:
    """A task in the parts in which it arrived, with their episodes, as far as rows are kept; corrected."""
    whole = load_task(folder, entry)
    if len(entry.arrivals) == 1:
        return [(entry.episode, whole)]
    came_train, came_test = (_find_episodes(folder, entry, side) for side in SIDES)
    parts: list[tuple[int, Task]] = []
    for arrival in entry.arrivals:
        train = whole.train.select((came_train == arrival.episode).nonzero()[:, 0])
        test = whole.test.select((came_test == arrival.episode).nonzero()[:, 0])
        if len(train):
            parts.append((arrival.episode, _part(whole, train, test, adds=bool(parts))))
    return parts


def _find_episodes(folder: ZooFolder, entry: TaskEntry, side: Side) -> Tensor:
    """The episode in which each row of a task arrived."""
    found = torch.empty(0, dtype=torch.int64)
    for arrival in entry.arrivals:
        fixes, rows = arrival.fixes(side), arrival.rows(side)
        found = found if fixes is None else drop_deleted(folder, fixes, found)
        if rows is not None:
            found = torch.cat([found, torch.full((rows.count,), arrival.episode)])
    return found


def _part(whole: Task, train: Examples, test: Examples, *, adds: bool) -> Task:
    """Some rows of a task, with their classes only."""
    labels = torch.bincount(torch.cat([train.y, test.y])).nonzero()[:, 0]
    places = torch.zeros(len(whole.classes), dtype=torch.int64)
    places[labels] = torch.arange(len(labels))
    train, test = (Examples(rows.x, places[rows.y]) for rows in (train, test))
    return Task(whole.name, train, test, tuple(whole.classes[label] for label in labels), whole.augment, part=adds)


def join_arrivals(
    folder: ZooFolder,
    entry: TaskEntry,
    side: Side,
    read: Callable[[Rows], Tensor],
    correct: Callable[[ZooFolder, Fixes, Tensor], Tensor],
) -> Tensor:
    """Joins the arrivals of one side in order; a correction applies to what arrived before it."""
    found: list[Tensor] = []
    for arrival in entry.arrivals:
        fixes, rows = arrival.fixes(side), arrival.rows(side)
        if fixes is not None:
            found = [correct(folder, fixes, join(found))]
        if rows is not None:
            found.append(read(rows))
    return join(found)


def drop_deleted(folder: ZooFolder, fixes: Fixes, rows: Tensor) -> Tensor:
    """Rows without those that a correction deletes."""
    pairs = folder.tensor(fixes.pairs)
    kept = torch.ones(len(rows), dtype=torch.bool)
    kept[pairs[pairs[:, 1] < 0, 0]] = False
    return rows[kept]


def _apply_fixes(folder: ZooFolder, fixes: Fixes, labels: Tensor) -> Tensor:
    pairs, labels = folder.tensor(fixes.pairs), labels.clone()
    labels[pairs[:, 0]] = pairs[:, 1]
    return drop_deleted(folder, fixes, labels)


def load_row_names(folder: ZooFolder, entry: TaskEntry, side: Side) -> list[str | None]:
    """The original name of each row of a task on one side."""
    parts = [part for arrival in entry.arrivals if (part := arrival.rows(side))]
    names: list[str | None] = []
    for rows in parts:
        names += load_names(folder, rows) or [None] * rows.count
    return [names[number] for number in number_rows(folder, entry, side)]


def number_rows(folder: ZooFolder, entry: TaskEntry, side: Side) -> list[int]:
    """The number of each remaining row, among all that ever arrived on one side."""
    came = 0

    def numbers(rows: Rows) -> Tensor:
        nonlocal came
        came += rows.count
        return torch.arange(came - rows.count, came)

    return join_arrivals(folder, entry, side, numbers, drop_deleted).tolist()


def load_names(folder: ZooFolder, rows: Rows) -> list[str] | None:
    """The original names of rows; None if they did not come from files."""
    if rows.names is None:
        return None
    try:
        names = json.loads(folder.tensor(rows.names).numpy().tobytes())
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{folder.path}: names of rows cannot be read ({error}); restore them from a copy") from error
    if not isinstance(names, list) or len(names) != rows.count or not all(isinstance(name, str) for name in names):
        raise StoreError(f"{folder.path}: names of rows are not one text for each; restore them from a copy")
    return names


def choose_rows(folder: ZooFolder, rows: Rows, places: Tensor, labels: Tensor) -> Rows:
    """Stores some of the rows of an arrival as files of their own, with these labels."""
    names = load_names(folder, rows)
    return Rows(
        store_selection(folder, rows.x, places),
        folder.store_tensor(labels),
        store_selection(folder, rows.digests, places),
        store_names(folder, [names[place] for place in places.tolist()]) if names else None,
        store_selection(folder, rows.ids, places) if rows.ids else None,
    )


def store_selection(folder: ZooFolder, stored: Stored, places: Tensor) -> Stored:
    """Stores some rows of a stored tensor as one of their own, a few megabytes at a time."""
    every, at_once = folder.tensor(stored), max(1, WRITE_AT_ONCE // (stored.bytes // stored.shape[0]))
    blocks = (every[block].numpy() for block in torch.split(places, at_once))
    return folder.store_blocks(blocks, stored.dtype, stored.shape[1:])


def store_names(folder: ZooFolder, names: Sequence[str]) -> Stored:
    """Stores the original names of rows."""
    content = json.dumps(list(names)).encode()
    return folder.store_blocks([np.frombuffer(content, np.uint8)], "uint8", ())
