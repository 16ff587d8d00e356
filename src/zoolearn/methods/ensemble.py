"""Members that vote: what Model Zoo and Isolated share."""

from collections.abc import Generator, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import ClassVar

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.files import Json, load_state
from zoolearn.methods.learner import Learner, State, StateFile, accuracy
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.training.fit import Progress, iter_fit
from zoolearn.training.predict import average, joined, probabilities, votes
from zoolearn.training.recipe import Recipe


@dataclass(frozen=True)
class Vote:
    """How much a member's answer counts for a task, and the names of the classes that it speaks about."""

    weight: float
    classes: tuple[str, ...]


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

    members: MutableSequence[Member] = field(init=False, default_factory=list)
    test_votes: dict[str, "Votes"] = field(init=False, default_factory=dict, repr=False)

    def fit(
        self, net: Net, tasks: Sequence[Task], seed: int, *, balanced: bool = False
    ) -> Generator[Progress, None, float]:
        """Trains the net of a member; gives its final loss."""
        return iter_fit(net, tasks, self.recipe, seed=seed, balanced=balanced, checkpoints=self.checkpoints)

    def answer(self, x: Tensor, task: str) -> Tensor:
        """sum_m vote_m p_m(y | x) / sum_m vote_m over the members m that vote on the task (equation 3)."""
        voters = [member for member in self.members if task in member.votes]
        pieces = votes([member.net for member in voters], x, task, self.recipe)
        return joined([average(piece, [member.votes[task].weight for member in voters]) for piece in pieces])

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of every task given; a vote that was counted before on these very rows is not asked for again."""
        return {task.name: accuracy(self.counted(task).mean, task.test.y) for task in tasks}

    def counted(self, task: Task) -> "Votes":
        """The sum of all votes on a task's test rows; begun again where the last one was counted on other rows."""
        if task.name not in self.classes:
            raise UnknownTask(unknown_name("task", task.name, self.classes))
        rows, votes = digest(task.test.x), self.test_votes.get(task.name)
        if votes is None or votes.rows != rows:
            votes = self.test_votes[task.name] = Votes(rows)
        for member in self.members[votes.members :]:
            if task.name in member.votes:
                said = probabilities(member.net, task.test.x, task.name, self.recipe)
                votes.add(said, member.votes[task.name].weight)
            votes.members += 1
        return votes

    def state(self) -> State:
        """The members of the latest episode, and the sums of votes that they changed."""
        new = {number: member for number, member in enumerate(self.members, 1) if member.episode == self.episode - 1}
        parts = {f"members/{number:04d}": StateFile(m.net.state_dict(), _member_info(m)) for number, m in new.items()}
        changed = dict.fromkeys(name for member in new.values() for name in member.votes)
        return State({}, {**parts, f"votes/{self.episode:04d}": votes_part(self.test_votes, changed)})

    def load_state(self, snapshots: Sequence[State], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up every episode's members and the newest votes of each task."""
        for episode, snapshot in enumerate(snapshots):
            for name, part in snapshot.parts.items():
                if name.startswith("members/"):
                    net = Net.from_spec(part.info["net"], backbones)
                    load_state(net, part.tensors, name)
                    cast = {task: Vote(weight, tuple(names)) for task, (weight, names) in part.info["votes"].items()}
                    self.members.append(Member(net.freeze(), cast, part.info["loss"], episode))
                elif name.startswith("votes/"):
                    self.test_votes |= votes_of(part)

    @property
    def num_parameters(self) -> int:
        """Weights of all members."""
        return sum(member.net.num_parameters for member in self.members)


@dataclass(eq=False)
class Votes:
    """The running sum of the votes of the first `members` members on the rows of this digest."""

    rows: str
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    weight: float = 0.0
    members: int = 0
    latest: Tensor | None = None  # the vote counted last, for those who keep each member's own

    def add(self, probabilities: Tensor, weight: float) -> None:
        """Counts one member's vote."""
        self.total = self.total + (probabilities if weight == 1.0 else weight * probabilities)
        self.weight += weight
        self.latest = probabilities
        self.__dict__.pop("loss", None)

    @property
    def mean(self) -> Tensor:
        """The ensemble's answer: the weighted average of the votes."""
        return self.total / self.weight

    @cached_property
    def loss(self) -> float:
        """Mean negative log-likelihood, where the votes are on the labels; kept until the next vote."""
        return float(-self.mean.double().clamp_min(torch.finfo(torch.float32).tiny).log().mean())


def on_labels(net: Net, rows: Examples, task: str, recipe: Recipe) -> Tensor:
    """The probability that a net gives to each row's label, by one look at it: mirror images would cost as much again."""
    return probabilities(net.looking(flips=False), rows.x, task, recipe).gather(1, rows.y[:, None])[:, 0]


def digest(rows: Tensor) -> str:
    """Changes when any value of the rows does, or their order."""
    found = blake2b(repr((tuple(rows.shape), str(rows.dtype))).encode(), digest_size=16)
    found.update(rows.contiguous().numpy().data.cast("B"))
    return found.hexdigest()


def _member_info(member: Member) -> dict[str, Json]:
    cast = {task: [vote.weight, list(vote.classes)] for task, vote in member.votes.items()}
    return {"net": member.net.spec(), "votes": cast, "loss": member.loss}


def votes_part(counted: Mapping[str, Votes], names: Iterable[str]) -> StateFile:
    """The running votes of some tasks as one file."""
    known = [(name, counted[name]) for name in names if name in counted]
    tensors = {str(place): votes.total for place, (_, votes) in enumerate(known)}
    info = {str(place): [name, v.rows, v.weight, v.members] for place, (name, v) in enumerate(known)}
    return StateFile(tensors, info)


def votes_of(part: StateFile) -> dict[str, Votes]:
    """What `votes_part` wrote."""
    return {name: Votes(rows, part.tensors[key], *counts) for key, (name, rows, *counts) in part.info.items()}
