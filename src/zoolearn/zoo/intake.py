"""People's data taken into the folder: read block by block, split, stored, and what was understood of it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Literal

import numpy as np
import torch

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, unknown_name
from zoolearn.features import Extractor, embedded
from zoolearn.nets.backbones import Shape
from zoolearn.nets.net import flip_is_safe
from zoolearn.runs.step import Step
from zoolearn.zoo.dividing import Taken, check_counts, divide
from zoolearn.zoo.extracting import Origins, to_rows
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import Index, Rows, TaskEntry
from zoolearn.zoo.inputs.folders import natural
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.source import Broken, Source
from zoolearn.zoo.leaks import Prints
from zoolearn.zoo.reader import LONGEST_NAME
from zoolearn.zoo.settings import ZooSettings
from zoolearn.zoo.splitting import Holdout

BYTES_AT_ONCE = 1 << 22
ROWS_AT_ONCE = 1024

Augment = Literal["auto", "none", "crop", "flip", "crop-flip"]
AUGMENT: dict[Augment, tuple[str, ...]] = {
    "none": (),
    "crop": ("crop",),
    "flip": ("flip",),
    "crop-flip": ("crop", "flip"),
}


@dataclass(frozen=True)
class Reading:
    """What was understood of people's data before it is learned from; `notes` say what they should know of it."""

    task: TaskEntry
    look: Look
    settings: ZooSettings
    counts: dict[str, tuple[int, int]]  # of each class: rows to train on, rows held out
    broken: tuple[Broken, ...]
    told: str  # of broken rows, lines for people
    left_out: tuple[Broken, ...] = ()  # files, columns and splits that were not looked at
    notes: tuple[str, ...] = ()


def iter_take_in(
    folder: ZooFolder,
    index: Index,
    name: str,
    data: Source,
    test: Source | None,
    *,
    holdout: Holdout,
    skip_broken: bool,
    augment: Augment,
    extractor: Extractor | None = None,
) -> Generator[Step, None, tuple[Index, Reading]]:
    """Reads labelled data into the folder, of pictures their features; gives the settled index and what was read.

    All rows are read before they are split, so that broken ones leave every class its share of held-out rows, and copies
    stay on one side.
    """
    check_name(name, index)
    classes = data.classes or tuple(sorted(set(_labels(data)), key=natural))
    if test is None:
        check_counts(data, data.labels or (), classes)
    look = data.look()
    for column in look.columns:
        _check_odd_name("column", column)
    settings = index.settings.settled(look)
    kinds = _augmentation(augment, settings.stored_shape)
    read = []
    for source, what in ((data, f"reading {name}"), (test, f"reading {name} (test)")):
        if source is not None:
            read.append((yield from _iter_read(folder, source, classes, settings, what, extractor)))
    broken = [row for part in read for row in part.broken]
    told = "".join(part.source.told(part.broken) for part in read)
    if broken and not skip_broken:
        total = sum(len(part.source) for part in read)
        raise DataError(
            f"{data.where}: {len(broken)} of {total} rows cannot be read; repair or remove them, or leave them out with "
            f"--skip-broken:{told}"
        )
    split, notes = divide(folder, index, name, read, classes, holdout)
    parts = [_store_part(folder, part, rows) for part, rows in zip((read[0], read[-1]), split, strict=True)]
    _drop_scratch(folder, index, read, parts)
    entry = TaskEntry(name, len(index.episodes) + 1, classes, kinds, parts[0], parts[1])
    counts = _counts(folder, entry)
    left_out = (*data.left_out, *(test.left_out if test else ()))
    if settings.lacks_gpu:
        notes.append("this zoo was made to train on a GPU; there is none here, so it trains on the CPU")
    reading = Reading(entry, look, settings, counts, tuple(broken), told, left_out, tuple(notes))
    return replace(index, settings=settings), reading


def taken_in(
    folder: ZooFolder, index: Index, task: Task, extractor: Extractor | None = None
) -> tuple[Index, TaskEntry]:
    """Stores a task that is at hand as tensors; gives the index with settled settings and the task's entry."""
    check_name(task.name, index)
    for name in task.classes:
        _check_odd_name("class", name)
    settings = _settled_by(task, index.settings) if not index.tasks else index.settings
    found, dtype = task.shape, str(task.train.x.dtype).removeprefix("torch.")
    taken = [(settings.stored_shape, settings.stored_dtype), *([(settings.shape, "uint8")] if extractor else ())]
    if (found, dtype) not in taken:
        raise DataError(
            f"task {task.name!r} has inputs {task.train!r}, this zoo takes {settings.shape} "
            f"{'uint8' if settings.kind == 'images' else 'float32'}; bring them to that shape or learn from files, which is "
            "done for you"
        )
    parts = [_store_rows(folder, rows, extractor) for rows in (task.train, task.test)]
    augment = () if extractor else task.augment
    entry = TaskEntry(task.name, len(index.episodes) + 1, task.classes, augment, parts[0], parts[1])
    return replace(index, settings=settings), entry


def _settled_by(task: Task, settings: ZooSettings) -> ZooSettings:
    if settings.features is not None:
        return settings
    shape = task.shape
    images = len(shape) == 3
    look = Look("images", shape[0], shape[1], shape[2], True) if images else Look("features", width=shape[0])
    return replace(settings, shape=shape).settled(look)


