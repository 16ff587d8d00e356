"""One episode: a new task, already in the folder, becomes a new member and its votes."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter

import torch
from msgspec.structs import replace as changed
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.ensemble import Member, on_labels
from zoolearn.nets.net import Net
from zoolearn.runs.counting import count_rows
from zoolearn.training.fit import Checkpoints, Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.arrivals import SIDES, Arrival, Rows
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.gate import changes_between
from zoolearn.zoo.index import EpisodeEntry, Index, Measure, MemberEntry
from zoolearn.zoo.owned import Plan
from zoolearn.zoo.recall import NetOf, StoredVotes, has_train_votes, learner_of, measured
from zoolearn.zoo.scores import Change, Scores
from zoolearn.zoo.settings import Names
from zoolearn.zoo.stored import stored_examples, stored_inputs, stored_labels, stored_task
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
    folder: ZooFolder, index: Index, arrival: Arrival, net_of: NetOf, names: Names | None, epochs: int | None = None
) -> Generator[Plan | Progress, None, tuple[Index, Learned]]:
    """Says what the episode will do, trains its member and writes it; gives the index that makes it part of the zoo."""
    learner = learner_of(folder, index, net_of, names, epochs)
    digests = (part.digest for part in arrival.stored)
    learner.checkpoints = checkpoints(folder, index, "learn", arrival.task, *digests, *arrival.augment, str(epochs))
    arrived = stored_task(folder, index.with_arrival(arrival).tasks[arrival.task])
    yield learner.plan(arrived)
    seed = learner.episode_seed()
    started = perf_counter()
    _, rows = yield from count_rows(learner.iter_learn(arrived))
    seconds = perf_counter() - started
    assert learner.latest is not None
    arrival = changed(arrival, train=kept_rows(folder, index, arrival, learner.kept.get(arrival.task)))
    arrival = asked_beside(folder, index.with_arrival(arrival), arrival, net_of, learner.recipe)
    grown = index.with_arrival(arrival)
    number = max((member.number for member in index.members), default=0) + 1
    entry = entry_of(learner.members[-1], number, learner.latest.tasks, seed, seconds, rows["trained"])
    entry = changed(entry, epochs=epochs)
    train = {name: votes.latest for name, votes in learner.train_votes.items() if votes.latest is not None}
    entry = written(folder, grown, entry, learner.members[-1].net, learner.recipe, train)
    grown = replace(grown, members=(*index.members, entry))
    measures = measure(folder, grown, entry.heads)
    episode = EpisodeEntry(arrival.episode, arrival.task, entry.tasks, now(), measures)
    grown = replace(grown, episodes=(*index.episodes, episode))
    learned = Learned(
        arrival.task,
        arrival.episode,
        entry.tasks,
        {name: index.measures.get(name) for name in grown.tasks},
        grown.measures,
        seconds,
        held_out_scores(folder, grown, arrival.task),
        changes_between(folder, index, grown, entry.heads),
    )
    did = "grown" if arrival.task in index.tasks else "learned"
    return grown.after(did, episode.when, arrival.task, _detail(arrival, entry)), learned


def asked_beside(folder: ZooFolder, index: Index, arrival: Arrival, net_of: NetOf, recipe: Recipe) -> Arrival:
    """Asks the members that speak for a task already about the rows held out of what has just arrived."""
    earlier = index.tasks[arrival.task].as_of(arrival.episode - 1)
    speakers = [member for member in index.members if arrival.task in member.share and member.episode < arrival.episode]
    if arrival.test is None or not speakers:
        return changed(arrival, asked=(), votes=None)
    x = folder.tensor(arrival.test.x)
    said = torch.zeros(len(speakers), len(x), len(earlier.classes))
    for place, member in enumerate(speakers):
        vote = probabilities(net_of(member), x, arrival.task, recipe)
        said[place, :, : vote.shape[1]] = vote
    digest, _ = folder.store_tensors("votes", {"test": said})
    return changed(arrival, asked=tuple(member.number for member in speakers), votes=digest)


def entry_of(
    member: Member, number: int, tasks: Sequence[str], seed: int, seconds: float, rows_trained: int | None = None
) -> MemberEntry:
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
        rows_trained=rows_trained,
    )


def kept_rows(folder: ZooFolder, index: Index, arrival: Arrival, kept: Task | None) -> Rows | None:
    """Where the rows that are kept of an arrival lie, the last ones of its task; all of them are there already."""
    if kept is None or arrival.train is None:
        return None
    before = index.tasks[arrival.task].rows_kept if arrival.task in index.tasks else 0
    if len(kept.train) - before == arrival.train.count:
        return arrival.train
    return Rows(folder.store_tensor(kept.train.x[before:]), folder.store_tensor(kept.train.y[before:]))


def _detail(arrival: Arrival, member: MemberEntry) -> str:
    rows = {side: part.count if (part := arrival.rows(side)) else 0 for side in SIDES}
    return f"member {member.number} from {len(member.tasks)} task{'' if len(member.tasks) == 1 else 's'}; {rows['train']} rows kept, {rows['test']} held out"


def written(
    folder: ZooFolder, index: Index, entry: MemberEntry, net: Net, recipe: Recipe, train: Mapping[str, Tensor]
) -> MemberEntry:
    """Writes a member's net and votes (those on training rows that are known already need not be asked again)."""
    votes: dict[str, Tensor] = {}
    for place, name in enumerate(entry.heads):
        task = index.tasks[name].as_of(entry.episode)
        votes[f"test.{place}"] = probabilities(net, stored_inputs(folder, task, "test"), name, recipe)
        if has_train_votes(index, entry, name):
            votes[f"train.{place}"] = (
                train[name] if name in train else on_labels(net, stored_examples(folder, task, "train"), name, recipe)
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
        answer = votes.answer(name, at=at)
        labels = stored_labels(folder, index.task(name, at), "test")
        measures[name] = measured(answer, labels, loss, calibrates=index.settings.features is None)
    return measures


def checkpoints(folder: ZooFolder, index: Index, *what: str) -> Checkpoints:
    """Where this very training is kept while it goes on: found again only by the same work on the same zoo."""
    key = sha256("/".join([str(index.generation), *what]).encode()).hexdigest()[:32]
    return Checkpoints(folder.checkpoints(key), every=1)


def now() -> str:
    """The time as logs show it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
