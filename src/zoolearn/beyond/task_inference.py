"""Task inference: which task an input belongs to, for inputs that come without one.

The paper gives a learner the task of every input. Here every known task gets a score (its evidence), and a temperature
fitted to stored rows, whose task is known, turns scores into probabilities. A task is named only if its probability is high
enough, and if the input is not farther from every task than nearly all stored rows are from their own.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor

from zoolearn.beyond.temperature import fit_inverse_temperature
from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.growth import Statistics, covariance
from zoolearn.methods.parts.head_logits import read_heads
from zoolearn.nets.net import Standardize
from zoolearn.training.predict import compute_features

STORED = 600  # rows of each task: three of four to fit the evidence to, the others the temperature
MOST_STORED = 250_000  # rows of all tasks: beyond about 400 tasks, fewer of each
MOST_EVIDENCE = 1_000_000  # rows x tasks that the temperature is fitted to: beyond about 70 tasks, fewer rows of each
ROWS_AT_ONCE = 1 << 12  # that a net sees
STRANGE = 0.01  # share of stored rows that would be taken for inputs of no task

Evidence = Callable[[Tensor], Tensor]  # from inputs to a score (input, task), higher where the task is likelier
FindEvidence = Callable[[ModelZoo, Sequence[Task]], Evidence]


def by_entropy(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """The negative entropy of the zoo's class probabilities for each task."""

    def evidence(x: Tensor) -> Tensor:
        answers = read_heads(zoo, x, [task.name for task in stored], lambda logits: torch.softmax(logits, dim=1))
        return torch.stack([(answer * answer.clamp_min(1e-12).log()).sum(dim=1) for answer in answers], dim=1)

    return evidence


