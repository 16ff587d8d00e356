"""Taking tasks out of a zoo: back to before the last episode, or one task permanently with all that was trained on it."""

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from msgspec.structs import replace as changed

from zoolearn.beyond.refit import refit_head
from zoolearn.errors import DataError, SettingsError
from zoolearn.nets.net import Net
from zoolearn.runs.counting import count_rows
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.arrivals import TaskEntry
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import EpisodeEntry, Index, LogEntry, MemberEntry
from zoolearn.zoo.lazy import LazyDict
from zoolearn.zoo.learning import asked_beside, checkpoints, entry_of, measure, now, saw_of, written
from zoolearn.zoo.owned import OwnedZoo
from zoolearn.zoo.recall import arrived_of, member_net, members_of
from zoolearn.zoo.settings import Names
from zoolearn.zoo.stored import stored_task


def undone(folder: ZooFolder, index: Index) -> tuple[str, Index]:
    """The zoo before its last episode (members never change, so it is exactly that), and the task that it was about.

    A task that had grown is what it was before. Episodes whose task was forgotten since go with it: their members were
    retrained on the rest.
    """
    if not index.tasks:
        raise DataError("the zoo has learned nothing yet; there is no episode to undo")
    last = max(index.arrivals, key=lambda arrival: arrival.episode)
    before = last.episode - 1
    gone = index.episodes[before:]
    tasks = {name: task.as_of(before) for name, task in index.tasks.items() if task.episode <= before}
    earlier = replace(
        index,
        tasks=tasks,
        settings=index.settings if tasks else index.chosen,
        members=tuple(member for member in index.members if member.episode <= before),
        episodes=index.episodes[:before],
    )
    touched = {name for episode in gone for name in (*episode.measures, *episode.since)} & earlier.tasks.keys()
    for name in sorted(touched):
        if not earlier.is_answered(name, earlier.voters(name)):
            if earlier.is_answered(name, [member for member in earlier.members if name in member.share]):
                how = f"pruned; let them speak again first: zoo prune {folder.path} --restore"
            else:
                how = f"pruned permanently; forget {last.task!r} instead"
            raise DataError(f"before that episode no member answers for task {name!r}: its members were {how}")
    earlier = earlier.measured(measure(folder, earlier, sorted(touched)))
    return last.task, earlier.after("undone", now(), last.task, f"episode {last.episode}")


@dataclass(frozen=True)
class Cost:
    """What forgetting a task means: members that it shaped and that are retrained, dropped, or removed for knowing nothing else.

    A task shapes the members that were trained on it and, where members grow out of those before them, all later ones.
    """

    retrained: tuple[int, ...]
    dropped: tuple[int, ...]
    removed: tuple[int, ...]
    rows: int  # of the task, that are deleted
    seconds: float  # that retraining takes, going by how long it took the first time
    kept_for_others: int  # bytes that another task has stored too, and that stay as that task's


def cost_of(index: Index, task: str, *, drop: bool) -> Cost:
    """What forgetting would do; refused if it left a task without an answer."""
    entry = index.task(task)
    touched = [member for member in index.members if index.shaped_by(member, task)]
    alone = tuple(member.number for member in touched if not _left(index, member, task))
    again = [member for member in touched if _left(index, member, task)]
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


def _left(index: Index, member: MemberEntry, task: str) -> set[str]:
    """The tasks that a member can answer for without another; none if that was the only one that it was trained on."""
    if not index.shaped_by(member, task):
        return set(member.share)
    trained = set(member.tasks) - {task}
    refitted = {name for name in member.fitted if index.tasks[name].keeps_rows}
    return ((trained | refitted) & member.share.keys()) - {task} if trained else set()


def _check_silence(index: Index, task: str, *, drop: bool) -> None:
    stay = [member for member in index.members if not (drop and index.shaped_by(member, task))]
    left = {member.number: _left(index, member, task) for member in stay}
    for name in index.tasks:
        since = index.tasks[name].last_class
        able = [member for member in stay if name in left[member.number] and member.episode >= since]
        if name != task and all(name in member.silent for member in able):
            way = "leave out --drop, and they are retrained" if drop else f"forget {name!r} first"
            raise SettingsError(
                f"without the members that {task!r} has shaped, no member answers for task {name!r}; "
                + ("let those speak that were pruned (`zoo prune FOLDER --restore`)" if able else way)
            )


def _check_without_rows(index: Index, task: str, retrained: Sequence[MemberEntry]) -> None:
    """Nothing is kept without replay, so that the heirs of a member cannot be retrained; a member of one task just goes."""
    lost = [name for member in retrained for name in member.tasks if name != task and not index.tasks[name].keeps_rows]
    if lost:
        newest = sorted(set(lost), key=lambda name: -index.tasks[name].episode)
        raise SettingsError(
            f"members that descend from those of {task!r} would have to be retrained, and no rows of their tasks are "
            f"kept (replay is 0); forget {', then '.join(map(repr, newest))} first, or undo"
        )


