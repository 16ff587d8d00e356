"""The base of methods that penalise changes of weights, by their importance to past tasks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.state import saved


@dataclass(eq=False)
class QuadraticPenalty:
    """The penalty `rest + 1/2 sum_i importance_i (weight_i - anchor_i)^2` over a vector of weights.

    >>> penalty = QuadraticPenalty(anchor=torch.zeros(2), importance=torch.tensor([1.0, 4.0]), rest=torch.tensor(0.0))
    >>> weights = torch.tensor([3.0, 1.0])
    >>> float(penalty.value(weights)), penalty.gradient(weights).tolist()
    (6.5, [3.0, 4.0])
    """

    anchor: Tensor
    importance: Tensor
    rest: Tensor  # what remains of the penalty at the anchor itself, where several penalties were joined

    def value(self, weights: Tensor) -> Tensor:
        return self.rest + 0.5 * (self.importance * (weights - self.anchor).square()).sum()

    def gradient(self, weights: Tensor) -> Tensor:
        return self.importance * (weights - self.anchor)

    def scale(self, strength: float, limit: float) -> "QuadraticPenalty":
        """This penalty times `strength`, with importances at most `limit`."""
        return QuadraticPenalty(self.anchor, (strength * self.importance).clamp_(max=limit), strength * self.rest)

    def pull(self, flat: Flat) -> None:
        """Adds the penalty's gradient to the parameters' gradients."""
        flat.write_gradient(flat.gradient().add_(self.gradient(flat.data())))

    def to(self, device: torch.device) -> "QuadraticPenalty":
        return QuadraticPenalty(self.anchor.to(device), self.importance.to(device), self.rest.to(device))

    @property
    def numbers(self) -> int:
        """How many numbers it stores: an anchor and an importance for each weight."""
        return self.anchor.numel() + self.importance.numel()


Join = Callable[[QuadraticPenalty, QuadraticPenalty, int, float], QuadraticPenalty]


def separate(past: QuadraticPenalty, new: QuadraticPenalty, tasks: int, decay: float) -> QuadraticPenalty:
    """The sum of both penalties, exactly: two quadratic functions add up to one about a common centre."""
    importance = past.importance + new.importance
    share = torch.where(importance > 0, new.importance / importance, 1.0)
    apart = past.importance * share * (new.anchor - past.anchor).square()
    anchor = torch.lerp(past.anchor, new.anchor, share)
    return QuadraticPenalty(anchor, importance, past.rest + new.rest + 0.5 * apart.sum())


def online(past: QuadraticPenalty, new: QuadraticPenalty, tasks: int, decay: float) -> QuadraticPenalty:
    """The newest anchor with the importance of all tasks, the past's shrunk by `decay`."""
    return QuadraticPenalty(new.anchor, decay * past.importance + new.importance, new.rest)


def average(past: QuadraticPenalty, new: QuadraticPenalty, tasks: int, decay: float) -> QuadraticPenalty:
    """The newest anchor with the mean importance over all tasks, of which `tasks` came before."""
    return QuadraticPenalty(new.anchor, (tasks * past.importance + new.importance) / (tasks + 1), new.rest)


def tag(past: QuadraticPenalty, new: QuadraticPenalty, tasks: int, decay: float) -> QuadraticPenalty:
    """The newest anchor, and importance as TAG's code has it: the new one counts t of t + 1 parts, for the t-th task."""
    count = tasks + 1
    return QuadraticPenalty(new.anchor, (past.importance + count * new.importance) / (count + 1), new.rest)


JOINS: dict[str, Join] = {"separate": separate, "online": online, "average": average, "tag": tag}


@dataclass(kw_only=True, eq=False)
class Regularised(SingleNet):
    """One net with a quadratic penalty on its shared weights."""

    penalty: QuadraticPenalty | None = saved(default=None)

    def scale_penalty(self, strength: float, limited: bool) -> QuadraticPenalty | None:
        """The penalty for the new task, `limited` to 1 / lr in every weight; None if there is none."""
        if self.penalty is None or not strength:
            return None
        limit = 1 / self.recipe.lr if limited else torch.inf
        return self.penalty.to(self.recipe.torch_device).scale(strength, limit)

    @property
    def num_parameters(self) -> int:
        """Weights of the net, and an anchor and an importance for each that tasks share."""
        return super().num_parameters + (self.penalty.numbers if self.penalty is not None else 0)
