"""Members that vote: what Model Zoo and Isolated share."""

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import zip_longest

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.methods.learner import Learner
from zoolearn.methods.state import derived, saved
from zoolearn.nets.net import Net
from zoolearn.training.fit import OPTIMIZERS
from zoolearn.training.predict import combine, probabilities
from zoolearn.training.recipe import Recipe


@dataclass(frozen=True)
class Vote:
    """How much a member's answer counts for a task, and the names of the classes that it knows.

    With `newest`, only this many votes on the task count, this one and those before it; 0: all of them. A task can grow:
    `arrived` are the rows of each class that had come by then, and a vote of the time when there were fewer counts less
    (`vote_weights`).
    """

    weight: float
    classes: tuple[str, ...]
    newest: int = 0
    arrived: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Member:
    """A net that never changes again, and its vote for each task that it has a head for; one of weight 0 is not asked."""

    net: Net
    votes: Mapping[str, Vote]
    loss: float
    episode: int  # in which it was made, from 0
    trained: bool = True  # False: a head on the features of an earlier member

    def votes_on(self, task: str) -> bool:
        """Whether it has a vote on a task that weighs anything."""
        return task in self.votes and self.votes[task].weight > 0


@dataclass(frozen=True)
class Arrived:
    """How many training rows of each class of a task have arrived."""

    rows: tuple[int, ...] = ()

    def after(self, part: Task) -> "Arrived":
        """The counts once a further part of the task has arrived."""
        rows = torch.bincount(part.train.y, minlength=len(part.classes)).tolist()
        return Arrived(tuple(map(sum, zip_longest(self.rows, rows, fillvalue=0))))


@dataclass(kw_only=True, eq=False)
class Ensemble(Learner):
    """A list of members; a task is answered by the weighted mean of those that vote on it."""

    grows = True
    tasks_grow = True
    standardizes = True
    smooths_labels = True
    optimizers = tuple(OPTIMIZERS)

    members: MutableSequence[Member] = saved(default_factory=list, repr=True)
    arrived: dict[str, Arrived] = saved(default_factory=dict)  # of every task met
    test_votes: dict[str, "Tally"] = saved(default_factory=dict)

    def count_arrival(self, task: Task) -> None:
        """Counts the rows of a task, or of a part of one, that arrives."""
        self.arrived[task.name] = self.arrived.get(task.name, Arrived()).after(task)

    def vote(self, task: Task, weight: float, *, newest: int = 0) -> Vote:
        """The vote of a member that learns a task as it is now."""
        return Vote(weight, task.classes, newest, self.arrived.get(task.name, Arrived()).rows)

    def voters(self, task: str) -> list[tuple[Net, float]]:
        members = self._voting_members(task)
        weights = vote_weights([member.votes[task] for member in members])
        return [(member.net, weight) for member, weight in zip(members, weights, strict=True)]

    def combine_votes(self, outputs: Sequence[Tensor], weights: Sequence[float], task: str) -> Tensor:
        """One answer of the voters' outputs: each counts for the classes that it knows."""
        known = [member.votes[task].classes for member in self._voting_members(task)]
        return combine(outputs, weights, known, self.classes[task])

    def _voting_members(self, task: str) -> list[Member]:
        return [member for member in self.members[self.first_voter(task) :] if member.votes_on(task)]

    def first_member(self, task: str) -> Member:
        """The first member trained on a task; the task's statistics are of its features."""
        return next(member for member in self.members if task in member.votes)

    def first_voter(self, task: str) -> int:
        """The position of the first member whose vote on a task still counts; 0 if all of them do."""
        places = [place for place, member in enumerate(self.members) if task in member.votes]
        first = first_counted([self.members[place].votes[task].newest for place in places])
        return places[first] if first else 0

    def test_answers(self, task: Task) -> Tensor:
        """Cached: votes counted before on exactly these rows are not computed again, unless others of their sum no longer count."""
        if task.name not in self.classes:
            raise UnknownTask(unknown_name("task", task.name, self.classes))
        rows, tally, classes = digest(task.test.x), self.test_votes.get(task.name), self.classes[task.name]
        first = self.first_voter(task.name)
        if tally is None or tally.rows != rows or (tally := tally.since(first)) is None:
            tally = Tally(rows, classes, first)
        for number, member in enumerate(self.members[tally.members :], tally.members + 1):
            if member.votes_on(task.name):
                output = probabilities(member.net, task.test.x, task.name, self.recipe)
                tally = tally.add(output, member.votes[task.name], number)
        self.test_votes[task.name] = tally if tally.classes == classes else replace(tally, classes=classes)
        return self.test_votes[task.name].mean

    @property
    def num_parameters(self) -> int:
        return sum(member.net.num_parameters for member in self.members)


