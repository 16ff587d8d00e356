"""Splits the rows of a task into training and held-out ones, and reports copies among them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from msgspec.structs import replace as changed
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.seeds import derive
from zoolearn.words import plural, some
from zoolearn.zoo.disk.arrivals import Arrival, Side, Stored, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import choose_rows, load_labels
from zoolearn.zoo.inputs.source import Broken, Source
from zoolearn.zoo.intake.holdout import Holdout, last_rows, random_rows
from zoolearn.zoo.intake.leaks import (
    Digests,
    Fingerprints,
    iter_earlier_sides,
    join_by_names,
    join_groups,
    read_digests,
)

MOST_ALIKE = 5  # groups of pictures that are named


@dataclass(frozen=True)
class Taken:
    """The readable rows of a source: their numbers there, labels, positions and fingerprints."""

    source: Source
    rows: list[int]
    labels: NDArray[np.int64]
    stored: Stored
    prints: Fingerprints
    broken: tuple[Broken, ...]
    ids: NDArray[np.uint8] | None = None  # digests of the files that rows are features of


def divide(
    folder: ZooFolder,
    index: Index,
    name: str,
    read: Sequence[Taken],
    classes: Sequence[str],
    holdout: Holdout,
    *,
    skip_known: bool = False,
) -> tuple[tuple[list[int], list[int]], list[str]]:
    """Splits rows into training and held-out ones; returns notes on copies too."""
    data, entry = read[0], index.tasks.get(name)
    notes = check_counts(data.source, data.labels.tolist(), classes, [] if entry is None else entry.classes)
    (side, held), found = _divide(folder, index, name, read, classes, holdout)
    notes = found + (notes if len(read) == 1 else [])
    if entry is None:
        return (side, held), notes
    stored = find_known_rows(folder, entry, read, classes, skip_known=skip_known)
    side, held = ([row for row in rows if row not in stored[place]] for rows, place in ((side, 0), (held, -1)))
    if sum(map(len, stored)):
        notes.append(f"{plural(sum(map(len, stored)), 'row')} left out, for being stored already")
    if not side and len(read) == 1:
        side, held = held, []
    if not side:
        raise DataError(
            f"{data.source.where}: all rows are stored in task {name!r} already; there is nothing new to learn"
        )
    return (side, held), notes


def _divide(
    folder: ZooFolder, index: Index, name: str, read: Sequence[Taken], classes: Sequence[str], holdout: Holdout
) -> tuple[tuple[list[int], list[int]], list[str]]:
    data = read[0]
    if len(read) == 2:
        held = list(range(len(read[1].rows)))
        side, notes = _drop_copies(data, list(range(len(data.rows))), read[1].prints.all)
        notes += _lookalikes_across(data, read[1])
    elif holdout.last is not None:
        last = last_rows(data.labels, holdout.last)
        held = last.held
        side, notes = _drop_copies(data, last.train, data.prints.all[held])
    else:
        return _divide_at_random(folder, index, name, data, classes, holdout)
    return (side, held), [
        *notes,
        *_contradictions(data, classes),
        *_count_held_earlier(folder, index, data.prints.all[side]),
    ]


def find_known_rows(
    folder: ZooFolder, entry: TaskEntry, read: Sequence[Taken], classes: Sequence[str], *, skip_known: bool
) -> list[set[int]]:
    """The rows of each source that the task has already; raises where that would mislead.

    A row stored under another label is always an error, one stored on the other side (held out, and now to be
    trained on) unless it is skipped.
    """
    stored = {side: _labels_of(folder, entry, side) for side in ("held", "train")}
    _check_labels([*stored.values()], read, classes)
    found: list[set[int]] = []
    for place, taken in enumerate(read):
        digests = taken.prints.all.tolist()
        other = stored["held" if place == 0 else "train"]
        crossed = [row for row, digest in enumerate(digests) if digest in other]
        if crossed and not skip_known:
            how = "held out of this task to measure it" if place == 0 else "trained on already, and so no test"
            raise DataError(
                f"{plural(len(crossed), 'row')} {'is' if len(crossed) == 1 else 'are'} {how} ({_names(taken, crossed)}); leave "
                "out what the task has already: --skip-known (skip_known=True)"
            )
        found.append(
            {row for row, digest in enumerate(digests) if digest in stored["held"] or digest in stored["train"]}
        )
    return found


def _check_labels(stored: Sequence[dict[int, int]], read: Sequence[Taken], classes: Sequence[str]) -> None:
    """Raises on rows that are stored under another label, on whichever side."""
    odd: dict[str, int] = {}  # names of rows, and the labels that they have in store
    for taken in read:
        for row, digest, label in zip(taken.rows, taken.prints.all.tolist(), taken.labels.tolist(), strict=True):
            odd |= {taken.source.name(row): known[digest] for known in stored if known.get(digest, label) != label}
    if odd:
        raise DataError(
            f"{plural(len(odd), 'row')} stored already under another label ({some([*odd])}; the first as "
            f"{classes[next(iter(odd.values()))]!r}); leave them out, or change what is stored (`zoo correct`)"
        )


def _labels_of(folder: ZooFolder, entry: TaskEntry, side: str) -> dict[int, int]:
    """The labels of stored rows on one side, by digest."""
    where: Side = "test" if side == "held" else "train"
    if where == "train" and not entry.keeps_rows:
        return {}
    digests, labels = read_digests(folder, entry, where), load_labels(folder, entry, where)
    return dict(zip(digests.tolist(), labels.tolist(), strict=True))


def _drop_copies(data: Taken, train: list[int], held: Digests) -> tuple[list[int], list[str]]:
    """The training rows without those that are held out too."""
    known = set(held.tolist())
    copied = {row for row in train if int(data.prints.all[row]) in known}
    if len(copied) == len(train):
        raise DataError(
            f"{data.source.where}: all {len(train)} rows to train on are held out to test on too; give other rows to test "
            "on, or leave --test out: then some are held out"
        )
    left = f"{plural(len(copied), 'row')} to train on left out, for being held out too ({_names(data, sorted(copied))})"
    return [row for row in train if row not in copied], [left] if copied else []


def _divide_at_random(
    folder: ZooFolder, index: Index, name: str, data: Taken, classes: Sequence[str], holdout: Holdout
) -> tuple[tuple[list[int], list[int]], list[str]]:
    """A random split with copies, similar pictures and rows of a group on one side, and where an earlier task has them."""
    copies, pairs = data.prints.groups(), data.prints.lookalikes()
    groups = join_groups(copies, pairs)
    if holdout.group is not None:
        if data.source.groups is None:
            raise DataError(f"{data.source.where} has no column {holdout.group!r} to hold out by; groups are in tables")
        groups = join_by_names(groups, [data.source.groups[row] for row in data.rows])
    own, others = _find_fixed(folder, index, name, data.prints.all, groups)
    place = ("holdout", name, len(index.episodes)) if name in index.tasks else ("holdout", name)
    split = random_rows(data.labels, groups, holdout.share, derive(index.settings.seed, *place), {**others, **own})
    notes = _copies(data, copies) + _alike(data, pairs) + _contradictions(data, classes)
    if others:
        notes.append(
            f"{plural(sum(int(group) in others for group in groups), 'row')} known from earlier tasks: on the side where they "
            "are there, so that nothing that is held out is trained on"
        )
    notes += [
        f"class {classes[label]!r}: copies of its rows had to be both trained on and held out; its accuracy is too good"
        for label in split.torn
    ]
    return (split.train, split.held), notes


def _find_fixed(
    folder: ZooFolder, index: Index, name: str, prints: Digests, groups: NDArray[np.int64]
) -> tuple[dict[int, str], dict[int, str]]:
    """The sides of groups with a row of this or an earlier task; held out, if it is so in any."""
    own: dict[int, str] = {}
    others: dict[int, str] = {}
    for task, side, known in iter_earlier_sides(folder, index, prints):
        fixed = own if task == name else others
        for group in groups[np.isin(prints, known)].tolist():
            fixed[group] = "held" if "held" in (side, fixed.get(group)) else "train"
    return own, others


def drop_copies(folder: ZooFolder, index: Index, arrival: Arrival) -> tuple[Arrival, list[str]]:
    """A new task of tensors without training rows that it holds out too, and notes on copies."""
    train, test = arrival.train, arrival.test
    assert train is not None
    assert test is not None
    prints, held = (folder.verify_tensor(rows.digests).numpy().view(np.uint64) for rows in (train, test))
    labels, kept = folder.tensor(train.y), torch.from_numpy(~np.isin(prints, held)).nonzero()[:, 0]
    counts = torch.bincount(labels[kept], minlength=len(arrival.classes)).tolist()
    if 0 in counts:
        raise DataError(
            f"task {arrival.task!r}: all rows to train on of class {arrival.classes[counts.index(0)]!r} are test rows too; "
            "give other rows to test on"
        )
    notes = _count_held_earlier(folder, index, prints)
    if len(kept) == train.count:
        return arrival, notes
    rest = choose_rows(folder, train, kept, labels[kept])
    left = f"{plural(train.count - len(kept), 'row')} to train on left out of task {arrival.task!r}, for being test rows too"
    arrived = dict(zip(arrival.classes, counts, strict=True))
    return changed(arrival, train=rest, counts=arrived), [left, *notes]


def _count_held_earlier(folder: ZooFolder, index: Index, prints: Digests) -> list[str]:
    sides = iter_earlier_sides(folder, index, prints)
    counts = {task: int(np.isin(prints, known).sum()) for task, side, known in sides if side == "held"}
    return [
        f"{plural(count, 'row')} to train on {'is' if count == 1 else 'are'} held out of task {task!r}: its accuracy may be too "
        "good from now on"
        for task, count in counts.items()
        if count
    ]


def _copies(data: Taken, groups: NDArray[np.int64]) -> list[str]:
    found, first, counts = np.unique(groups, return_index=True, return_counts=True)
    more = int(counts.sum() - len(found))
    copied = sorted(int(row) for row in first[counts > 1])
    what = plural(more, "row is a copy of another", "rows are copies of others")
    return [f"{what}, kept on one side ({_names(data, copied)})"] if more else []


def _alike(data: Taken, pairs: Sequence[tuple[int, int]]) -> list[str]:
    """The groups formed by pairs, by the names of their first two rows."""
    groups = join_groups(np.arange(len(data.rows)), pairs)
    found = [np.flatnonzero(groups == group).tolist() for group in np.unique(groups[[one for one, _ in pairs]])]
    told = []
    for one, other, *rest in found[:MOST_ALIKE]:
        first, second = (data.source.name(data.rows[row]) for row in (one, other))
        told.append(f"{first}, {second} and {len(rest)} more" if rest else f"{first} and {second}")
    more = f"; and {len(found) - MOST_ALIKE:,} more groups" if len(found) > MOST_ALIKE else ""
    return [f"pictures that look alike are kept on one side: {'; '.join(told)}{more}"] if pairs else []


def _lookalikes_across(train: Taken, held: Taken) -> list[str]:
    both = Fingerprints(train.prints.digests + held.prints.digests, train.prints.thumbnails + held.prints.thumbnails)
    cut = len(train.rows)
    across = [(one, other - cut) for one, other in both.lookalikes() if one < cut <= other]
    pairs = [f"{held.source.name(held.rows[other])} like {train.source.name(train.rows[one])}" for one, other in across]
    what = f"{plural(len(across), 'row')} held out that look like ones that are trained on"
    return [f"{what}: {some(pairs)}"] if across else []


def _contradictions(data: Taken, classes: Sequence[str]) -> list[str]:
    """Rows that occur in more than one class."""
    seen: dict[int, int] = {}
    found = []
    for row, (digest, label) in enumerate(zip(data.prints.all.tolist(), data.labels.tolist(), strict=True)):
        other = seen.setdefault(digest, row)
        if data.labels[other] != label:
            found.append(
                f"{data.source.name(data.rows[row])} is {classes[label]!r} and {classes[data.labels[other]]!r}"
            )
    if not found:
        return []
    return [f"{plural(len(found), 'row occurs', 'rows occur')} in two classes: {some(found)}"]


def _names(data: Taken, rows: Sequence[int]) -> str:
    return some([data.source.name(data.rows[row]) for row in rows])


def check_counts(source: Source, labels: Sequence[int], classes: Sequence[str], known: Sequence[str] = ()) -> list[str]:
    """Raises on a class without rows, and on a task of which no row can be held out; notes classes of one row."""
    counts = Counter(labels)
    new = [(name, counts[place]) for place, name in enumerate(classes) if name not in known]
    for name, count in new:
        if not count:
            raise DataError(f"{source.where}: class {name!r} has no example; add some or drop the class")
    if new and not known and max(count for _, count in new) < 2:
        raise DataError(
            f"{source.where}: every class has 1 example; at least one class needs 2, so that one can be held out to test on"
        )
    alone = [name for name, count in new if count == 1]
    if not alone:
        return []
    return [
        f"{'class' if len(alone) == 1 else 'classes'} {some([*map(repr, alone)])}: 1 row, which is trained on. None is held out, "
        "so how well it is answered is not measured; expect many mistakes until more rows come"
    ]
