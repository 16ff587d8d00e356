"""What a zoo is made of: its members, the heads that they adopt, and the running sum of their votes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from zoolearn.methods.learner import Part
from zoolearn.methods.parts.linear_head import FittedHead, set_head
from zoolearn.nets.net import Net


@dataclass(eq=False)
class Member:
    """A net, fixed after its episode, and the share of each task's data that it saw: its vote's weight for that task.

    `parents` are the places in the zoo of the members whose backbones it began with, `adopted` the tasks that it was not
    trained on and answers for nevertheless, through a head that was fitted to its finished features.
    """

    net: Net
    share: dict[str, float]
    parents: tuple[int, ...] = ()
    adopted: set[str] = field(default_factory=set)

    def adopt(self, task: str, head: FittedHead, share: float) -> None:
        """Gives the member a head for a task that it was not trained on."""
        self.net.add_head(task, len(head.bias))
        set_head(self.net, task, head)
        self.net.freeze()
        self.share[task] = share
        self.adopted.add(task)
        self.__dict__.pop("weights", None)

    @cached_property
    def weights(self) -> int:
        """Trained numbers of the net."""
        return self.net.weights


def heads_part(task: str, members: Mapping[int, Member]) -> Part:
    """The heads that some members (by their places) were given for a task, as one file."""
    tensors: dict[str, Tensor] = {}
    for place, member in members.items():
        head = member.net.head(task)
        tensors |= {f"{place}.weight": head.weight, f"{place}.bias": head.bias}
    return Part(tensors, {"task": task, "share": {str(place): m.share[task] for place, m in members.items()}})


def heads_of(part: Part) -> list[tuple[int, FittedHead, float]]:
    """What `heads_part` wrote: place, head and share."""
    return [
        (int(place), FittedHead(part.tensors[f"{place}.weight"], part.tensors[f"{place}.bias"], 0.0), share)
        for place, share in part.info["share"].items()
    ]


def label_logs(answers: Tensor, labels: Tensor) -> Tensor:
    """The logarithm of the probability of each row's label."""
    return answers.gather(1, labels[:, None])[:, 0].double().clamp_min(torch.finfo(torch.float32).tiny).log()


@dataclass(eq=False)
class Votes:
    """The running sum of the votes of the first `members` members on one fixed set of inputs."""

    total: Tensor
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