def _store_rows(folder: ZooFolder, rows: Examples, extractor: Extractor | None) -> Rows:
    """Rows that are at hand; of pictures their features, where there is an extractor."""
    x = rows.x
    if extractor is None:
        return Rows(folder.store_tensor(x), folder.store_tensor(rows.y))
    made = torch.cat([to_rows(extractor, block) for block in torch.split(x, ROWS_AT_ONCE)]) if x.ndim == 4 else x
    origins = Origins()
    origins.add(x.numpy(), repeat(None, len(x)))
    return Rows(folder.store_tensor(made), folder.store_tensor(rows.y), **origins.stored(folder, range(len(x))))


def check_name(name: str, index: Index) -> None:
    """Refuses a task's name that is taken or cannot be shown."""
    _check_odd_name("task", name)
    if name in index.tasks:
        raise DataError(
            f"task {name!r} was learned already; give the new one another name, or forget the old one first"
        )


def _check_odd_name(kind: str, name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        shown = f"{name[:80]!r}... ({len(name)} characters)" if len(name) > LONGEST_NAME else repr(name)
        raise DataError(f"a {kind} is named {shown}; give it a name of 1 to {LONGEST_NAME} printable characters")


def _labels(source: Source) -> Sequence[str]:
    if source.labels is None or not len(source):
        raise DataError(f"{source.where} holds no labelled rows")
    for label in set(source.labels):
        _check_odd_name("class", label)
    return source.labels


def _numbers(source: Source, classes: Sequence[str], rows: Sequence[int]) -> list[int]:
    """The number of each row's class."""
    place = {name: number for number, name in enumerate(classes)}
    labels = _labels(source)
    for row in rows:
        if labels[row] not in place:
            raise DataError(
                f"{source.name(row)}: {unknown_name('class', labels[row], classes)}; it was not in the training data"
            )
    return [place[labels[row]] for row in rows]


def _iter_read(
    folder: ZooFolder,
    source: Source,
    classes: Sequence[str],
    settings: ZooSettings,
    what: str,
    extractor: Extractor | None,
) -> Generator[Step, None, Taken]:
    """Writes the rows that can be read, whatever side they come to; collects the others."""
    numbers = _numbers(source, classes, range(len(source)))
    rows: list[int] = []
    broken: list[Broken] = []
    prints, origins = Prints(), None if extractor is None else Origins()
    with folder.receiving_rows(settings.stored_dtype, settings.stored_shape) as writer:
        for block in source.blocks(range(len(source)), settings.shape or ()):
            stored = block.x if extractor is None else embedded(extractor, block.x)
            writer.add(stored)
            prints.add(block.x, stored)
            if origins is not None:
                origins.add(block.x, map(source.file, block.rows))
            rows.extend(block.rows)
            broken.extend(block.broken)
            yield Step(what, len(rows), len(source))
    if not rows:
        raise DataError(f"{source.where}: none of its {len(source)} rows can be read:{source.told(broken)}")
    labels = np.array([numbers[row] for row in rows], np.int64)
    return Taken(source, rows, labels, writer.stored, prints, tuple(broken), origins)


def _store_part(folder: ZooFolder, taken: Taken, rows: Sequence[int]) -> Rows:
    """The rows of one side, as tensors of their own."""
    stored = taken.stored
    if len(rows) < len(taken.rows):
        every, at_once = folder.tensor(stored), max(1, BYTES_AT_ONCE // (stored.bytes // stored.shape[0]))
        blocks = (every[list(rows[first : first + at_once])].numpy() for first in range(0, len(rows), at_once))
        stored = folder.store_blocks(blocks, stored.dtype, stored.shape[1:])
    origins = {} if taken.origins is None else taken.origins.stored(folder, rows)
    return Rows(stored, folder.store_blocks([taken.labels[list(rows)]], "int64", ()), **origins)


def _drop_scratch(folder: ZooFolder, index: Index, read: Sequence[Taken], parts: Sequence[Rows]) -> None:
    """Deletes what was read, where neither side is all of it."""
    wanted = {part.x.digest for part in parts} | {part.digest for task in index.tasks.values() for part in task.stored}
    for taken in read:
        if taken.stored.digest not in wanted:
            folder.file("data", taken.stored.digest).unlink(missing_ok=True)


def _augmentation(augment: Augment, shape: Shape) -> tuple[str, ...]:
    if augment != "auto":
        if AUGMENT[augment] and len(shape) != 3:
            raise DataError(f"augment is {augment!r}, but the inputs are features, not images; use none")
        return AUGMENT[augment]
    if len(shape) != 3 or min(shape[1:]) < 24:
        return ()
    return ("crop", "flip") if flip_is_safe(shape) else ("crop",)


def _counts(folder: ZooFolder, entry: TaskEntry) -> dict[str, tuple[int, int]]:
    assert entry.train is not None
    splits = [Examples(folder.tensor(rows.x), folder.tensor(rows.y)) for rows in (entry.train, entry.test)]
    Task(entry.name, splits[0], splits[1], entry.classes, entry.augment)  # its own checks, before anything is trained
    train, test = (np.bincount(examples.y.numpy(), minlength=len(entry.classes)) for examples in splits)
    return {name: (int(train[place]), int(test[place])) for place, name in enumerate(entry.classes)}
