"""One episode: a new task, already in the folder, becomes a new member and its votes."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter

from msgspec.structs import replace as changed
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.ensemble import Member, on_labels
from zoolearn.nets.net import Net
from zoolearn.training.fit import Checkpoints, Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.gate import changes_between
from zoolearn.zoo.index import EpisodeEntry, Index, Measure, MemberEntry, Rows, TaskEntry
from zoolearn.zoo.owned import Plan
from zoolearn.zoo.recall import NetOf, StoredVotes, has_train_votes, learner_of, measured, stored_examples, stored_task
from zoolearn.zoo.scores import Change, Scores
from zoolearn.zoo.settings import Names
from zoolearn.zoo.testing import held_out_scores


@dataclass(frozen=True)
class Learned:
    """What an episode brought: every task's measure before (None for the new one) and after, and the new task's scores.

    `changes` are of the tasks that the new member speaks for: the others are answered as before. `worse` are those for
    which the episode was taken back, so that the zoo is as it was before.
    """

    task: str
    episode: int
    trained_on: tuple[str, ...]
    before: Mapping[str, Measure | None]
    after: Mapping[str, Measure]
    seconds: float
    scores: Scores
    changes: Mapping[str, Change]
    worse: tuple[str, ...] = ()


def iter_learn(
    folder: ZooFolder, index: Index, task: TaskEntry, net_of: NetOf, names: Names | None, epochs: int | None = None
) -> Generator[Plan | Progress, None, tuple[Index, Learned]]:
    """Says what the episode will do, trains its member and writes it; gives the index that makes it part of the zoo."""
    learner = learner_of(folder, index, net_of, names, epochs)
    digests = (part.digest for part in task.stored)
    learner.checkpoints = checkpoints(folder, index, "learn", *digests, *task.augment, str(epochs))
    yield learner.plan(stored_task(folder, task))
    seed = learner.episode_seed()
    started = perf_counter()
    yield from learner.iter_learn(stored_task(folder, task))
    seconds = perf_counter() - started
    assert learner.latest is not None
    task = changed(task, train=kept_rows(folder, learner.kept.get(task.name), task))
    tasks = {**index.tasks, task.name: task}
    number = max((member.number for member in index.members), default=0) + 1
    entry = changed(entry_of(learner.members[-1], number, learner.latest.tasks, seed, seconds), epochs=epochs)
    train = {name: votes.latest for name, votes in learner.train_votes.items() if votes.latest is not None}
    grown = replace(index, tasks=tasks)
    entry = written(folder, grown, entry, learner.members[-1].net, learner.recipe, train)
    grown = replace(grown, members=(*index.members, entry))
    episode = EpisodeEntry(task.episode, task.name, entry.tasks, now(), measure(folder, grown, entry.heads))
    grown = replace(grown, episodes=(*index.episodes, episode))
    learned = Learned(
        task.name,
        task.episode,
        entry.tasks,
        {name: index.measures.get(name) for name in tasks},
        grown.measures,
        seconds,
        held_out_scores(folder, grown, task.name),
        changes_between(folder, index, grown, entry.heads),
    )
    return grown.after("learned", episode.when, task.name, _detail(task, entry)), learned


def entry_of(member: Member, number: int, tasks: Sequence[str], seed: int, seconds: float) -> MemberEntry:
    """A new member that was trained on these tasks, its files not yet written."""
    return MemberEntry(
        number=number,
        episode=member.episode + 1,
        tasks=tuple(tasks),
        seed=seed,
        share={name: vote.weight for name, vote in member.votes.items()},
        silent=(),
        file="",
        votes="",
        bytes=0,
        loss=member.loss,
        seconds=seconds,
        fitted=tuple(name for name in member.votes if name not in tasks),
        supersedes=tuple(name for name, vote in member.votes.items() if vote.supersedes),
        layers=bool(member.net.blocks),
    )


def kept_rows(folder: ZooFolder, kept: Task | None, entry: TaskEntry) -> Rows | None:
    """Where the training rows that are kept of a task lie; all of them are there already."""
    if kept is None or entry.train is None:
        return None
    if len(kept.train) == entry.train.count:
        return entry.train
    return Rows(folder.store_tensor(kept.train.x), folder.store_tensor(kept.train.y))


def _detail(task: TaskEntry, member: MemberEntry) -> str:
    kept = task.train.count if task.train else 0
    return f"member {member.number} from {len(member.tasks)} task{'' if len(member.tasks) == 1 else 's'}; {kept} rows kept, {task.test.count} held out"


def written(
    folder: ZooFolder, index: Index, entry: MemberEntry, net: Net, recipe: Recipe, train: Mapping[str, Tensor]
) -> MemberEntry:
    """Writes a member's net and votes (those on training rows that are known already need not be asked again)."""
    votes: dict[str, Tensor] = {}
    for place, name in enumerate(entry.heads):
        task = index.tasks[name]
        votes[f"test.{place}"] = probabilities(net, stored_examples(folder, task.test).x, name, recipe)
        if has_train_votes(index, entry, name) and task.train is not None:
            votes[f"train.{place}"] = (
                train[name] if name in train else on_labels(net, stored_examples(folder, task.train), name, recipe)
            )
    file, size = folder.store_tensors("members", net.state_dict())
    digest, _ = folder.store_tensors("votes", votes)
    return changed(entry, file=file, votes=digest, bytes=size)


def measure(folder: ZooFolder, index: Index, tasks: Sequence[str], at: int | None = None) -> dict[str, Measure]:
    """How well some tasks are answered, from the members' stored votes: no net is asked."""
    measures, votes = {}, StoredVotes(folder, index)
    for name in tasks:
        on_labels = votes.train(name, at)
        loss = on_labels.loss if on_labels.weight else None
        measures[name] = measured(
            votes.test(name, index.voters(name, at)).mean, folder.tensor(index.tasks[name].test.y), loss
        )
    return measures


def checkpoints(folder: ZooFolder, index: Index, *what: str) -> Checkpoints:
    """Where this very training is kept while it goes on: found again only by the same work on the same zoo."""
    key = sha256("/".join([str(index.generation), *what]).encode()).hexdigest()[:32]
    return Checkpoints(folder.checkpoints(key), every=1)


def now() -> str:
    """The time as logs show it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