def first_counted(newest: Sequence[int]) -> int:
    """The place of the first vote that counts, of votes in order, each of which lets this many of the newest count, or all.

    >>> first_counted([0, 0]), first_counted([0, 2, 2]), first_counted([0, 1, 0])
    (0, 1, 1)
    """
    return max((place + 1 - count for place, count in enumerate(newest) if 0 < count <= place), default=0)


def vote_weights(votes: Sequence["Vote | Votes"]) -> list[float]:
    """The weight of each vote on a task now: `Vote.weight` times the share of rows of today that had arrived at the vote.

    If a class has grown more than the task, its share counts: who saw one row of a class would vote it down.
    """
    now = max((vote.arrived for vote in votes), key=sum, default=())
    return [vote.weight * share_seen(vote.arrived, now) for vote in votes]


def share_seen(then: Sequence[float], now: Sequence[float]) -> float:
    """The share of rows of today that had arrived then, of all or of the class that has grown most since, if that is less."""
    return 1.0 if then == now else min([sum(then) / sum(now), *(a / b for a, b in zip(then, now, strict=False) if b)])


@dataclass(frozen=True, eq=False)
class Votes:
    """An immutable weighted sum of votes on the rows with this digest."""

    rows: str
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    weight: float = 0.0
    classes: tuple[str, ...] = ()  # that they are about, and the rows of each that had arrived
    arrived: tuple[float, ...] = ()
    member: int = 0  # whose vote alone it is, since it may be dropped later; 0: a sum of votes
    latest: Tensor | None = derived(default=None, init=True)  # the output added last

    def add(self, output: Tensor, weight: float) -> "Votes":
        total = self.total + (output if weight == 1.0 else weight * output)
        return replace(self, total=total, weight=self.weight + weight, latest=output)

    @property
    def mean(self) -> Tensor:
        return self.total / self.weight

    @cached_property
    def loss(self) -> float:
        """Mean negative log-likelihood, where the votes are on the labels."""
        return float(-self.mean.double().clamp_min(torch.finfo(torch.float32).tiny).log().mean())


@dataclass(frozen=True, eq=False)
class Tally:
    """All votes of the first `members` members on the rows with this digest, one sum for each stage of the task's growth."""

    rows: str
    classes: tuple[str, ...]  # of the task by now
    members: int = 0
    sums: tuple[Votes, ...] = ()

    def add(self, output: Tensor, vote: Vote, members: int) -> "Tally":
        """A tally with one more vote; `members` members are counted in it."""
        kind = (vote.classes, vote.arrived, members if vote.newest else 0)
        alike = [votes for votes in self.sums if (votes.classes, votes.arrived, votes.member) == kind]
        others = [votes for votes in self.sums if votes not in alike]
        votes = alike[0] if alike else Votes(self.rows, classes=kind[0], arrived=kind[1], member=kind[2])
        return replace(self, members=members, sums=(*others, votes.add(output, vote.weight)))

    def since(self, first: int) -> "Tally | None":
        """Without the votes of members before this position; None where they were added up with others."""
        if self.members <= first or (first and not all(votes.member for votes in self.sums)):
            return None
        kept = tuple(votes for votes in self.sums if not first or votes.member > first)
        return self if len(kept) == len(self.sums) else replace(self, sums=kept)  # itself is not saved once more

    @property
    def mean(self) -> Tensor:
        if len(self.sums) == 1 and self.sums[0].classes == self.classes:
            return self.sums[0].mean
        outputs = [votes.mean for votes in self.sums]
        return combine(outputs, vote_weights(self.sums), [votes.classes for votes in self.sums], self.classes)


def label_probabilities(net: Net, rows: Examples, task: str, recipe: Recipe) -> Tensor:
    """The probability that a net gives to each row's label, without test-time flips, which would double the cost."""
    return probabilities(net.with_flips(flips=False), rows.x, task, recipe).gather(1, rows.y[:, None])[:, 0]


def digest(rows: Tensor) -> str:
    """A hash of the values of rows, in their order."""
    found = blake2b(repr((tuple(rows.shape), str(rows.dtype))).encode(), digest_size=16)
    found.update(rows.contiguous().numpy().data.cast("B"))
    return found.hexdigest()
