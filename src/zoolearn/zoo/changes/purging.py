"""Deletes rows permanently: they leave their files, and every member trained on them is retrained.

Corrections become part of the rows, so the zoo is as if the rows had arrived corrected.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.words import plural
from zoolearn.zoo.changes.corrections import Correction
from zoolearn.zoo.changes.rewriting import Rewritten, iter_rewrite, last_labels, rewrite_task
from zoolearn.zoo.disk.arrivals import SIDES, Side
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import number_rows
from zoolearn.zoo.learning.episode import checkpoints, now
from zoolearn.zoo.learning.gate import compare_remade
from zoolearn.zoo.learning.scores import Change
from zoolearn.zoo.settings import Names


@dataclass(frozen=True)
class PurgeCost:
    """The cost of a purge: the members that are retrained, none if only held-out rows change, and the seconds of their training.

    `changes`, known afterwards, are those of the other tasks that such members vote on.
    """

    retrained: tuple[int, ...]
    seconds: float
    changes: Mapping[str, Change] = field(default_factory=dict)


def cost_of_purge(folder: ZooFolder, index: Index, correction: Correction) -> PurgeCost:
    """The cost of purging; raises if too few rows would be left to train or to test on."""
    return _cost(index, _rewrite(folder, index, correction))


def _cost(index: Index, rewritten: Rewritten) -> PurgeCost:
    members = [member for member in index.members if rewritten.retrains(index, member)]
    return PurgeCost(tuple(member.number for member in members), sum(member.seconds for member in members))


def iter_purge(
    folder: ZooFolder, index: Index, correction: Correction, names: Names | None
) -> Generator[Progress | Step, None, tuple[Index, PurgeCost]]:
    """The zoo as if rows had arrived corrected, and deleted ones not at all; and what that has cost."""
    rewritten = _rewrite(folder, index, correction)
    learner = index.settings.learner(names)
    digests = (part.digest for part in rewritten.after.stored)
    learner.checkpoints = checkpoints(folder, index, "purge", correction.task, *digests)
    rest = yield from iter_rewrite(folder, index, [rewritten], learner, names)
    changes = f"{plural(len(correction.rows), 'row')} changed or deleted permanently"
    cost = _cost(index, rewritten)
    remade = {name for number in cost.retrained for name in index.member(number).share} - {correction.task}
    cost = replace(cost, changes=compare_remade(folder, index, rest, [name for name in rest.tasks if name in remade]))
    return rest.with_log("purged rows", now(), correction.task, changes), cost


def _rewrite(folder: ZooFolder, index: Index, correction: Correction) -> Rewritten:
    entry = index.task(correction.task)
    place_of = {name: place for place, name in enumerate(entry.classes)}
    last, labels = last_labels(folder, entry), dict[Side, dict[int, int]]()
    for side in SIDES:
        changes = {row.place: label for row, label in correction.rows.items() if row.side == side}
        numbers = number_rows(folder, entry, side) if last[side] else []
        labels[side] = {
            number: place_of[str(changes[place])] if place in changes else last[side][number]
            for place, number in enumerate(numbers)
            if changes.get(place, "") is not None
        }
    gone = {side: frozenset(last[side]) - labels[side].keys() for side in SIDES}
    return rewrite_task(folder, entry, gone, labels)
