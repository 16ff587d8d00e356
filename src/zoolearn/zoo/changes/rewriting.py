"""Tasks written again without some of their rows, and members that never saw these.

Rows leave the files that they came in. An episode of which nothing is left is empty from then on, as that of a forgotten task.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from msgspec.structs import replace as changed

from zoolearn.errors import DataError
from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.words import plural
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.changes.corrections import DELETED
from zoolearn.zoo.changes.forgetting import drop_task
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Fixes, Rows, Side, TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import choose_rows, load_labels
from zoolearn.zoo.learning.retraining import iter_retrain
from zoolearn.zoo.settings import Names

Numbers = Mapping[Side, frozenset[int]]  # of rows, in the order in which they arrived, deleted ones too
Labels = Mapping[Side, Mapping[int, int]]  # of rows by their numbers
NOTHING = ((), None, None)  # to train on


@dataclass(frozen=True)
class Rewritten:
    """A task as it was, and as it is to be."""

    before: TaskEntry
    after: TaskEntry

    @cached_property
    def since(self) -> int:
        """The first episode of which something is no longer what it was."""
        left = {arrival.episode: arrival for arrival in self.after.arrivals}
        return next(arrival.episode for arrival in self.before.arrivals if left.get(arrival.episode) != arrival)

    @property
    def emptied(self) -> set[int]:
        """The episodes of which nothing is left."""
        return {arrival.episode for arrival in self.before.arrivals} - {each.episode for each in self.after.arrivals}

    @cached_property
    def trained_since(self) -> int | None:
        """The first episode of which something to train on is no longer what it was; None if only held-out rows changed."""
        left = {arrival.episode: _to_train_on(arrival) for arrival in self.after.arrivals}
        was = {arrival.episode: _to_train_on(arrival) for arrival in self.before.arrivals}
        return next((episode for episode, rows in was.items() if left.get(episode, NOTHING) != rows), None)

    def touches(self, index: Index, member: MemberEntry) -> bool:
        """Whether a member's weights or votes depend on rows that changed."""
        votes = self.before.name in member.heads and member.episode >= self.since
        return votes or self.retrains(index, member)

    def retrains(self, index: Index, member: MemberEntry) -> bool:
        """Whether a member's weights depend on rows that changed."""
        task = self.before.name
        if self.trained_since is None:
            return False
        return member.episode >= self.trained_since and (task in member.heads or index.depends_on(member, task))


def _to_train_on(arrival: Arrival) -> tuple[tuple[str, ...], Rows | None, Fixes | None]:
    return arrival.classes, arrival.train, arrival.fix_train


def rewrite_task(folder: ZooFolder, entry: TaskEntry, gone: Numbers, labels: Labels | None = None) -> Rewritten:
    """A task without some rows and without classes that become empty; raises if too little would be left.

    With `labels` of all remaining rows, earlier corrections become part of the rows, except those to classes that came later
    than a row.
    """
    last = labels or last_labels(folder, entry)
    left = {label for side in SIDES for number, label in last[side].items() if number not in gone[side]}
    classes = tuple(name for place, name in enumerate(entry.classes) if place in left or labels)
    sides = {
        side: _Side(folder, entry.classes, classes, side, gone[side], last[side], folds=labels is not None)
        for side in SIDES
    }
    arrivals = [_rewrite_arrival(arrival, sides, classes) for arrival in entry.arrivals]
    for part in sides.values():
        part.check_late(entry.name)
    kept = [each for each in arrivals if labels or each.stored]
    after = TaskEntry(entry.name, tuple(kept))
    _check_left(folder, entry, after)
    return Rewritten(entry, after)


def last_labels(folder: ZooFolder, entry: TaskEntry) -> Labels:
    """The latest label of every row that ever arrived."""
    found: dict[Side, dict[int, int]] = {}
    for side in SIDES:
        labels: dict[int, int] = {}
        present: list[int] = []
        for arrival in entry.arrivals:
            fixes, rows = arrival.fixes(side), arrival.rows(side)
            if fixes is not None:
                pairs = folder.tensor(fixes.pairs).tolist()
                labels |= {present[place]: label for place, label in pairs if label != DELETED}
                deleted = {present[place] for place, label in pairs if label == DELETED}
                present = [number for number in present if number not in deleted]
            if rows is not None:
                own = folder.tensor(rows.y).tolist()
                present += range(len(labels), len(labels) + len(own))
                labels |= dict(enumerate(own, start=len(labels)))
        found[side] = labels
    return found


def _rewrite_arrival(arrival: Arrival, sides: Mapping[Side, "_Side"], classes: Sequence[str]) -> Arrival:
    fixes = {side: part.fixes(arrival) for side, part in sides.items()}
    rows = {side: part.rows(arrival) for side, part in sides.items()}
    counts = Counter({} if arrival.corrects else arrival.counts)
    counts.update(sides["train"].moved)
    sides["train"].moved.clear()
    return changed(
        arrival,
        classes=tuple(name for name in arrival.classes if name in classes),
        counts={name: count for name, count in counts.items() if count},
        train=rows["train"],
        test=rows["test"],
        fix_train=fixes["train"],
        fix_test=fixes["test"],
        **({} if rows["test"] == arrival.test else {"asked": (), "votes": None}),
    )


