"""How a task grows: class priors of its heads are corrected, or a head is made of feature statistics alone.

A part of a task brings rows of some classes only. A head trained on a kept share of the older rows beside all of the new ones
overestimates the new classes, by the ratio of rows in training to rows that have arrived; its biases are corrected for that.
Counts, means and scatter of features, which can be merged exactly, give a head for all classes without any kept row.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.ensemble import Ensemble, Member
from zoolearn.methods.learner import Episode
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features
from zoolearn.training.recipe import Recipe

RIDGE = 1.0  # shrinkage of the covariance towards its diagonal, in units of features per row


@torch.no_grad()
def correct_class_priors(net: Net, task: Task, arrived: Sequence[int], balance: float = 0.0) -> None:
    """Corrects the biases of a head, trained on the task's rows, for the rows that have arrived: + log(arrived / in training).

    `balance` is the strength of logit adjustment towards equal class frequencies: - balance x log(arrived) (Menon et al., 2021).
    """
    at_hand = torch.bincount(task.train.y, minlength=len(arrived))
    more = (1 - balance) * torch.tensor(arrived).double().clamp_min(1.0).log() - at_hand.clamp_min(1).log()
    bias = net.head(task.name).bias
    bias.add_((more - more.mean()).to(bias))


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics of features: rows and mean of each class, and the pooled scatter within classes."""

    counts: Tensor  # (class)
    means: Tensor  # (class, feature)
    scatter: Tensor  # (feature, feature)

    @classmethod
    def of(cls, features: Tensor, labels: Tensor, classes: int) -> "Statistics":
        """The statistics of these rows; a class without any has a mean of zeros."""
        x, members = features.double(), F.one_hot(labels, classes).double()
        counts = members.sum(dim=0)
        means = members.T @ x / counts.clamp_min(1.0)[:, None]
        within = x - means[labels]
        return cls(counts, means, within.T @ within)

    def merge(self, later: "Statistics") -> "Statistics":
        """The statistics of both sets of rows, exactly; the later may have more classes."""
        more = len(later.counts) - len(self.counts)
        before, means = F.pad(self.counts, (0, more)), F.pad(self.means, (0, 0, 0, more))
        counts = before + later.counts
        moved = later.means - means
        share = later.counts / counts.clamp_min(1.0)
        apart = (before * share)[:, None] * moved
        return Statistics(counts, means + share[:, None] * moved, self.scatter + later.scatter + moved.T @ apart)

    def discriminant(self, balance: float = 0.0, arrived: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Weights and biases of a linear discriminant: Gaussian classes with one shared covariance.

        Distances from a mean of few rows are biased upwards; the bias is subtracted. Class frequencies are those of `arrived`.
        """
        shape, pulled = covariance(self.scatter, int(self.counts.sum()), len(self.counts))
        inverse = torch.linalg.inv(pulled)
        weight, chance = self.means @ inverse, float((inverse * shape).sum()) / self.counts
        frequent = torch.tensor(arrived).double().clamp_min(1.0) if arrived else self.counts
        return weight, -0.5 * (weight * self.means).sum(dim=1) + 0.5 * chance + (1 - balance) * frequent.log()


def covariance(scatter: Tensor, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """The covariance of which this is the scatter within classes; and shrunk towards its diagonal, the more the fewer rows."""
    shape = scatter / max(1, rows - classes)
    pull = RIDGE * len(scatter) / rows * shape.diagonal().clamp_min(0.01 * (float(shape.diagonal().mean()) or 1.0))
    return shape, shape + pull.diag()


def feature_statistics(net: Net, task: Task, recipe: Recipe) -> Statistics:
    """The statistics of a net's features of a task's training rows; the net has a head for the task."""
    features = compute_features(net, net.scale_features(task.train.x, task.name), recipe)
    return Statistics.of(features, task.train.y, len(task.classes))


def grow_by_statistics(zoo: Ensemble, known: dict[str, Statistics], part: Task, balance: float, alone: bool) -> Episode:
    """Adds a copy of the task's first member whose head is made of statistics; `alone`, no earlier vote counts."""
    if part.name not in known:
        raise DataError(
            f"neither rows nor statistics are kept of {part.name!r}; learn it again whole under another name"
        )
    first = zoo.first_member(part.name)
    net = deepcopy(first.net)
    known[part.name] = known[part.name].merge(feature_statistics(net, part, zoo.recipe))
    if not bool(known[part.name].counts.all()):
        empty = part.classes[int(known[part.name].counts.argmin())]
        raise DataError(f"task {part.name!r} has no training example of class {empty!r}; add some or drop the class")
    net.widen_head(part.name, len(part.classes))
    weight, bias = known[part.name].discriminant(balance, zoo.arrived[part.name].rows)
    net.head(part.name).load_state_dict({"weight": weight, "bias": bias})
    votes = {part.name: zoo.vote(part, 1.0, newest=int(alone))}
    zoo.members.append(Member(net.freeze(), votes, first.loss, zoo.episode, trained=False))
    return Episode((part.name,), {}, None)
