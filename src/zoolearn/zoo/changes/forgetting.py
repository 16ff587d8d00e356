"""Undoes the last episode of a zoo, or removes a task permanently, with everything that was trained on it."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from zoolearn.errors import DataError, SettingsError
from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.zoo.disk.entries import EpisodeEntry, LogEntry, MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.journal import Chain
from zoolearn.zoo.learning.episode import checkpoints, measure, now
from zoolearn.zoo.learning.gate import compare_remade
from zoolearn.zoo.learning.retraining import iter_retrain
from zoolearn.zoo.learning.scores import Change
from zoolearn.zoo.settings import Names


def undo_episode(folder: ZooFolder, index: Index) -> tuple[str | None, Index]:
    """The zoo before its last episode, exactly, and the task of the episode.

    Later episodes whose task was forgotten are undone with it. If the last change was to other features, it is the zoo
    before that change, and no task.
    """
    if index.before is not None:
        earlier = replace(index.before, generation=index.generation, log=index.log)
        return None, earlier.with_log("undone", now(), detail="other features")
    before = index.records.last_arrival
    if before is None:
        raise DataError("the zoo has learned nothing yet; there is no episode to undo")
    gone = index.records.undone
    name, earlier = str(gone[0].task), index.truncate(before)
    if earlier.records.last_arrival is None:
        earlier = replace(earlier, settings=index.chosen)
    if any(episode.remade for episode in gone):
        touched = {task for episode in gone for task in episode.losses} & earlier.tasks.keys()
        earlier = _measure_now(folder, earlier.with_entries(), sorted(touched), name)
    return name, earlier.with_log("undone", now(), name, f"episode {before + 1}")


def _measure_now(folder: ZooFolder, earlier: Index, tasks: Sequence[str], gone: str) -> Index:
    """Measures an earlier state with the members of now; raises if they cannot answer for a task."""
    for name in tasks:
        if not earlier.is_answered(name, earlier.voters(name)):
            if earlier.is_answered(name, earlier.with_votes_on(name)):
                how = f"pruned; let them vote again first: zoo prune {folder.path} --restore"
            else:
                how = f"pruned permanently; forget {gone!r} instead"
            raise DataError(f"before that episode no member answers for task {name!r}: its members were {how}")
    return earlier.with_measures(measure(folder, earlier, tasks))


@dataclass(frozen=True)
class Cost:
    """The cost of forgetting a task: members that depend on it are retrained, dropped, or removed if they know nothing else.

    Members trained on a task depend on it and, with warm starts, all later ones. `changes`, known afterwards, are those of
    the other tasks that such members vote on.
    """

    retrained: tuple[int, ...]
    dropped: tuple[int, ...]
    removed: tuple[int, ...]
    rows: int  # of the task, that are deleted
    seconds: float  # of retraining, as it took the first time
    kept_for_others: int  # bytes that stay because another task has stored the same
    changes: Mapping[str, Change] = field(default_factory=dict)


def cost_of(index: Index, task: str, *, drop: bool) -> Cost:
    """The cost of forgetting a task; raises if another task would be left without an answer."""
    entry = index.task(task)
    touched = [member for member in index.members if index.depends_on(member, task)]
    alone = tuple(member.number for member in touched if not _find_left(index, member, task))
    again = [member for member in touched if _find_left(index, member, task)]
    if not drop:
        _check_without_rows(index, task, again)
    _check_silence(index, task, drop=drop)
    others = (arrival for arrival in index.arrivals if arrival.task != task)
    shared = {rows.x for arrival in others for rows in (arrival.train, arrival.test) if rows}
    return Cost(
        retrained=() if drop else tuple(member.number for member in again),
        dropped=tuple(member.number for member in again) if drop else (),
        removed=alone,
        rows=entry.rows_held_out + entry.rows_kept,
        seconds=0.0 if drop else sum(member.seconds for member in again),
        kept_for_others=sum(part.bytes for part in set(entry.stored) & shared),
    )


def _find_left(index: Index, member: MemberEntry, task: str) -> set[str]:
    """The tasks that a member can still vote on without `task`; none if it was trained on nothing else."""
    if not index.depends_on(member, task):
        return set(member.share)
    trained = set(member.tasks) - {task}
    refitted = {name for name in member.fitted if index.tasks[name].keeps_rows}
    return ((trained | refitted) & member.share.keys()) - {task} if trained else set()


def _check_silence(index: Index, task: str, *, drop: bool) -> None:
    stay = [member for member in index.members if not (drop and index.depends_on(member, task))]
    voters: dict[str, list[MemberEntry]] = {}
    for member in stay:
        for name in _find_left(index, member, task):
            voters.setdefault(name, []).append(member)
    for name in index.tasks:
        since = index.tasks[name].last_class
        able = [member for member in voters.get(name, ()) if member.episode >= since]
        if name != task and all(name in member.silent for member in able):
            way = "leave out --drop, and they are retrained" if drop else f"forget {name!r} first"
            raise SettingsError(
                f"without the members that {task!r} has shaped, no member answers for task {name!r}; "
                + ("let those vote that were pruned (`zoo prune FOLDER --restore`)" if able else way)
            )


def _check_without_rows(index: Index, task: str, retrained: Sequence[MemberEntry]) -> None:
    """Raises if members would have to be retrained on tasks of which no rows are kept."""
    lost = [name for member in retrained for name in member.tasks if name != task and not index.tasks[name].keeps_rows]
    if lost:
        newest = sorted(set(lost), key=lambda name: -index.tasks[name].episode)
        raise SettingsError(
            f"members that descend from those of {task!r} would have to be retrained, and no rows of their tasks are "
            f"kept (replay is 0); forget {', then '.join(map(repr, newest))} first, or undo"
        )


def iter_remove_task(
    folder: ZooFolder, index: Index, task: str, *, drop: bool, names: Names | None
) -> Generator[Progress | Step, None, tuple[Index, Cost]]:
    """The zoo without a task, and what that has cost: members that depend on it are retrained, oldest first, with their seeds and other tasks.

    Only kept rows are available: with a replay below 1, a member's own task is seen in part too. Episodes keep the tasks
    that they had drawn. The task's name and classes leave the index and the log.
    """
    cost = cost_of(index, task, drop=drop)
    learner = index.settings.learner(names)
    learner.checkpoints = checkpoints(folder, index, "forget", task, str(drop))
    rest = index.with_entries(
        tasks={name: entry for name, entry in index.tasks.items() if name != task},
        episodes=[drop_task(episode, task) for episode in index.episodes],
    )
    if not rest.tasks:
        rest = replace(rest, settings=index.chosen)
    rest = yield from iter_retrain(
        folder,
        rest,
        learner,
        names,
        is_touched=lambda member: index.depends_on(member, task),
        stays=lambda member: not drop and bool(_find_left(index, member, task)),
        but=task,
    )
    log = [LogEntry(line.when, line.did, None, "") if line.task == task else line for line in rest.log]
    remade = {name for member in index.members if index.depends_on(member, task) for name in member.share}
    cost = replace(cost, changes=compare_remade(folder, index, rest, [name for name in rest.tasks if name in remade]))
    return replace(rest, log=Chain(new=log)).with_log("forgot a task", now()), cost


def drop_task(episode: EpisodeEntry, task: str) -> EpisodeEntry:
    """An episode as if there had never been this task."""
    return changed(
        episode,
        task=None if episode.task == task else episode.task,
        tasks=tuple(name for name in episode.tasks if name != task),
        measures={name: measure for name, measure in episode.measures.items() if name != task},
        since={name: measure for name, measure in episode.since.items() if name != task},
    )