def removing(
    folder: ZooFolder, index: Index, task: str, *, drop: bool, names: Names | None
) -> Generator[Progress, None, Index]:
    """The zoo without a task: members that it shaped are retrained, oldest first, with the same seeds on the same other tasks.

    Each grows out of the members before it as they are now. Only what is kept is at hand: with a replay below 1, also a
    member's own new task is seen in part. Which tasks an episode had drawn stays as it was. The task's name and classes
    leave the index and the log too.
    """
    cost_of(index, task, drop=drop)
    learner = index.settings.learner(names)
    learner.checkpoints = checkpoints(folder, index, "forget", task, str(drop))
    rest = replace(index, tasks={name: entry for name, entry in index.tasks.items() if name != task})
    if not rest.tasks:
        rest = replace(rest, settings=index.chosen)
    members: list[MemberEntry] = []
    since: dict[str, int] = {}  # the first episode in which a task's answers are no longer what they were
    for member in index.members:
        if not index.shaped_by(member, task):
            members.append(member)
            continue
        for name in member.share:
            since.setdefault(name, member.episode)
        if drop or not _left(index, member, task):
            continue
        learner.members = members_of(rest, members, lambda other: member_net(folder, rest, other, names))
        so_far = replace(rest, members=tuple(members))
        members.append((yield from _retrained(folder, so_far, learner, member, task)))
    rest = _heard_again(folder, index, replace(rest, members=tuple(members)), learner.recipe, names)
    episodes = tuple(without(episode, task) for episode in index.episodes)
    rest = replace(rest, episodes=tuple(measured_again(folder, rest, entry, since) for entry in episodes))
    rest = rest.measured(measure(folder, rest, [name for name in rest.tasks if name in since]))
    log = tuple(LogEntry(line.when, line.did, None, "") if line.task == task else line for line in rest.log)
    return replace(rest, log=log).after("forgot a task", now())


def _retrained(
    folder: ZooFolder, rest: Index, learner: OwnedZoo, member: MemberEntry, task: str
) -> Generator[Progress, None, MemberEntry]:
    """A member grown again as it was, with what is kept of the tasks that its episode knew, but for one."""
    entries = rest.tasks.values()
    known = [entry.name for entry in entries if entry.keeps_rows and entry.episode <= member.episode]
    learner.kept = LazyDict(known, lambda name: stored_task(folder, rest.tasks[name].as_of(member.episode)))
    learner.arrived = {name: arrived_of(rest.tasks[name].as_of(member.episode)) for name in known}
    learner.episode = member.episode - 1
    learner.epochs = member.epochs or rest.settings.recipe["epochs"]
    remaining = [name for name in member.tasks if name != task]
    started = perf_counter()
    source = next((place for place, other in enumerate(rest.members) if other.number == member.refits), None)
    if source is None:
        work = learner.grow(learner, [learner.kept[name] for name in remaining], member.seed)
        made, rows = yield from count_rows(work)
    else:
        made, rows = refit_head(learner, learner.members[source], learner.kept[remaining[0]]), Counter()
    entry = entry_of(made, member.number, remaining, member.seed, perf_counter() - started, rows["trained"])
    share = {name: weight for name, weight in entry.share.items() if name in member.share}
    silent = tuple(name for name in member.silent if name in share)
    entry = changed(entry, epochs=member.epochs, share=share, silent=silent)
    if source is not None:
        entry = changed(entry, refits=member.refits, saw=saw_of(rest.members[source], but=remaining[0]))
    return written(folder, rest, entry, made.net, learner.recipe, {})


def _heard_again(folder: ZooFolder, index: Index, rest: Index, recipe: Recipe, names: Names | None) -> Index:
    """The zoo with what its members of today say of rows held out of later arrivals, where some are no longer the same."""
    were = {member.number: member for member in index.members}
    same = {member.number for member in rest.members if were[member.number] == member}

    def net_of(member: MemberEntry) -> Net:
        return member_net(folder, rest, member, names)

    for arrival in rest.arrivals:
        if not {*arrival.asked} <= same:
            heard = asked_beside(folder, rest, arrival, net_of, recipe)
            entry = rest.tasks[arrival.task]
            arrivals = tuple(heard if other is arrival else other for other in entry.arrivals)
            rest = replace(rest, tasks={**rest.tasks, entry.name: TaskEntry(entry.name, arrivals)})
    return rest


def without(episode: EpisodeEntry, task: str) -> EpisodeEntry:
    """An episode as if there had never been this task."""
    return changed(
        episode,
        task=None if episode.task == task else episode.task,
        tasks=tuple(name for name in episode.tasks if name != task),
        measures={name: measure for name, measure in episode.measures.items() if name != task},
        since={name: measure for name, measure in episode.since.items() if name != task},
    )


def measured_again(folder: ZooFolder, rest: Index, episode: EpisodeEntry, since: dict[str, int]) -> EpisodeEntry:
    """An episode's measures as they would have been, for tasks whose members are no longer the same."""
    at = episode.number
    gone = {name for name in episode.measures if not rest.is_answered(name, rest.voters(name, at), at)}
    names = [name for name in episode.measures if since.get(name, at + 1) <= at and name not in gone]
    known = {name: value for name, value in episode.measures.items() if name not in gone}
    return changed(episode, measures={**known, **measure(folder, rest, names, at)})
