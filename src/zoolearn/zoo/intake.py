"""People's data taken into the folder: split, read block by block, stored, and what was understood of it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, unknown_name
from zoolearn.nets.backbones import Shape
from zoolearn.nets.net import flip_is_safe
from zoolearn.runs.step import Step
from zoolearn.seeds import derive
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import Index, Rows, TaskEntry
from zoolearn.zoo.inputs.folders import natural
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.source import Broken, Source
from zoolearn.zoo.reader import LONGEST_NAME
from zoolearn.zoo.settings import ZooSettings

MOST_LISTED = 1000  # broken rows in one message

Augment = Literal["auto", "none", "crop", "flip", "crop-flip"]
AUGMENT: dict[Augment, tuple[str, ...]] = {
    "none": (),
    "crop": ("crop",),
    "flip": ("flip",),
    "crop-flip": ("crop", "flip"),
}


@dataclass(frozen=True)
class Reading:
    """What was understood of people's data before it is learned from."""

    task: TaskEntry
    look: Look
    settings: ZooSettings
    counts: dict[str, tuple[int, int]]  # of each class: rows to train on, rows held out
    broken: tuple[Broken, ...]


def iter_take_in(
    folder: ZooFolder,
    index: Index,
    name: str,
    data: Source,
    test: Source | None,
    *,
    holdout: float,
    skip_broken: bool,
    augment: Augment,
) -> Generator[Step, None, tuple[Index, Reading]]:
    """Reads labelled data into the folder; gives the index with settled settings and what was read."""
    check_name(name, index)
    labels = _labels(data)
    classes = data.classes or tuple(sorted(set(labels), key=natural))
    train_rows, test_rows = _split(data, labels, classes, holdout, derive(index.settings.seed, "holdout", name), test)
    look = data.look()
    for column in look.columns:
        _check_odd_name("column", column)
    settings = index.settings.settled(look)
    assert settings.shape is not None
    broken: list[Broken] = []
    parts = {}
    for split, source, rows in (("train", data, train_rows), ("test", test or data, test_rows)):
        numbers = _numbers(source, classes, rows)
        work = _stored(folder, source, rows, numbers, settings.shape, f"reading {name} ({split})", broken)
        parts[split] = yield from work
        if not parts[split].count:
            raise DataError(f"{source.where}: none of the {len(rows)} rows to {split} on can be read{_listed(broken)}")
    if broken and not skip_broken:
        raise DataError(
            f"{data.where}: {len(broken)} of {len(train_rows) + len(test_rows)} rows cannot be read; repair or remove "
            f"them, or leave them out with --skip-broken{_listed(broken)}"
        )
    kinds = _augmentation(augment, settings.shape)
    entry = TaskEntry(name, len(index.episodes) + 1, classes, kinds, parts["train"], parts["test"])
    counts = _counts(folder, entry)
    return replace(index, settings=settings), Reading(entry, look, settings, counts, tuple(broken))


def taken_in(folder: ZooFolder, index: Index, task: Task) -> tuple[Index, TaskEntry]:
    """Stores a task that is at hand as tensors; gives the index with settled settings and the task's entry."""
    check_name(task.name, index)
    for name in task.classes:
        _check_odd_name("class", name)
    shape, dtype = task.shape, str(task.train.x.dtype).removeprefix("torch.")
    images = len(shape) == 3
    look = Look("images", shape[0], shape[1], shape[2], True) if images else Look("features", width=shape[0])
    settings = replace(index.settings, shape=shape).settled(look) if not index.tasks else index.settings
    if settings.shape != shape:
        raise DataError(
            f"task {task.name!r} has inputs {task.train!r}, this zoo takes {settings.shape} {dtype}; bring them to that "
            "shape or learn from files, which is done for you"
        )
    parts = [Rows(*map(folder.store_tensor, (rows.x, rows.y))) for rows in (task.train, task.test)]
    entry = TaskEntry(task.name, len(index.episodes) + 1, task.classes, task.augment, parts[0], parts[1])
    return replace(index, settings=settings), entry


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


def _split(
    data: Source, labels: Sequence[str], classes: Sequence[str], holdout: float, seed: int, test: Source | None
) -> tuple[list[int], list[int]]:
    """The rows to train on and those held out: all of `test`, or a random share of every class."""
    if test is not None:
        _labels(test)
        return list(range(len(data))), list(range(len(test)))
    if not 0 < holdout < 1:
        raise DataError(f"holdout is {holdout}; it is the share of rows to test on, above 0 and below 1")
    rng = np.random.default_rng(seed)
    places: dict[str, list[int]] = {name: [] for name in classes}
    for row, label in enumerate(labels):
        places[label].append(row)
    held: set[int] = set()
    for name, rows in places.items():
        if len(rows) < 2:
            raise DataError(
                f"{data.where}: class {name!r} has {len(rows)} example(s); it needs at least 2, one to test on"
            )
        count = min(len(rows) - 1, max(1, round(holdout * len(rows))))
        held.update(rng.choice(rows, count, replace=False).tolist())
    return [row for row in range(len(labels)) if row not in held], sorted(held)


def _stored(
    folder: ZooFolder,
    source: Source,
    rows: Sequence[int],
    numbers: Sequence[int],
    shape: Shape,
    what: str,
    broken: list[Broken],
) -> Generator[Step, None, Rows]:
    """Writes inputs and labels of the rows that can be read; collects the others."""
    label_of = dict(zip(rows, numbers, strict=True))
    labels: list[int] = []
    with folder.receiving_rows("uint8" if len(shape) == 3 else "float32", shape) as writer:
        for block in source.blocks(rows, shape):
            writer.add(block.x)
            labels.extend(label_of[row] for row in block.rows)
            broken.extend(block.broken)
            yield Step(what, len(labels), len(rows))
    return Rows(writer.stored, folder.store_blocks([np.array(labels, np.int64)], "int64", ()))


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


def _listed(broken: Sequence[Broken]) -> str:
    lines = [f"\n  {row.name}: {row.reason}" for row in broken[:MOST_LISTED]]
    more = f"\n  and {len(broken) - MOST_LISTED} more" if len(broken) > MOST_LISTED else ""
    return ":" + "".join(lines) + more if lines else ""
