"""Rows or a class taken out of a zoo on features permanently: what is left has the bits of one that never saw them.

A head is a function of the rows of its task, so that members are made again of what is left of these, in milliseconds, and
no other task is touched. An episode that brought nothing else is empty from then on, as that of a forgotten task.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import torch
from msgspec.structs import replace as changed

from zoolearn.errors import DataError, SettingsError, unknown_name
from zoolearn.nets.net import Net
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.changes.corrections import DELETED
from zoolearn.zoo.changes.forgetting import without
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Fixes, Rows, Side, TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.journal import Chain
from zoolearn.zoo.disk.stored import choose_rows, stored_labels, stored_names, stored_task
from zoolearn.zoo.learning.episode import asked_beside, entry_of, measure, now, written
from zoolearn.zoo.learning.recall import member_net
from zoolearn.zoo.learning.retraining import measured_again
from zoolearn.zoo.settings import Names

Numbers = Mapping[Side, frozenset[int]]  # of rows, in the order in which they arrived, deleted ones too


def check_forgettable(index: Index) -> None:
    """Refuses where members were trained: their weights cannot be parted from single rows."""
    if index.settings.features is None:
        raise SettingsError(
            "rows and classes can be forgotten in a zoo on features, whose heads are made again of the other rows; in this "
            "one, members were trained on them; `zoo correct FOLDER NAME FILE.csv --purge` deletes rows and trains them again"
        )


def rows_of_class(folder: ZooFolder, entry: TaskEntry, label: str) -> Numbers:
    """All rows of a class, also those that a correction has deleted since."""
    if label not in entry.classes:
        raise DataError(unknown_name("class", label, entry.classes))
    place = entry.classes.index(label)
    return {
        side: frozenset(number for number, own in _last_labels(folder, entry, side).items() if own == place)
        for side in SIDES
    }


def rows_of_files(folder: ZooFolder, entry: TaskEntry, words: Sequence[str]) -> tuple[Numbers, set[str]]:
    """The rows that were made of files, and the words that found some: a file is known by its content, or else by its name."""
    digests = {word: sha256(Path(word).read_bytes()).digest() for word in words if Path(word).is_file()}
    found: dict[Side, set[int]] = {side: set() for side in SIDES}
    heard: set[str] = set()
    for side in SIDES:
        first = 0
        for rows in (arrival.rows(side) for arrival in entry.arrivals):
            if rows is None:
                continue
            names = stored_names(folder, rows) or [""] * rows.count
            ids = [row.tobytes() for row in folder.tensor(rows.ids).numpy()] if rows.ids else [b""] * rows.count
            for number, (name, id_) in enumerate(zip(names, ids, strict=True), start=first):
                same = {word for word in words if name == word or digests.get(word) == id_}
                heard |= same
                found[side] |= {number} if same else set()
            first += rows.count
    return {side: frozenset(numbers) for side, numbers in found.items()}, heard


def found_rows(folder: ZooFolder, tasks: Iterable[TaskEntry], words: Sequence[str]) -> dict[str, Numbers]:
    """The rows of each task that were made of files; refused if one of them made none."""
    found, heard = {}, set[str]()
    for entry in tasks:
        numbers, words_heard = rows_of_files(folder, entry, words)
        heard |= words_heard
        if any(numbers.values()):
            found[entry.name] = numbers
    for word in words:
        if word not in heard:
            raise DataError(
                f"no stored row was made of {word!r}, by its content or by its name; `zoo correct FOLDER NAME --list` tells names"
            )
    return found


def without_rows(folder: ZooFolder, index: Index, gone: Mapping[str, Numbers], names: Names | None) -> Index:
    """The zoo without some rows of some tasks, by name."""
    for task, numbers in gone.items():
        index = _without_rows(folder, index, task, numbers, names)
    count = sum(len(numbers) for sides in gone.values() for numbers in sides.values())
    log = [changed(line, detail="") if line.task in gone else line for line in index.log]
    return replace(index, log=Chain(new=log)).after("forgot rows", now(), detail=f"{count:,}")


def _without_rows(folder: ZooFolder, index: Index, task: str, gone: Numbers, names: Names | None) -> Index:
    before = index.task(task)
    entry = Rest(folder, before, gone).entry()
    _check_left(folder, before, entry)
    left = {arrival.episode for arrival in entry.arrivals}
    rest = index.remade(tasks={**index.tasks, task: entry})
    members = [
        made_again(folder, rest, member, task, names) if member.tasks == (task,) else member
        for member in index.members
        if member.tasks != (task,) or member.episode in left
    ]
    rest = heard_again(folder, rest.remade(members=members), task, names)
    empty = {arrival.episode for arrival in before.arrivals} - left
    episodes = [without(episode, task) if episode.number in empty else episode for episode in index.episodes]
    since = {task: before.episode}
    rest = rest.remade(episodes=episodes)
    rest = rest.remade(episodes=[measured_again(folder, rest, episode, since) for episode in episodes])
    return rest.measured(measure(folder, rest, [task]))


def _check_left(folder: ZooFolder, before: TaskEntry, entry: TaskEntry) -> None:
    """Refuses what would be no task any more: the way out is to forget all of it."""
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
    kept = torch.bincount(stored_labels(folder, entry, "train"), minlength=len(entry.classes))
    for label in (kept == 0).nonzero()[:, 0].tolist():
        raise DataError(
            f"no row of class {entry.classes[label]!r} of task {name!r} would be left to learn from; forget the class (--class "
            f"{entry.classes[label]!r})"
        )


def made_again(folder: ZooFolder, rest: Index, member: MemberEntry, task: str, names: Names | None) -> MemberEntry:
    """A member as it comes of the rows that its task has by now, up to its episode."""
    learner = rest.settings.learner(names)
    learner.episode = member.episode - 1
    rows = stored_task(folder, rest.tasks[task].as_of(member.episode))
    made = run_to_end(learner.grow(learner, [rows], member.seed))
    entry = entry_of(made, member.number, member.tasks, member.seed, member.seconds, member.rows_trained)
    entry = changed(entry, share=member.share, silent=member.silent, supersedes=member.supersedes)
    return written(folder, rest, entry, made.net, learner.recipe, {})


def heard_again(folder: ZooFolder, rest: Index, task: str, names: Names | None) -> Index:
    """With what older members, made again, say of rows that were held out later."""

    def net_of(member: MemberEntry) -> Net:
        return member_net(folder, rest, member, names)

    recipe = rest.settings.learner(names).recipe
    arrivals = tuple(asked_beside(folder, rest, arrival, net_of, recipe) for arrival in rest.tasks[task].arrivals)
    return rest.remade(tasks={**rest.tasks, task: TaskEntry(task, arrivals)})


def _last_labels(folder: ZooFolder, entry: TaskEntry, side: Side) -> dict[int, int]:
    """The label of every row that ever arrived on one side, as it was last."""
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
    return labels


@dataclass
class Rest:
    """What is left of a task without some rows: arrival by arrival, with classes and rows numbered anew."""

    folder: ZooFolder
    before: TaskEntry
    gone: Numbers
    classes: tuple[str, ...] = field(init=False)
    lasts: dict[Side, dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.lasts = {side: _last_labels(self.folder, self.before, side) for side in SIDES}
        left = {label for side in SIDES for number, label in self.lasts[side].items() if number not in self.gone[side]}
        self.classes = tuple(name for place, name in enumerate(self.before.classes) if place in left)

    def entry(self) -> TaskEntry:
        """The task that is left."""
        sides = {side: RestOfSide(self, side) for side in SIDES}
        arrivals = []
        for arrival in self.before.arrivals:
            fixes = {side: part.fixes(arrival) for side, part in sides.items()}
            rows = {side: part.rows(arrival) for side, part in sides.items()}
            counts = {name: count for name, count in sides["train"].counts.items() if count}
            sides["train"].counts.clear()
            if any((*fixes.values(), *rows.values())):
                arrivals.append(
                    changed(
                        arrival,
                        classes=tuple(name for name in arrival.classes if name in self.classes),
                        counts=counts,
                        train=rows["train"],
                        test=rows["test"],
                        fix_train=fixes["train"],
                        fix_test=fixes["test"],
                    )
                )
        return TaskEntry(self.before.name, tuple(arrivals))

    def label(self, side: Side, number: int, label: int) -> int:
        """A label among the classes that are left; of a class that is not, the one that the row had last."""
        names = self.before.classes
        name = names[label] if names[label] in self.classes else names[self.lasts[side][number]]
        return self.classes.index(name)


@dataclass
class RestOfSide:
    """The rows of one side, as one arrival after the other is gone through."""

    rest: Rest
    side: Side
    first: int = 0
    present: list[int] = field(default_factory=list)  # rows that have arrived and are not deleted yet
    labels: dict[int, int] = field(default_factory=dict)  # those that are left, among the classes that are left
    counts: Counter[str] = field(default_factory=Counter)  # of an arrival

    def fixes(self, arrival: Arrival) -> Fixes | None:
        """Its corrections of rows that are left."""
        given, gone = arrival.fixes(self.side), self.rest.gone[self.side]
        if given is None:
            return None
        pairs = [(self.present[place], label) for place, label in self.rest.folder.tensor(given.pairs).tolist()]
        left = [number for number in self.present if number not in gone]
        place_of = {number: place for place, number in enumerate(left)}
        kept = [(number, label) for number, label in pairs if number not in gone]
        made = []
        for number, label in kept:
            self.counts[self.rest.classes[self.labels[number]]] -= 1
            if label != DELETED:
                self.labels[number] = self.rest.label(self.side, number, label)
                self.counts[self.rest.classes[self.labels[number]]] += 1
            made.append([place_of[number], DELETED if label == DELETED else self.labels[number]])
        deleted = {number for number, label in pairs if label == DELETED}
        self.present = [number for number in self.present if number not in deleted]
        if not made:
            return None
        return Fixes(self.rest.folder.store_tensor(torch.tensor(made)), sum(label == DELETED for _, label in kept))

    def rows(self, arrival: Arrival) -> Rows | None:
        """Its rows that are left."""
        rows, folder = arrival.rows(self.side), self.rest.folder
        if rows is None:
            return None
        numbers = range(self.first, self.first + rows.count)
        self.present += numbers
        self.first += rows.count
        left = torch.tensor([number - numbers[0] for number in numbers if number not in self.rest.gone[self.side]])
        if not len(left):
            return None
        given = folder.tensor(rows.y).tolist()
        for place in left.tolist():
            number = numbers[0] + place
            self.labels[number] = self.rest.label(self.side, number, given[place])
            self.counts[self.rest.classes[self.labels[number]]] += 1
        if len(left) == rows.count and self.rest.classes == self.rest.before.classes:
            return rows
        labels = torch.tensor([self.labels[numbers[0] + place] for place in left.tolist()])
        return choose_rows(folder, rows, left, labels)
