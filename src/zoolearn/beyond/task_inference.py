"""Which task does an input belong to, when it is not given? The members' own evidence decides, or says that it is not sure.

The paper tells a learner the task of every input. Here each known task is given evidence; a factor that is fitted to
stored rows, whose task is known, turns evidence into chances. A task is named only where its chance is high enough, and
where the input is not stranger to every task than nearly all stored rows are to their own.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor

from zoolearn.beyond.temperature import fit_temperature
from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Columns
from zoolearn.training.predict import compute_features

STORED = 250  # rows of each task that evidence and chances are fitted to, half of them each
MOST_EVIDENCE = 1_000_000  # rows times tasks: of more than some seventy tasks, fewer rows each are asked about
ROWS_AT_ONCE = 1 << 12  # that a net sees
STRANGE = 0.01  # share of stored rows that have less evidence than an input must have to be told

Evidence = Callable[[Tensor], Tensor]  # inputs to one number for each task, higher where the task is likelier
FindEvidence = Callable[[ModelZoo, Sequence[Task]], Evidence]


def by_entropy(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """How sure the zoo's answer for a task is: the negative entropy of its class probabilities."""

    def evidence(x: Tensor) -> Tensor:
        answers = _read_heads(zoo, stored, x, lambda logits: torch.softmax(logits, dim=1))
        return torch.stack([(answer * answer.clamp_min(1e-12).log()).sum(dim=1) for answer in answers], dim=1)

    return evidence


