"""Rows deleted permanently: they leave the files that they came in, and every member that saw them is trained again.

Corrections become part of the rows themselves, so the zoo is then what it had been if the rows had come like this.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from msgspec.structs import replace as changed

from zoolearn.errors import DataError
from zoolearn.training.fit import Progress
from zoolearn.zoo.changes.corrections import Correction
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Rows, Side, TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import choose_rows, row_numbers, stored_labels
from zoolearn.zoo.learning.episode import checkpoints, now
from zoolearn.zoo.learning.retraining import iter_retrain
from zoolearn.zoo.settings import Names


@dataclass(frozen=True)
class PurgeCost:
    """What a purge means: the members that saw a row that changes and are trained again, and how long that took at first."""

    retrained: tuple[int, ...]
    seconds: float


def cost_of_purge(folder: ZooFolder, index: Index, correction: Correction) -> PurgeCost:
    """What purging would do; refused where it would leave nothing to train or to measure with, now or as of an episode."""
    first = _first_touched(_rewritten(folder, index.task(correction.task), correction))
    members = [member for member in index.members if _saw(index, member, correction.task, first)]
    return PurgeCost(tuple(member.number for member in members), sum(member.seconds for member in members))


def iter_purge(
    folder: ZooFolder, index: Index, correction: Correction, names: Names | None
) -> Generator[Progress, None, Index]:
    """The zoo as if rows had come corrected, those that are deleted not at all."""
    task = correction.task
    parts = _rewritten(folder, index.task(task), correction)
    first = _first_touched(parts)
    entry = TaskEntry(task, tuple(_stored(folder, index.task(task), part) for part in parts))
    learner = index.settings.learner(names)
    digests = (part.digest for part in entry.stored)
    learner.checkpoints = checkpoints(folder, index, "purge", task, *digests)
    rest = yield from iter_retrain(
        folder,
        index.remade(tasks={**index.tasks, task: entry}),
        learner,
        names,
        is_touched=lambda member: _saw(index, member, task, first),
        since={task: first},
    )
    return rest.after("purged rows", now(), task, f"{len(correction.rows)} rows changed or deleted permanently")


def _saw(index: Index, member: MemberEntry, task: str, episode: int) -> bool:
    """Whether a member has weights, or has said something, that depends on rows that came in an episode."""
    return member.episode >= episode and (task in member.heads or index.shaped_by(member, task))


@dataclass(frozen=True)
class _Part:
    """An arrival, and which of its rows are left on each side, with their labels."""

    arrival: Arrival
    places: dict[Side, list[int]]
    labels: dict[Side, list[int]]
    was: dict[Side, list[int]]  # labels of all rows, as they came

    @property
    def is_touched(self) -> bool:
        return any(self.labels[side] != self.was[side] for side in SIDES)


def _rewritten(folder: ZooFolder, entry: TaskEntry, correction: Correction) -> list[_Part]:
    parts = []
    left = {side: _left(folder, entry, side, correction) for side in SIDES}
    first = dict.fromkeys(SIDES, 0)
    for arrival in entry.arrivals:
        places, labels, was = {}, {}, {}
        for side in SIDES:
            rows = arrival.rows(side)
            was[side] = folder.tensor(rows.y).tolist() if rows else []
            own = [
                (number - first[side], label)
                for number, label in left[side]
                if 0 <= number - first[side] < len(was[side])
            ]
            places[side], labels[side] = [place for place, _ in own], [label for _, label in own]
            first[side] += len(was[side])
        parts.append(_Part(arrival, places, labels, was))
    _check_left(entry, parts)
    return parts


def _left(folder: ZooFolder, entry: TaskEntry, side: Side, correction: Correction) -> list[tuple[int, int]]:
    """The rows that are left of all that ever came on one side, by their numbers, and their labels."""
    if side == "train" and not entry.keeps_rows:
        return []
    place_of = {name: place for place, name in enumerate(entry.classes)}
    changes = {row.place: label for row, label in correction.rows.items() if row.side == side}
    numbered = zip(row_numbers(folder, entry, side), stored_labels(folder, entry, side).tolist(), strict=True)
    return [
        (number, label if place not in changes else place_of[str(changes[place])])
        for place, (number, label) in enumerate(numbered)
        if changes.get(place, "") is not None
    ]


def _check_left(entry: TaskEntry, parts: Sequence[_Part]) -> None:
    """Refuses a past that could not be: members of an episode are trained again with what had come by then."""
    seen: set[int] = set()
    classes = 0
    for part in parts:
        seen |= {*part.labels["train"]}
        classes += len(part.arrival.classes)
        missing = [entry.classes[label] for label in range(classes) if label not in seen]
        if entry.keeps_rows and missing:
            raise DataError(
                f"no row of class {missing[0]!r} would be left as of episode {part.arrival.episode}, so that its member could "
                "not be trained again; keep one, or forget the task"
            )
    if not parts[0].labels["test"]:
        raise DataError(
            f"no row that was held out of task {entry.name!r} at first would be left; keep one, or forget the task"
        )


def _first_touched(parts: Sequence[_Part]) -> int:
    """The episode in which the first row came that is no longer what it was."""
    return min(part.arrival.episode for part in parts if part.is_touched)


def _stored(folder: ZooFolder, entry: TaskEntry, part: _Part) -> Arrival:
    """The arrival with the rows that are left of it; what was corrected later is then in the rows themselves."""
    moved = Counter(entry.classes[label] for label in part.labels["train"])
    moved.subtract(entry.classes[label] for label in part.was["train"])
    counts = {} if part.arrival.corrects else part.arrival.counts
    after = {name: counts.get(name, 0) + moved[name] for name in {**counts, **moved}}
    train, test = (_rows(folder, part.arrival.rows(side), part.places[side], part.labels[side]) for side in SIDES)
    return changed(
        part.arrival,
        counts={name: count for name, count in after.items() if count > 0},
        train=train,
        test=test,
        fix_train=None,
        fix_test=None,
        **({} if test == part.arrival.test else {"asked": (), "votes": None}),
    )


def _rows(folder: ZooFolder, rows: Rows | None, places: Sequence[int], labels: Sequence[int]) -> Rows | None:
    if rows is None or not places:
        return None
    return choose_rows(folder, rows, torch.tensor(places), torch.tensor(labels))