def by_energy(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """The log-sum-exp of the logits of each task's heads, averaged over the members that vote on it."""

    def evidence(x: Tensor) -> Tensor:
        names = [task.name for task in stored]
        return torch.stack(read_heads(zoo, x, names, lambda logits: torch.logsumexp(logits, dim=1)), dim=1)

    return evidence


def by_distance(zoo: ModelZoo, stored: Sequence[Task]) -> Evidence:
    """Minus half the squared Mahalanobis distance to the nearest class mean of each task.

    Features are the newest member's; means and the covariance within classes are those of stored rows. Float features are
    standardised by the statistics of each task in turn.
    """
    net = zoo.members[-1].net
    scales = {task.name: _scale(task) for task in stored}
    means, scatter = {}, torch.zeros(())
    for task in stored:
        features = compute_features(net, scales[task.name](task.train.x), zoo.recipe)
        found = Statistics.of(features, task.train.y, len(task.classes))
        means[task.name], scatter = found.means, scatter + found.scatter
    rows, classes = sum(len(task.train) for task in stored), sum(len(task.classes) for task in stored)
    _, pulled = covariance(scatter, rows, classes)
    unit = torch.linalg.cholesky(torch.linalg.inv(pulled))
    centres = {name: mean @ unit for name, mean in means.items()}

    def looks(x: Tensor) -> Iterator[Tensor]:
        """Whitened features of inputs for each task; of standardised inputs, for several tasks at once."""
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
    """Standardises features by the statistics of a task, also if no head for it exists; pictures stay as they are."""
    if len(task.shape) == 3:
        return lambda x: x
    return Standardize(task.shape[0], task.train.x)


EVIDENCE: dict[str, FindEvidence] = {"entropy": by_entropy, "energy": by_energy, "distance": by_distance}


@dataclass(frozen=True)
class InferredTask:
    """The probability of every task (input, task), whether the likeliest may be named, and which inputs are like no task."""

    chances: Tensor
    certain: Tensor
    strange: Tensor


@dataclass
class TaskInference:
    """Infers the task of inputs by evidence, at a calibrated temperature."""

    tasks: tuple[str, ...]
    evidence: Evidence
    inverse_temperature: float
    least: float  # evidence below which an input is like no task

    def infer(self, x: Tensor, sure: float = 0.0) -> InferredTask:
        """The probabilities of tasks for raw inputs."""
        return self.infer_from(self.evidence(x), sure)

    def infer_from(self, evidence: Tensor, sure: float = 0.0) -> InferredTask:
        """The probabilities of tasks, given the evidence for each."""
        evidence = evidence.double().nan_to_num(nan=-math.inf)
        best = evidence.max(dim=1, keepdim=True).values
        relative = (evidence - best).nan_to_num(nan=0.0)  # where all are infinite: nothing speaks for any task
        chances = torch.softmax(self.inverse_temperature * relative, dim=1).float()
        known = best[:, 0] >= self.least
        return InferredTask(chances, (chances.max(dim=1).values >= sure) & (known if sure else True), ~known)

    def guess(self, x: Tensor, sure: float = 0.0) -> list[str | None]:
        """The likeliest task of each input; with `sure`, None if its probability is lower or the input is like no task."""
        inferred = self.infer(x, sure)
        named = zip(inferred.chances.argmax(dim=1).tolist(), inferred.certain.tolist(), strict=True)
        return [self.tasks[place] if certain else None for place, certain in named]


class WhichTask(TaskInference):
    """Infers the task of inputs by a zoo's members and its stored rows of every task.

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
        rows_each = min(STORED, MOST_STORED // max(1, len(zoo.kept)))
        stored = [task.subsample(min(1.0, rows_each / len(task.train)), zoo.seed) for task in zoo.kept.values()]
        if len(stored) < len(zoo.classes) or not stored:
            raise DataError("which task an input belongs to is told by stored rows; keep some of every task (replay)")
        self.zoo = zoo
        parts = [_parts(task) for task in stored]
        find_evidence = find(zoo, [most for most, _ in parts])
        rows = torch.cat([rest.train.x for _, rest in parts])
        owners = torch.cat([torch.full((len(rest.train),), place) for place, (_, rest) in enumerate(parts)])
        some = evenly(len(rows), MOST_EVIDENCE // len(stored))
        rows, owners = rows[some], owners[some]
        evidence = find_evidence(rows)
        least = float(evidence.max(dim=1).values.double().quantile(STRANGE))
        super().__init__(
            tuple(task.name for task in stored), find_evidence, fit_inverse_temperature([evidence], [owners]), least
        )


def evenly(count: int, most: int) -> Tensor:
    """The numbers below `count`, or `most` of them, evenly spread.

    >>> evenly(3, 10).tolist(), evenly(9, 3).tolist()
    ([0, 1, 2], [0, 3, 6])
    """
    return torch.arange(count) if count <= most else torch.arange(most) * count // most


def _parts(task: Task) -> tuple[Task, Task]:
    """A task of three of four rows of each class, and one of the others; a class of one row is in both."""
    first, second = torch.zeros(2, len(task.train), dtype=torch.bool)
    for label in range(len(task.classes)):
        rows = (task.train.y == label).nonzero()[:, 0]
        apart = torch.arange(len(rows)) % 4 == 1
        first[rows[~apart]] = True
        second[rows[apart] if len(rows) > 1 else rows] = True
    of_first, of_second = (task.train.select(part.nonzero()[:, 0]) for part in (first, second))
    return Task(task.name, of_first, task.test, task.classes), Task(task.name, of_second, task.test, task.classes)


@dataclass(frozen=True)
class InferredAccuracy:
    """Accuracy with an inferred task: shares of rows right in task and class, and among those that were certain."""

    accuracy: float
    task_accuracy: float
    answered: float
    accuracy_if_answered: float


def inferred_accuracy(
    which: TaskInference, tasks: Sequence[Task], answers: Mapping[str, Tensor], sure: float = 0.5
) -> InferredAccuracy:
    """The accuracy of answers on test rows whose task is inferred; each task counts alike."""
    shares = []
    for task in tasks:
        inferred = which.infer(task.test.x, sure)
        found, certain = inferred.chances.argmax(dim=1) == which.tasks.index(task.name), inferred.certain
        correct = found & (answers[task.name].argmax(dim=1) == task.test.y)
        counted = torch.stack([correct, found, certain, correct & certain])
        shares.append(counted.sum(dim=1).double() / len(task.test))
    right, right_task, answered, right_answered = torch.stack(shares).mean(dim=0).tolist()
    return InferredAccuracy(right, right_task, answered, right_answered / answered if answered else 0.0)