def by_energy(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """How loud a task's heads are: the log-sum-exp of their logits, averaged over the members that vote on it."""

    def evidence(x: Tensor) -> Tensor:
        return torch.stack(_read_heads(zoo, stored, x, lambda logits: torch.logsumexp(logits, dim=1)), dim=1)

    return evidence


def _read_heads(zoo: ModelZoo, tasks: Sequence[Task], x: Tensor, read: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """For each task, its heads' logits read in some way and averaged by the weights of votes, of those that know all classes.

    Every member looks once; at features of a table, which each task has its own scale for, once for each task.
    """
    totals = [torch.zeros(()) for _ in tasks]
    weights = [0.0 for _ in tasks]
    first = [zoo.first_voter(task.name) for task in tasks]
    for number, member in enumerate(zoo.members[min(first) :], min(first)):
        net, device = member.net, zoo.recipe.torch_device
        features = torch.empty(0) if net.standardize else compute_features(net, x, zoo.recipe).to(device)
        for place, task in enumerate(tasks):
            vote = member.votes.get(task.name)
            if vote is not None and vote.classes == zoo.classes[task.name] and number >= first[place]:
                latest = zoo.arrived[task.name].total if task.name in zoo.arrived else vote.arrived
                weight = vote.weight if vote.arrived == latest else vote.weight * vote.arrived / latest
                if net.standardize:
                    features = compute_features(net, net.scale_features(x, task.name), zoo.recipe).to(device)
                totals[place] = totals[place] + weight * read(member.net.head(task.name)(features)).cpu()
                weights[place] += weight
    return [total / weight for total, weight in zip(totals, weights, strict=True)]


def by_distance(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """How near an input is to a class of the task: the distance to the mean features of its stored rows.

    Features are the newest member's, in units of their scatter within classes. Inputs from tables are brought to the
    scale of each task in turn, and so look strange to the others.
    """
    net = zoo.members[-1].net
    scales = {task.name: _scale(task) for task in stored}
    features = {
        task.name: compute_features(net, scales[task.name](task.train.x), zoo.recipe).double() for task in stored
    }
    means = {
        task.name: torch.stack(
            [features[task.name][task.train.y == label].mean(dim=0) for label in range(len(task.classes))]
        )
        for task in stored
    }
    within = torch.cat([features[task.name] - means[task.name][task.train.y] for task in stored])
    scatter = within.T @ within / len(within)
    spread = float(scatter.diagonal().mean()) or 1.0  # none where each class has a single row
    scatter += 0.1 * spread * torch.eye(len(scatter), dtype=scatter.dtype)
    unit = torch.linalg.cholesky(torch.linalg.inv(scatter))

    centres = {name: mean @ unit for name, mean in means.items()}

    def looks(x: Tensor) -> Iterator[Tensor]:
        """What the net sees in inputs, for each task; at the scales of many tasks at once."""
        if not net.standardize:
            yield from repeat(compute_features(net, x, zoo.recipe).double() @ unit, len(centres))
            return
        names, at_once = [*centres], max(1, ROWS_AT_ONCE // max(1, len(x)))
        for some in (names[start : start + at_once] for start in range(0, len(names), at_once)):
            scaled = torch.cat([scales[name](x) for name in some])
            yield from (compute_features(net, scaled, zoo.recipe).double() @ unit).split(len(x))

    def evidence(x: Tensor) -> Tensor:
        nearest = [
            torch.cdist(here, centre).min(dim=1).values.square()
            for here, centre in zip(looks(x), centres.values(), strict=True)
        ]
        return -torch.stack(nearest, dim=1) / 2

    return evidence


def _scale(task: Task) -> Callable[[Tensor], Tensor]:
    """Brings features to the scale of a task's, also where a member has no head for it; pictures stay as they are."""
    if len(task.shape) == 3:
        return lambda x: x
    return Columns(task.shape[0], task.train.x)


EVIDENCE: dict[str, FindEvidence] = {"entropy": by_entropy, "energy": by_energy, "distance": by_distance}


@dataclass(frozen=True)
class InferredTask:
    """The chance of every task, one row an input, whether it is enough to name the likeliest, and what is like no task."""

    chances: Tensor
    certain: Tensor
    strange: Tensor


@dataclass
class TaskInference:
    """Infers the task of inputs by evidence, at the temperature at which its probabilities hold."""

    tasks: tuple[str, ...]
    evidence: Evidence
    inverse_temperature: float
    least: float  # evidence below which an input is like no task

    def infer(self, x: Tensor, sure: float = 0.0) -> InferredTask:
        """The tasks of inputs."""
        return self.infer_from(self.evidence(x), sure)

    def infer_from(self, evidence: Tensor, sure: float = 0.0) -> InferredTask:
        """The tasks of inputs, by their evidence for each task."""
        evidence = evidence.double().nan_to_num(nan=-math.inf)
        best = evidence.max(dim=1, keepdim=True).values
        relative = (evidence - best).nan_to_num(nan=0.0)  # where all are infinite: nothing speaks for any task
        chances = torch.softmax(self.inverse_temperature * relative, dim=1).float()
        known = best[:, 0] >= self.least
        return InferredTask(chances, (chances.max(dim=1).values >= sure) & (known if sure else True), ~known)

    def guess(self, x: Tensor, sure: float = 0.0) -> list[str | None]:
        """The likeliest task of each input; above 0, None where its chance is below `sure` or it is like no task."""
        inferred = self.infer(x, sure)
        named = zip(inferred.chances.argmax(dim=1).tolist(), inferred.certain.tolist(), strict=True)
        return [self.tasks[place] if certain else None for place, certain in named]


class WhichTask(TaskInference):
    """Infers the task of inputs by the evidence of a zoo and rows of every task that it stores.

    >>> from zoolearn import ModelZoo, Recipe, benchmark, mlp
    >>> zoo = ModelZoo(backbone=mlp, recipe=Recipe(epochs=5))
    >>> first, second = benchmark("split-digits")[:2]
    >>> zoo.learn(first), zoo.learn(second)
    (None, None)
    >>> which = WhichTask(zoo)
    >>> guesses = which.guess(first.test.x)
    >>> guesses.count("0-1") > 3 * guesses.count("2-3")
    True
    """

    def __init__(self, zoo: ModelZoo, find: FindEvidence = by_distance) -> None:
        stored = [task.subsample(min(1.0, STORED / len(task.train)), zoo.seed) for task in zoo.kept.values()]
        if len(stored) < len(zoo.classes) or not stored:
            raise DataError("which task an input belongs to is told by stored rows; keep some of every task (replay)")
        self.zoo = zoo
        halves = [_halves(task) for task in stored]
        find_evidence = find(zoo, [first for first, _ in halves])
        rows = torch.cat([second.train.x for _, second in halves])
        owners = torch.cat([torch.full((len(second.train),), place) for place, (_, second) in enumerate(halves)])
        some = evenly(len(rows), MOST_EVIDENCE // len(stored))
        rows, owners = rows[some], owners[some]
        evidence = find_evidence(rows)
        least = float(evidence.max(dim=1).values.double().quantile(STRANGE))
        super().__init__(
            tuple(task.name for task in stored), find_evidence, fit_temperature([evidence], [owners]), least
        )


def evenly(count: int, most: int) -> Tensor:
    """The numbers below `count`, or so many of them, evenly spread.

    >>> evenly(3, 10).tolist(), evenly(9, 3).tolist()
    ([0, 1, 2], [0, 3, 6])
    """
    return torch.arange(count) if count <= most else torch.arange(most) * count // most


def _halves(task: Task) -> tuple[Task, Task]:
    """Two tasks of every second row of each class; a class of one row is in both."""
    places = torch.zeros(len(task.train), dtype=torch.int64)
    for label in range(len(task.classes)):
        rows = (task.train.y == label).nonzero()[:, 0]
        places[rows] = torch.arange(len(rows)) % 2 if len(rows) > 1 else 2
    return tuple(  # type: ignore[return-value]
        Task(task.name, task.train.select(((places == half) | (places == 2)).nonzero()[:, 0]), task.test, task.classes)
        for half in (0, 1)
    )


@dataclass(frozen=True)
class ClassIncremental:
    """Answers without being told the task: how many are right in task and class, and of those that were sure."""

    accuracy: float
    task_accuracy: float
    answered: float
    accuracy_if_answered: float


def class_incremental(
    which: TaskInference, tasks: Sequence[Task], answers: Mapping[str, Tensor], sure: float = 0.5
) -> ClassIncremental:
    """How the zoo's answers on the test rows of some tasks fare when it must find out the task by itself; each task counts alike."""
    shares = []
    for task in tasks:
        inferred = which.infer(task.test.x, sure)
        found, certain = inferred.chances.argmax(dim=1) == which.tasks.index(task.name), inferred.certain
        correct = found & (answers[task.name].argmax(dim=1) == task.test.y)
        counted = torch.stack([correct, found, certain, correct & certain])
        shares.append(counted.sum(dim=1).double() / len(task.test))
    right, right_task, answered, right_answered = torch.stack(shares).mean(dim=0).tolist()
    return ClassIncremental(right, right_task, answered, right_answered / answered if answered else 0.0)
