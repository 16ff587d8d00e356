"""One episode: a new task, already in the folder, becomes a new member and its votes."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter

from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Net
from zoolearn.training.fit import Checkpoints, Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import Adopted, EpisodeEntry, Index, Measure, MemberEntry, Rows, TaskEntry
from zoolearn.zoo.lineage import heritage
from zoolearn.zoo.recall import NetOf, counted, learner_of, measured, said, stored_examples, stored_task
from zoolearn.zoo.settings import Names

CHECKPOINTS = 20  # of a training, at most


@dataclass(frozen=True)
class Learned:
    """What an episode brought: every task's measure before (None for the new one) and after."""

    task: str
    episode: int
    trained_on: tuple[str, ...]
    before: Mapping[str, Measure | None]
    after: Mapping[str, Measure]
    seconds: float


def learning(
    folder: ZooFolder, index: Index, task: TaskEntry, net_of: NetOf, names: Names | None
) -> Generator[Progress, None, tuple[Index, Learned]]:
    """Trains the episode's member and writes it; gives the index that makes it part of the zoo."""
    learner = learner_of(folder, index, net_of, names)
    digests = (part.digest for part in task.stored)
    learner.checkpoints = checkpoints(folder, learner.recipe, index, "learn", *digests, *task.augment)
    seed = learner.episode_seed()
    started = perf_counter()
    yield from learner.learning(stored_task(folder, task))
    seconds = perf_counter() - started
    assert learner.latest is not None
    assert learner.latest.loss is not None
    task = replace(task, train=kept_rows(folder, learner.kept.get(task.name), task))
    tasks = {**index.tasks, task.name: task}
    parents = tuple(index.members[place].number for place in learner.members[-1].parents)
    entry = MemberEntry(
        number=max((member.number for member in index.members), default=0) + 1,
        episode=task.episode,
        tasks=learner.latest.tasks,
        seed=seed,
        share={name: learner.members[-1].share[name] for name in learner.latest.tasks},
        silent=(),
        file="",
        votes="",
        bytes=0,
        loss=learner.latest.loss,
        seconds=seconds,
        parents=parents,
        heritage=heritage(parents, index.members),
    )
    train = {name: votes.latest for name, votes in learner.train_votes.items() if votes.latest is not None}
    grown = replace(index, tasks=tasks)
    entry = written(folder, grown, entry, learner.members[-1].net, learner, train)
    grown = replace(grown, members=(*index.members, entry))
    grown = with_adopted(folder, grown, learner, task.episode)
    measures = measure(folder, grown, list(tasks) if learner.adoption else entry.tasks)
    episode = EpisodeEntry(task.episode, task.name, entry.tasks, dict(learner.latest.weights or {}), now(), measures)
    grown = replace(grown, episodes=(*index.episodes, episode), measures={**index.measures, **measures})
    learned = Learned(
        task.name,
        task.episode,
        entry.tasks,
        {name: index.measures.get(name) for name in tasks},
        grown.measures,
        seconds,
    )
    return grown.after("learned", episode.when, task.name, _detail(task, entry)), learned


def kept_rows(folder: ZooFolder, kept: Task | None, entry: TaskEntry) -> Rows | None:
    """Where the training rows that are kept of a task lie; all of them are there already."""
    if kept is None or entry.train is None:
        return None
    if len(kept.train) == entry.train.count:
        return entry.train
    return Rows(folder.store_tensor(kept.train.x), folder.store_tensor(kept.train.y))


def _detail(task: TaskEntry, member: MemberEntry) -> str:
    kept = task.train.count if task.train else 0
    return f"member {member.number} from {len(member.tasks)} task(s); {kept} rows kept, {task.test.count} held out"


def written(
    folder: ZooFolder, index: Index, entry: MemberEntry, net: Net, learner: ModelZoo, train: Mapping[str, Tensor]
) -> MemberEntry:
    """Writes a member's net and votes (those on training rows that are known already need not be asked again).

    Heads that it adopted are not among them: they are files of their own.
    """
    votes: dict[str, Tensor] = {}
    for place, name in enumerate(entry.tasks):
        task = index.tasks[name]
        votes[f"test.{place}"] = ask(net, stored_examples(folder, task.test), name, learner)
        if task.train is not None and index.settings.tasks_per_episode > 1:
            votes[f"train.{place}"] = (
                train[name] if name in train else _of_labels(folder, task.train, net, name, learner.recipe)
            )
    adopted = tuple(f"heads.{place}." for place in range(len(entry.tasks), len(net.heads)))
    trained = {name: tensor for name, tensor in net.state_dict().items() if not name.startswith(adopted)}
    file, size = folder.store_tensors("members", trained)
    digest, _ = folder.store_tensors("votes", votes)
    return replace(entry, file=file, votes=digest, bytes=size)


def with_adopted(folder: ZooFolder, index: Index, learner: ModelZoo, episode: int) -> Index:
    """Writes the heads that the learner's members have and the folder's do not, with their votes on held-out rows."""
    members = []
    for entry, member in zip(index.members, learner.members, strict=True):
        new = sorted(member.adopted - {head.task for head in entry.adopted})
        heads = [stored_head(folder, index, member.net, name, episode, learner) for name in new]
        members.append(entry.with_heads([(head, member.share[head.task]) for head in heads]))
    return replace(index, members=tuple(members))


def stored_head(folder: ZooFolder, index: Index, net: Net, task: str, episode: int, learner: ModelZoo) -> Adopted:
    """Writes a head that a net has adopted, and what it says about its task's held-out rows."""
    head = net.head(task)
    file, _ = folder.store_tensors("heads", {"weight": head.weight, "bias": head.bias})
    answers = ask(net, stored_examples(folder, index.tasks[task].test), task, learner)
    votes, _ = folder.store_tensors("votes", {"test": answers})
    return Adopted(task, episode, file, votes)


def ask(net: Net, rows: Examples, task: str, learner: ModelZoo) -> Tensor:
    """What a net says about some rows, in the learner's way."""
    return probabilities(net, rows.x, task, learner.recipe, mirror=learner.mirror)


def _of_labels(folder: ZooFolder, rows: Rows, net: Net, task: str, recipe: Recipe) -> Tensor:
    examples = stored_examples(folder, rows)
    return probabilities(net, examples.x, task, recipe).gather(1, examples.y[:, None])[:, 0]


def measure(folder: ZooFolder, index: Index, tasks: Sequence[str], at: int | None = None) -> dict[str, Measure]:
    """How well some tasks are answered, from the members' stored votes: no net is asked."""
    measures = {}
    for name in tasks:
        votes = counted(lambda member: said(folder, index, member, name), index.speakers(name, at), name)  # noqa: B023
        measures[name] = measured(votes.mean, folder.tensor(index.tasks[name].test.y))
    return measures


def checkpoints(folder: ZooFolder, recipe: Recipe, index: Index, *what: str) -> Checkpoints:
    """Where this very training is kept while it goes on: found again only by the same work on the same zoo."""
    key = sha256("/".join([str(index.generation), *what]).encode()).hexdigest()[:32]
    return Checkpoints(folder.checkpoints(key), max(1, recipe.epochs // CHECKPOINTS))


def now() -> str:
    """The time as logs show it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
