"""Compares every task's answers before and after an episode, on the same held-out rows; an episode may be undone."""

from collections.abc import Mapping, Sequence

from zoolearn.errors import SettingsError
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_labels
from zoolearn.zoo.learning.recall import StoredVotes
from zoolearn.zoo.learning.scores import Change, Share


def compare_answers(folder: ZooFolder, before: Index, after: Index, tasks: Sequence[str]) -> dict[str, Change]:
    """The changes of accuracy of tasks that were known before, from stored votes."""
    votes = StoredVotes(folder, after)
    return {name: _change(votes, before, name) for name in tasks if name in before.tasks}


def _change(votes: StoredVotes, before: Index, task: str) -> Change:
    """The change on rows that were held out before, among the classes of then: new rows vouch for themselves only."""
    labels = load_labels(votes.folder, votes.index.tasks[task], "test")
    classes, rows = len(before.tasks[task].classes), _count_rows_of_before(votes.index, before, task)
    was, now = votes.answer(task, before), votes.answer(task)[:, :classes]
    return Change.between(was[:rows], now[:rows], labels[:rows])


def compare_remade(folder: ZooFolder, before: Index, after: Index, tasks: Sequence[str]) -> dict[str, Change]:
    """The changes of accuracy of tasks of whose members some were trained again or removed; rows are those held out of both."""
    changes = {}
    for name in tasks:
        labels = load_labels(folder, after.tasks[name], "test")
        if len(labels):
            was, now = (StoredVotes(folder, index).answer(name) for index in (before, after))  # votes are let go
            changes[name] = Change.between(was, now, labels)
    return changes


def _count_rows_of_before(after: Index, before: Index, task: str) -> int:
    """How many of the held-out rows of a task, the first of them, were there before."""
    since = after.tasks[task].arrivals_since(before.tasks[task].latest)
    return after.tasks[task].rows_held_out - sum(arrival.test.count for arrival in since if arrival.test)


def score_new_rows(folder: ZooFolder, before: Index, after: Index, task: str) -> Share | None:
    """The accuracy on rows that are held out of a task only now, of the classes that it had before; None without one."""
    labels, rows = load_labels(folder, after.tasks[task], "test"), _count_rows_of_before(after, before, task)
    right = StoredVotes(folder, after).answer(task).argmax(dim=1) == labels
    known = labels[rows:] < len(before.tasks[task].classes)
    return Share(int(right[rows:][known].sum()), int(known.sum())) if known.any() else None


def check_limit(unless_worse: float | None) -> None:
    """Raises unless a limit is a share from 0 to 1."""
    if unless_worse is not None and not 0 <= unless_worse <= 1:
        raise SettingsError(
            f"unless_worse is {unless_worse:g}; it is a share of the held-out rows, give 0.01 for one point of accuracy"
        )


def find_worse(changes: Mapping[str, Change], unless_worse: float | None) -> tuple[str, ...]:
    """The tasks that lost more than they may, beyond chance."""
    if unless_worse is None:
        return ()
    return tuple(name for name, change in changes.items() if change.is_below(unless_worse, len(changes)))


def smallest_loss(rows: int, unless_worse: float, looks: int) -> float | None:
    """The smallest loss of accuracy on this many rows for which an episode would be undone; None if there is none.

    >>> smallest_loss(20, 0.01, looks=1), smallest_loss(1000, 0.01, looks=1), smallest_loss(2, 0.01, looks=1)
    (0.25, 0.019, None)
    """
    return next(
        (lost / rows for lost in range(1, rows + 1) if Change(0, lost, rows).is_below(unless_worse, looks)), None
    )


def take_back(before: Index, task: str, when: str, changes: Mapping[str, Change], worse: Sequence[str]) -> Index:
    """The zoo as it was, with a line in its log, which names no task since tasks may be forgotten."""
    most = min((changes[name] for name in worse), key=lambda change: change.value)
    detail = (
        f"{len(worse)} of {len(changes)} earlier tasks worse: {most.in_points(' points', len(changes))} "
        f"on {most.rows} held-out rows"
    )
    return before.with_log("taken back", when, task, detail)