@dataclass
class _Side:
    """The rows of a task on one side, updated arrival by arrival."""

    folder: ZooFolder
    old_classes: Sequence[str]
    classes: Sequence[str]  # that are left
    side: Side
    gone: frozenset[int]
    last: Mapping[int, int]  # labels among the old classes
    folds: bool  # whether corrections become part of the rows
    first: int = 0
    present: list[int] = field(default_factory=list)  # rows that have arrived and are not deleted yet
    labels: dict[int, int] = field(default_factory=dict)  # of those that are left, among the classes that are left
    moved: Counter[str] = field(default_factory=Counter)  # by how many rows each class of an arrival is more or fewer
    known: int = 0  # classes that have arrived
    late: set[int] = field(default_factory=set)  # rows whose last class came later than they

    def fixes(self, arrival: Arrival) -> Fixes | None:
        """Its corrections of rows that are left."""
        given = arrival.fixes(self.side)
        if given is None:
            return None
        pairs = [(self.present[place], label) for place, label in self.folder.tensor(given.pairs).tolist()]
        place_of = {number: place for place, number in enumerate(n for n in self.present if n not in self.gone)}
        deleted = {number for number, label in pairs if label == DELETED}
        self.present = [number for number in self.present if number not in deleted]
        made = []
        for number, label in pairs:
            if number not in self.gone and not self._is_folded(number):
                self.moved[self.classes[self.labels[number]]] -= 1
                if label != DELETED:
                    self.labels[number] = self._label(number, label)
                    self.moved[self.classes[self.labels[number]]] += 1
                made.append([place_of[number], DELETED if label == DELETED else self.labels[number]])
        if not made:
            return None
        return Fixes(self.folder.store_tensor(torch.tensor(made)), sum(label == DELETED for _, label in made))

    def rows(self, arrival: Arrival) -> Rows | None:
        rows = arrival.rows(self.side)
        self.known += len(arrival.classes)
        if rows is None:
            return None
        was = self.folder.tensor(rows.y).tolist()
        numbers = range(self.first, self.first + rows.count)
        self.first += rows.count
        self.present += numbers
        left = [place for place, number in enumerate(numbers) if number not in self.gone]
        self.late |= {numbers[place] for place in left if self.folds and self.last[numbers[place]] >= self.known}
        labels = [self._label(numbers[place], was[place]) for place in left]
        self.labels |= {numbers[place]: label for place, label in zip(left, labels, strict=True)}
        self.moved.subtract(self.old_classes[label] for label in was)
        self.moved.update(self.classes[label] for label in labels)
        if labels == was:
            return rows
        return choose_rows(self.folder, rows, torch.tensor(left), torch.tensor(labels)) if left else None

    def _label(self, number: int, label: int) -> int:
        """A label among the classes that are left; of a class that is not, the one that the row had last."""
        name = self.old_classes[label]
        if self._is_folded(number) or name not in self.classes:
            name = self.old_classes[self.last[number]]
        return self.classes.index(name)

    def _is_folded(self, number: int) -> bool:
        """Whether corrections of a row become part of it."""
        return self.folds and number not in self.late

    def check_late(self, task: str) -> None:
        """Raises if a row is to be of a class that came later, and no correction says so."""
        wrong = sorted(number for number in self.late if self.labels[number] != self.last[number])
        if wrong:
            name = self.old_classes[self.last[wrong[0]]]
            raise DataError(
                f"{plural(len(wrong), 'row')} of task {task!r} came before class {name!r} did, and cannot have arrived as one of "
                "it; correct without purging, or delete"
            )


def _check_left(folder: ZooFolder, before: TaskEntry, entry: TaskEntry) -> None:
    """Raises if too few rows are left for the task, or for the member of an earlier episode to be retrained."""
    name, first = before.name, next(iter(entry.arrivals), None)
    if first is None or first.episode != before.episode or len(first.classes) < 2:
        raise DataError(
            f"task {name!r} would be left with fewer than two of the classes that it began with; forget the task, and learn "
            "the rest of it again"
        )
    if first.test is None:
        raise DataError(
            f"none of the rows that task {name!r} began with would be left to measure it by; forget the task, and learn the "
            "rest of it again"
        )
    for arrival in entry.arrivals if before.keeps_rows else ():
        then = entry.as_of(arrival.episode)
        labels = load_labels(folder, then, "train").tolist() if then.keeps_rows else []
        for label in sorted({*range(len(then.classes))} - {*labels}):
            raise DataError(
                f"no row of class {then.classes[label]!r} of task {name!r} would be left as of episode {arrival.episode}, so "
                "that its member could not be made again; keep one, or forget the class or the task"
            )


def iter_rewrite(
    folder: ZooFolder, index: Index, rewritten: Sequence[Rewritten], learner: OwnedZoo, names: Names | None
) -> Generator[Progress | Step, None, Index]:
    """The zoo with rewritten tasks: members trained on changed rows are retrained, those of emptied episodes removed."""
    emptied = {number: each.before.name for each in rewritten for number in each.emptied}
    episodes = [drop_task(each, emptied[each.number]) if each.number in emptied else each for each in index.episodes]
    rest = yield from iter_retrain(
        folder,
        index.with_entries(
            tasks={**index.tasks, **{each.after.name: each.after for each in rewritten}}, episodes=episodes
        ),
        learner,
        names,
        is_touched=lambda member: any(each.touches(index, member) for each in rewritten),
        stays=lambda member: member.episode not in emptied,
        trains=lambda member: any(each.retrains(index, member) for each in rewritten),
        since={each.before.name: each.since for each in rewritten},
        trained_since={each.before.name: at for each in rewritten if (at := each.trained_since) is not None},
    )
    return rest
