"""Reads labelled data into the folder: block by block, split, stored, with a description of what was read."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, unknown_name
from zoolearn.features import Extractor, embed_inputs
from zoolearn.nets.backbones import Shape
from zoolearn.nets.net import flip_is_safe
from zoolearn.training.step import Step
from zoolearn.zoo.disk.arrivals import Arrival, Rows, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_arrival, store_names, store_selection
from zoolearn.zoo.inputs.folders import natural
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.source import Broken, Numbers, Source
from zoolearn.zoo.intake.extracting import row_ids, to_rows
from zoolearn.zoo.intake.growth import Growth, NewClasses, note_similar
from zoolearn.zoo.intake.holdout import Holdout
from zoolearn.zoo.intake.leaks import Fingerprints, digest_rows, store_digests
from zoolearn.zoo.intake.naming import check_ends, check_name, check_odd_name
from zoolearn.zoo.intake.split import Taken, check_counts, divide
from zoolearn.zoo.settings import ZooSettings

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
    """A description of data that was read, before it is learned; `notes` are remarks for the user."""

    task: TaskEntry  # with what has just arrived
    look: Look
    settings: ZooSettings
    counts: dict[str, tuple[int, int]]  # of each class that has arrived: rows to train on, rows held out
    broken: tuple[Broken, ...]
    broken_lines: str  # of unreadable rows
    left_out: tuple[Broken, ...] = ()  # ignored files, columns and splits
    notes: tuple[str, ...] = ()
    growth: Growth | None = None  # None of a new task


def iter_take_in(
    folder: ZooFolder,
    index: Index,
    name: str,
    data: Source,
    test: Source | None,
    *,
    holdout: float | Holdout = 0.2,
    skip_broken: bool = False,
    augment: Augment = "auto",
    new_classes: NewClasses = (),
    skip_known: bool = False,
    extractor: Extractor | None = None,
) -> Generator[Step, None, tuple[Index, Reading]]:
    """Reads labelled data into the folder, pictures as features if there is an extractor; returns the index and the reading.

    All rows are read before they are split, so that unreadable ones leave every class its share of held-out rows,
    and copies stay on one side.
    """
    if name not in index.tasks:
        check_name(name, index)
    growth = find_growth(index, name, data)
    classes = _classes(index, name, data, growth, new_classes)
    entry = index.tasks.get(name, TaskEntry(name, ()))
    if test is None:
        check_counts(data, class_numbers(data, classes), classes, entry.classes)
    look = data.look()
    for column in look.columns:
        check_odd_name("column", column)
    settings = index.settings.settle(look)
    kinds = _augmentation(augment, settings.stored_shape) if growth is None else _same_augmentation(augment, entry)
    read = []
    for source, what in ((data, f"reading {name}"), (test, f"reading {name} (test)")):
        if source is not None:
            read.append((yield from _iter_read(folder, source, classes, settings, what, extractor)))
    broken = [row for part in read for row in part.broken]
    lines = "".join(part.source.list_broken(part.broken) for part in read)
    if broken and not skip_broken:
        total = sum(len(part.source) for part in read)
        raise DataError(
            f"{data.where}: {len(broken)} of {total} rows cannot be read; repair or remove them, or leave them out with "
            f"--skip-broken:{lines}"
        )
    how = holdout if isinstance(holdout, Holdout) else Holdout(holdout)
    split, notes = divide(folder, index, name, read, classes, how, skip_known=skip_known)
    parts = [_store_part(folder, part, rows) for part, rows in zip((read[0], read[-1]), split, strict=True)]
    _drop_scratch(folder, index, read, parts)
    counts = _counts(read, split, classes)
    arrival = Arrival(
        name,
        len(index.episodes) + 1,
        classes[len(entry.classes) :],
        kinds,
        {label: count for label, (count, _) in counts.items() if count},
        parts[0],
        parts[1],
    )
    notes += note_similar(classes) if growth is None else []
    left_out = (*data.left_out, *(test.left_out if test else ()))
    if settings.lacks_gpu:
        notes.append("this zoo was made to train on a GPU; there is none here, so it trains on the CPU")
    entry = entry.with_arrival(arrival)
    load_arrival(folder, index, arrival)  # its own checks, before anything is trained
    reading = Reading(entry, look, settings, counts, tuple(broken), lines, left_out, tuple(notes), growth)
    return replace(index, settings=settings), reading


def _counts(
    read: Sequence[Taken], split: tuple[list[int], list[int]], classes: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """For each class that has rows: how many are trained on, and how many are held out."""
    train, held = (
        np.bincount(part.labels[rows], minlength=len(classes)).tolist()
        for part, rows in zip((read[0], read[-1]), split, strict=True)
    )
    return {name: (one, other) for name, one, other in zip(classes, train, held, strict=True) if one or other}


def find_growth(index: Index, name: str, data: Source) -> Growth | None:
    """What labelled data would add to a task; None if it is new. Raises if no row of it is kept."""
    if name not in index.tasks:
        return None
    check_growable(index.tasks[name])
    return Growth.of(index.tasks[name], _labels(data))


def check_growable(entry: TaskEntry) -> None:
    """Raises if neither rows nor statistics of a task are kept: nothing would tell its classes from new ones."""
    if not entry.keeps_rows and entry.statistics is None:
        raise DataError(
            f"neither rows nor statistics of task {entry.name!r} are kept, so that nothing would tell its classes from new "
            "ones; learn it all once more under another name"
        )


def _classes(index: Index, name: str, data: Source, growth: Growth | None, new_classes: NewClasses) -> tuple[str, ...]:
    """The classes of a task with these rows, known ones first."""
    if growth is not None:
        growth.check(new_classes)
        return (*index.tasks[name].classes, *growth.new)
    classes = data.classes or tuple(sorted(set(_labels(data)), key=natural))
    for label in classes:
        check_ends("class", label)
    if len(classes) < 2:
        raise DataError(
            f"{data.where} has one class, {classes[0]!r}, and task {name!r} is new: there is nothing to tell it from; give "
            f"two classes, or the name of a task that is to grow ({', '.join(index.tasks) or 'there is none yet'})"
        )
    return classes


def store_task(
    folder: ZooFolder, index: Index, task: Task, extractor: Extractor | None = None
) -> tuple[Index, Arrival]:
    """Stores a new task of tensors; returns the index with completed settings, and the arrival."""
    check_name(task.name, index)
    for name in task.classes:
        check_odd_name("class", name)
        check_ends("class", name)
    settings = _complete_settings(task, index.settings) if not index.tasks else index.settings
    found, dtype = task.shape, str(task.train.x.dtype).removeprefix("torch.")
    taken = [(settings.stored_shape, settings.stored_dtype), *([(settings.shape, "uint8")] if extractor else ())]
    if (found, dtype) not in taken:
        raise DataError(
            f"task {task.name!r} has inputs {task.train!r}, this zoo takes {settings.shape} "
            f"{'uint8' if settings.kind == 'images' else 'float32'}; bring them to that shape or learn from files, which is "
            "done for you"
        )
    parts = [_store_rows(folder, rows, extractor) for rows in (task.train, task.test)]
    counts = np.bincount(task.train.y.numpy(), minlength=len(task.classes)).tolist()
    arrived, augment = dict(zip(task.classes, counts, strict=True)), () if extractor else task.augment
    arrival = Arrival(task.name, len(index.episodes) + 1, task.classes, augment, arrived, parts[0], parts[1])
    return replace(index, settings=settings), arrival


def _complete_settings(task: Task, settings: ZooSettings) -> ZooSettings:
    if settings.features is not None:
        return settings
    shape = task.shape
    images = len(shape) == 3
    look = Look("images", shape[0], shape[1], shape[2], True) if images else Look("features", width=shape[0])
    return replace(settings, shape=shape).settle(look)


def _store_rows(folder: ZooFolder, rows: Examples, extractor: Extractor | None) -> Rows:
    """Stores rows in memory; of pictures their features, if there is an extractor."""
    x = rows.x
    if extractor is None:
        return Rows(folder.store_tensor(x), folder.store_tensor(rows.y), store_digests(folder, digest_rows(x)))
    made = torch.cat([to_rows(extractor, block) for block in torch.split(x, ROWS_AT_ONCE)]) if x.ndim == 4 else x
    ids = folder.store_blocks([row_ids(x.numpy())], "uint8", (32,))
    digests = store_digests(folder, digest_rows(made))
    return Rows(folder.store_tensor(made), folder.store_tensor(rows.y), digests, ids=ids)


def open_task(task: Task) -> tuple[Source, Source | None]:
    """The training and test rows of a task as sources; None to test on: some rows are held out."""
    train, test = (
        Numbers(f"{task.name}.{side}", rows.x.numpy(), [task.classes[label] for label in rows.y.tolist()])
        for side, rows in (("train", task.train), ("test", task.test))
    )
    return train, test if len(test) else None


def _labels(source: Source) -> Sequence[str]:
    if source.labels is None or not len(source):
        raise DataError(f"{source.where} holds no labelled rows")
    for label in set(source.labels):
        check_odd_name("class", label)
    return source.labels


def class_numbers(
    source: Source, classes: Sequence[str], otherwise: str = "it was not in the training data"
) -> list[int]:
    """The class number of each row; `otherwise` ends the error about an unknown class."""
    place = {name: number for number, name in enumerate(classes)}
    labels = _labels(source)
    for row, label in enumerate(labels):
        if label not in place:
            raise DataError(f"{source.name(row)}: {unknown_name('class', label, classes)}; {otherwise}")
    return [place[label] for label in labels]


def _iter_read(
    folder: ZooFolder,
    source: Source,
    classes: Sequence[str],
    settings: ZooSettings,
    what: str,
    extractor: Extractor | None,
) -> Generator[Step, None, Taken]:
    """Writes all readable rows, whatever their side; collects the others."""
    if settings.takes_texts and (look := source.look()).kind != "texts" and look.dtype != "int16":
        raise DataError(f"{source.where} holds {look}; this zoo takes texts, or what it stores of them in int16")
    numbers = class_numbers(source, classes)
    rows: list[int] = []
    broken: list[Broken] = []
    prints = Fingerprints()
    ids: list[NDArray[np.uint8]] = []
    yield Step(what, 0, len(source))
    with folder.open_rows(settings.stored_dtype, settings.stored_shape) as writer:
        for block in source.blocks(range(len(source)), settings.shape or ()):
            stored = block.x if extractor is None or settings.takes_texts else embed_inputs(extractor, block.x)
            writer.add(stored)
            prints.add(block.x, stored)
            if extractor is not None:
                ids.append(row_ids(block.x, [source.file(row) for row in block.rows]))
            rows.extend(block.rows)
            broken.extend(block.broken)
            yield Step(what, len(rows), len(source))
    if not rows:
        raise DataError(f"{source.where}: none of its {len(source)} rows can be read:{source.list_broken(broken)}")
    labels = np.array([numbers[row] for row in rows], np.int64)
    return Taken(source, rows, labels, writer.stored, prints, tuple(broken), np.concatenate(ids) if ids else None)


def _store_part(folder: ZooFolder, taken: Taken, rows: Sequence[int]) -> Rows | None:
    """The rows of one side as tensors of their own, with their names; None if there are none."""
    if not rows:
        return None
    stored = taken.stored
    if len(rows) < len(taken.rows):
        stored = store_selection(folder, stored, torch.tensor(rows))
    return Rows(
        stored,
        folder.store_blocks([taken.labels[list(rows)]], "int64", ()),
        store_digests(folder, taken.prints.all[list(rows)]),
        store_names(folder, [taken.source.name(taken.rows[row]) for row in rows]),
        None if taken.ids is None else folder.store_blocks([taken.ids[list(rows)]], "uint8", (32,)),
    )


def _drop_scratch(folder: ZooFolder, index: Index, read: Sequence[Taken], parts: Sequence[Rows | None]) -> None:
    """Deletes what was read, unless one side is all of it."""
    wanted = {part.x.digest for part in parts if part}
    for taken in read:
        digest = taken.stored.digest
        if digest not in wanted and not index.names_file(f"data/{digest}.bin"):
            folder.file("data", taken.stored.digest).unlink(missing_ok=True)


def _same_augmentation(augment: Augment, entry: TaskEntry) -> tuple[str, ...]:
    if augment != "auto" and AUGMENT[augment] != entry.augment:
        was = next(name for name, kinds in AUGMENT.items() if kinds == entry.augment)
        raise DataError(
            f"augment is {augment!r}, but the images of task {entry.name!r} are varied by {was!r}; leave it out"
        )
    return entry.augment


def _augmentation(augment: Augment, shape: Shape) -> tuple[str, ...]:
    if augment != "auto":
        if AUGMENT[augment] and len(shape) != 3:
            raise DataError(f"augment is {augment!r}, but the inputs are features, not images; use none")
        return AUGMENT[augment]
    if len(shape) != 3 or min(shape[1:]) < 24:
        return ()
    return ("crop", "flip") if flip_is_safe(shape) else ("crop",)
