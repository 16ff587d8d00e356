"""Taking tasks out of a zoo: back to before the last episode, or one task for good with all that was trained on it."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from time import perf_counter

from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.train import Progress, fitting
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import EpisodeEntry, Index, LogEntry, MemberEntry
from zoolearn.zoo.learning import checkpoints, measure, now, written
from zoolearn.zoo.recall import stored_task
from zoolearn.zoo.settings import Names


def undone(folder: ZooFolder, index: Index) -> tuple[str, Index]:
    """The zoo before its last episode (members never change, so it is exactly that), and the task that goes.

    Episodes whose task was forgotten since go with it: their members were retrained on the rest.
    """
    if not index.tasks:
        raise DataError("the zoo has learned nothing yet; there is no episode to undo")
    last = max(index.tasks.values(), key=lambda task: task.episode)
    earlier = replace(
        index,
        tasks={name: task for name, task in index.tasks.items() if name != last.name},
        settings=index.settings if len(index.tasks) > 1 else index.chosen,
        members=tuple(member for member in index.members if member.episode < last.episode),
        episodes=index.episodes[: last.episode - 1],
    )
    left = next((name for name in earlier.tasks if not earlier.speakers(name)), None)
    if left is not None:
        raise DataError(
            f"before that episode nobody answers for task {left!r}: its members were pruned for good; forget {last.name!r} instead"
        )
    earlier = replace(earlier, measures=measure(folder, earlier, list(earlier.tasks)))
    return last.name, earlier.after("undone", now(), last.name, f"episode {last.episode}")


@dataclass(frozen=True)
class Cost:
    """What forgetting a task means: members that saw it and are retrained, dropped, or removed for knowing nothing else."""

    retrained: tuple[int, ...]
    dropped: tuple[int, ...]
    removed: tuple[int, ...]
    rows: int  # of the task, that are deleted
    seconds: float  # that retraining takes, going by how long it took the first time
    kept_for_others: int  # bytes that another task has stored too, and that stay as that task's


def cost_of(index: Index, task: str, *, drop: bool) -> Cost:
    """What forgetting would do; refused if it left a task without an answer."""
    entry = index.task(task)
    touched = [member for member in index.members if task in member.tasks]
    alone = tuple(member.number for member in touched if not _speaks_beside(member, task))
    others = [member for member in touched if _speaks_beside(member, task)]
    if drop:
        _refuse_silence(index, task, {member.number for member in touched})
    shared = {
        rows.x for other in index.tasks.values() if other.name != task for rows in (other.train, other.test) if rows
    }
    rows = entry.test.count + (entry.train.count if entry.train else 0)
    return Cost(
        retrained=() if drop else tuple(member.number for member in others),
        dropped=tuple(member.number for member in others) if drop else (),
        removed=alone,
        rows=rows,
        seconds=0.0 if drop else sum(member.seconds for member in others),
        kept_for_others=sum(part.bytes for part in set(entry.stored) & shared),
    )


def _speaks_beside(member: MemberEntry, task: str) -> bool:
    """Whether a member answers for another task too."""
    return bool(member.share.keys() - {task})


def _refuse_silence(index: Index, task: str, gone: set[int]) -> None:
    for name in index.tasks:
        if name != task and all(member.number in gone for member in index.speakers(name)):
            raise SettingsError(
                f"without its members that also saw {task!r}, nobody answers for task {name!r}; "
                "leave out --drop, and they are retrained"
            )


def removing(
    folder: ZooFolder, index: Index, task: str, *, drop: bool, names: Names | None
) -> Generator[Progress, None, Index]:
    """The zoo without a task: members that saw it are retrained on the rest of their tasks, with the same seeds.

    Only what is kept is at hand for that: with a replay below 1, also a member's own new task is seen in part. Which
    tasks an episode had drawn stays as it was. The task's name and classes leave the index and the log too.
    """
    cost_of(index, task, drop=drop)
    learner = index.settings.learner(names)
    learner.checkpoints = checkpoints(folder, learner.recipe, index, "forget", task, str(drop))
    rest = replace(index, tasks={name: entry for name, entry in index.tasks.items() if name != task})
    if not rest.tasks:
        rest = replace(rest, settings=index.chosen)
    members: list[MemberEntry] = []
    changed: dict[str, int] = {}  # the first episode in which a task's answers are no longer what they were
    for member in index.members:
        if task not in member.tasks:
            members.append(member)
            continue
        for name in member.share:
            changed.setdefault(name, member.episode)
        if _speaks_beside(member, task) and not drop:
            retrained = yield from _retrained(folder, rest, learner, member, task)
            members.append(retrained)
    rest = replace(rest, members=tuple(members))
    episodes = tuple(_without(episode, task) for episode in index.episodes)
    rest = replace(rest, episodes=tuple(_measured_again(folder, rest, entry, changed) for entry in episodes))
    rest = replace(rest, measures=measure(folder, rest, list(rest.tasks)))
    log = tuple(LogEntry(line.when, line.did, None, "") if line.task == task else line for line in rest.log)
    return replace(rest, log=log).after("forgot a task", now())


def _retrained(
    folder: ZooFolder, rest: Index, learner: ModelZoo, member: MemberEntry, task: str
) -> Generator[Progress, None, MemberEntry]:
    remaining = tuple(name for name in member.tasks if name != task)
    tasks = [stored_task(folder, rest.tasks[name]) for name in remaining]
    started = perf_counter()
    net = learner.new_net(tasks, member.seed)
    loss = yield from fitting(net, tasks, learner.recipe, seed=member.seed, checkpoints=learner.checkpoints)
    entry = replace(
        member,
        tasks=remaining,
        share={name: min(share, learner.replay) for name, share in member.share.items() if name != task},
        silent=tuple(name for name in member.silent if name != task),
        loss=loss,
        seconds=perf_counter() - started,
    )
    return written(folder, rest, entry, net.freeze(), learner.recipe, {})


def _without(episode: EpisodeEntry, task: str) -> EpisodeEntry:
    return replace(
        episode,
        task=None if episode.task == task else episode.task,
        tasks=tuple(name for name in episode.tasks if name != task),
        weights={name: weight for name, weight in episode.weights.items() if name != task},
        measures={name: measure for name, measure in episode.measures.items() if name != task},
    )


def _measured_again(folder: ZooFolder, rest: Index, episode: EpisodeEntry, changed: dict[str, int]) -> EpisodeEntry:
    """An episode's measures as they would have been, for tasks whose members are no longer the same."""
    names = [
        name
        for name in episode.measures
        if changed.get(name, episode.number + 1) <= episode.number and rest.speakers(name, episode.number)
    ]
    gone = {name for name in episode.measures if not rest.speakers(name, episode.number)}
    known = {name: value for name, value in episode.measures.items() if name not in gone}
    return replace(episode, measures={**known, **measure(folder, rest, names, episode.number)})
