"""Members that vote: what Model Zoo and Isolated share."""

from collections.abc import Generator, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.methods.learner import Learner, accuracy
from zoolearn.methods.state import derived, saved
from zoolearn.nets.net import Net
from zoolearn.training.fit import OPTIMIZERS, Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe


@dataclass(frozen=True)
class Vote:
    """How much a member's answer counts for a task, and the names of the classes that it speaks about.

    Where it `supersedes`, the votes of earlier members on the task no longer count.
    """

    weight: float
    classes: tuple[str, ...]
    supersedes: bool = False


@dataclass(frozen=True, eq=False)
class Member:
    """A net that never changes again, and its vote for each task that it has a head for."""

    net: Net
    votes: Mapping[str, Vote]
    loss: float
    episode: int  # in which it was trained, from 0


@dataclass(kw_only=True, eq=False)
class Ensemble(Learner):
    """Knowledge is a list of members; a task is answered by the weighted mean of those that vote on it."""

    grows: ClassVar[bool] = True
    standardizes: ClassVar[bool] = True
    smooths_labels: ClassVar[bool] = True
    optimizers: ClassVar[Sequence[str]] = tuple(OPTIMIZERS)

    members: MutableSequence[Member] = saved(default_factory=list, repr=True)
    test_votes: dict[str, "Votes"] = saved(default_factory=dict)

    def fit_member(self, net: Net, tasks: Sequence[Task], seed: int, **slots: Any) -> Generator[Progress, None, float]:
        """Trains the net of a member; gives its final loss."""
        return self.fit(net, tasks, seed, **slots)

    def voters(self, task: str) -> list[tuple[Net, float]]:
        """The members whose votes on a task count."""
        members = self.members[self.first_voter(task) :]
        return [(member.net, member.votes[task].weight) for member in members if task in member.votes]

    def first_voter(self, task: str) -> int:
        """The place of the newest member that supersedes those before it."""
        votes = enumerate(member.votes.get(task) for member in self.members)
        return max((place for place, vote in votes if vote is not None and vote.supersedes), default=0)

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of every task given; a vote that was counted before on these very rows is not asked for again."""
        return {task.name: accuracy(self.counted(task).mean, task.test.y) for task in tasks}

    def counted(self, task: Task) -> "Votes":
        """The sum of all votes on a task's test rows; begun again where the last one was of other rows or superseded members."""
        if task.name not in self.classes:
            raise UnknownTask(unknown_name("task", task.name, self.classes))
        rows, votes = digest(task.test.x), self.test_votes.get(task.name)
        first = self.first_voter(task.name)
        if votes is None or votes.rows != rows or votes.members <= first:
            votes = Votes(rows, members=first)
        for number, member in enumerate(self.members[votes.members :], votes.members + 1):
            if task.name in member.votes:
                said = probabilities(member.net, task.test.x, task.name, self.recipe)
                votes = votes.add(said, member.votes[task.name].weight, number)
        self.test_votes[task.name] = votes
        return votes

    @property
    def num_parameters(self) -> int:
        """Weights of all members."""
        return sum(member.net.num_parameters for member in self.members)


@dataclass(frozen=True, eq=False)
class Votes:
    """The sum of the votes among the first `members` members on the rows of this digest; it never changes."""

    rows: str
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    weight: float = 0.0
    members: int = 0
    latest: Tensor | None = derived(default=None, init=True)  # the vote counted last, for who keeps each member's own

    def add(self, said: Tensor, weight: float, members: int = 0) -> "Votes":
        """With one more member's vote: all up to number `members` are counted now."""
        total = self.total + (said if weight == 1.0 else weight * said)
        return Votes(self.rows, total, self.weight + weight, members, said)

    @property
    def mean(self) -> Tensor:
        """The ensemble's answer: the weighted average of the votes."""
        return self.total / self.weight

    @cached_property
    def loss(self) -> float:
        """Mean negative log-likelihood, where the votes are on the labels."""
        return float(-self.mean.double().clamp_min(torch.finfo(torch.float32).tiny).log().mean())


def on_labels(net: Net, rows: Examples, task: str, recipe: Recipe) -> Tensor:
    """The probability that a net gives to each row's label, by one look at it: mirror images would cost as much again."""
    return probabilities(net.looking(flips=False), rows.x, task, recipe).gather(1, rows.y[:, None])[:, 0]


def digest(rows: Tensor) -> str:
    """Changes when any value of the rows does, or their order."""
    found = blake2b(repr((tuple(rows.shape), str(rows.dtype))).encode(), digest_size=16)
    found.update(rows.contiguous().numpy().data.cast("B"))
    return found.hexdigest()
