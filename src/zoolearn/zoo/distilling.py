"""Distils a zoo into a smaller one: a single member that answers for every task as all of them do."""

from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace as changed

from zoolearn.beyond.distil import iter_distil
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.seeds import derive
from zoolearn.training.fit import Progress
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_task
from zoolearn.zoo.learning.episode import make_entry, measure, now, write_member
from zoolearn.zoo.learning.recall import load_learner
from zoolearn.zoo.zoo import Zoo


def iter_distil_zoo(zoo: Zoo, to: Path | str, epochs: int | None = None) -> Generator[Progress, None, Zoo]:
    """Writes a zoo of one member into a new or empty folder, with the same tasks and rows; `zoo` is not changed."""
    index, target = zoo.index, ZooFolder(Path(to))
    target.check_used()
    if index.settings.features is not None:
        raise SettingsError(f"{zoo.path} is on features: its members are one head a task, which is small already")
    bare = [name for name, entry in index.tasks.items() if not entry.keeps_rows]
    if bare or not index.tasks:
        raise SettingsError("a zoo is distilled with the rows that it stores, and it stores none; keep some (replay)")
    learner = load_learner(zoo.folder, index, lambda member: zoo.net(member.number), zoo.names)
    learner.epochs = epochs or learner.epochs
    tasks = [load_task(zoo.folder, entry) for entry in index.tasks.values()]
    started = perf_counter()
    net, loss = yield from iter_distil(learner, tasks, learner.recipe_for(tasks))
    votes = {task.name: Vote(1.0, task.classes) for task in tasks}
    member = Member(net, votes, loss, len(index.episodes) - 1)
    entry = make_entry(member, 1, list(votes), derive(learner.seed, "distil"), perf_counter() - started)
    made = Index(index.chosen, index.settings).with_log("made", now(), detail=f"distilled from {zoo.path.name}")
    with target.begin_zoo():
        for digest in {part.digest for task in index.tasks.values() for part in task.stored}:
            target.store_copy(zoo.folder, "data", digest)
        small = made.with_entries(
            tasks={name: _drop_votes(entry) for name, entry in index.tasks.items()},
            episodes=[changed(e, measures={}, since={}) for e in index.episodes],
        )
        small = small.with_entries(members=[write_member(target, small, entry, net, learner.recipe, {})])
        small = small.with_measures(measure(target, small, list(index.tasks)))
        target.commit(small.with_log("distilled", now(), detail=f"{len(index.members)} members into one"))
    return Zoo(to, zoo.names)


def _drop_votes(entry: TaskEntry) -> TaskEntry:
    """A task without the votes and statistics of members that are gone."""
    gone: dict[str, Any] = {"asked": (), "votes": None, "statistics": None, "seen_by": None}
    return TaskEntry(entry.name, tuple(changed(arrival, **gone) for arrival in entry.arrivals))
