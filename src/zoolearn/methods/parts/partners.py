"""What past tasks are weighed by when some are drawn to be trained on beside a new one.

Each measure gives a past task a number; `weigh` makes chances of the numbers, and the paper's `boosted` prefers high ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.methods.parts.linear_head import fit_head
from zoolearn.nets.net import Net
from zoolearn.training.predict import feature_rows, probabilities
from zoolearn.training.recipe import Recipe

SAMPLE = 250  # rows of a task that measures look at


@dataclass(frozen=True)
class Partner:
    """A past task that may be drawn: the zoo's training loss on it, its data, and the members that were trained on it."""

    loss: float
    kept: Task
    members: Sequence[Net]
    newest: Net  # of the whole zoo
    new: Task
    recipe: Recipe
    seed: int


Measure = Callable[[Partner], float]


def loss(partner: Partner) -> float:
    """The paper's: how badly the zoo explains the past task's training data."""
    return partner.loss


def separability(partner: Partner) -> float:
    """How badly the newest member's features tell the past task's classes apart: what training on it would mend."""
    return -_likelihood(partner.newest, partner.kept, partner)


def kinship(partner: Partner) -> float:
    """How well the features of the member that learned the past task first fit the new one."""
    return _likelihood(partner.members[0], partner.new, partner)


def disagreement(partner: Partner) -> float:
    """How far apart the votes on the past task are: the entropy of their mean less their mean entropy."""
    rows = _sample(partner.kept, partner)
    votes = torch.stack([probabilities(net, rows.x, partner.kept.name, partner.recipe) for net in partner.members])
    return float((_entropy(votes.mean(dim=0)) - _entropy(votes).mean(dim=0)).mean())


def agreement(partner: Partner) -> float:
    """The cosine of the new task's and the past task's gradients, at the newest member with heads fitted to both."""
    ours, theirs = (_gradient(partner.newest, task, partner) for task in (partner.new, partner.kept))
    return float(F.cosine_similarity(ours, theirs, dim=0))


MEASURES: dict[str, Measure] = {
    "loss": loss,
    "separability": separability,
    "kinship": kinship,
    "disagreement": disagreement,
    "agreement": agreement,
}


def _sample(task: Task, partner: Partner) -> Examples:
    return task.keep(min(1.0, SAMPLE / len(task.train)), partner.seed).train


def _likelihood(net: Net, task: Task, partner: Partner) -> float:
    rows = _sample(task, partner)
    return fit_head(feature_rows(net, rows.x, partner.recipe), rows.y, len(task.classes)).likelihood


def _entropy(probabilities: Tensor) -> Tensor:
    return -(probabilities * probabilities.clamp_min(1e-12).log()).sum(dim=-1)


def _gradient(net: Net, task: Task, partner: Partner) -> Tensor:
    """Of a task's loss with respect to all backbone weights."""
    rows = _sample(task, partner)
    head = fit_head(feature_rows(net, rows.x, partner.recipe), rows.y, len(task.classes))
    device = partner.recipe.torch_device
    weights = dict(net.body.named_parameters())
    movable = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
    scaled = net.scaled(rows.x.to(device))
    features = torch.func.functional_call(net.body, movable, (scaled,))
    value = F.cross_entropy(F.linear(features, head.weight.to(device), head.bias.to(device)), rows.y.to(device))
    gradients = torch.autograd.grad(value, list(movable.values()))
    return torch.cat([gradient.reshape(-1) for gradient in gradients])
