"""Is an input like what is stored of a task, or none of its classes?

Being far from every class says little by itself: an odd row of a class is far, too. So a distance counts against that to
the rows of other tasks, or of all classes together where there is no other task (the relative Mahalanobis distance of Ren
et al., 2021). Rows that are held out of the task say how far is too far, and no more than one in twenty of them is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Examples
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features
from zoolearn.training.recipe import Recipe

SHRINKAGE = 0.3  # of scatter towards a ball
KNOWN = 0.95  # share of held-out rows that are no farther than an input may be


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What tells strange inputs by the features that a net makes of them, as it does for one task."""

    net: Net
    task: str
    recipe: Recipe
    whiten: Tensor  # brings the scatter within classes to 1
    means: Tensor  # of the classes, whitened
    around: Tensor  # the mean of the rows that are compared with
    whiten_around: Tensor
    furthest: float

    @classmethod
    def fit(
        cls, net: Net, task: str, recipe: Recipe, known: Examples, others: Sequence[Tensor], held_out: Tensor
    ) -> "Familiarity":
        """From rows of the task, of other tasks (if there are any), and of the task that are held out of it."""
        rows = _unit_rows(net, task, recipe, known.x)
        labels = sorted(set(known.y.tolist()))
        means = torch.stack([rows[known.y == label].mean(dim=0) for label in labels])
        places = torch.searchsorted(torch.tensor(labels), known.y)
        compared = _unit_rows(net, task, recipe, torch.cat(list(others))) if others else rows
        around, whiten = compared.mean(dim=0), _whitening(rows - means[places])
        found = cls(
            net, task, recipe, whiten, means @ whiten, around, _whitening(compared - around), furthest=float("inf")
        )
        distances = found.distances(held_out).sort().values
        place = min(len(distances), ceil(KNOWN * (len(distances) + 1)))
        return cls(**{**vars(found), "furthest": float(distances[place - 1])})

    def distances(self, x: Tensor) -> Tensor:
        """How much farther each input is from the nearest class than from other rows, in squares of their scatter."""
        rows = _unit_rows(self.net, self.task, self.recipe, x)
        nearest = torch.cdist(rows @ self.whiten, self.means).min(dim=1).values.square()
        return nearest - ((rows - self.around) @ self.whiten_around).square().sum(dim=1)

    def strange(self, x: Tensor) -> Tensor:
        """Which inputs are farther than nearly all rows that are held out; also those whose features are no numbers."""
        return ~(self.distances(x) <= self.furthest)


def _unit_rows(net: Net, task: str, recipe: Recipe, x: Tensor) -> Tensor:
    return F.normalize(compute_features(net, net.scale_features(x, task), recipe).double(), dim=1)


def _whitening(deviations: Tensor) -> Tensor:
    """What brings rows that deviate from their means like this, their scatter shrunk towards a ball, to scatter 1."""
    scatter = deviations.T @ deviations / len(deviations)
    ball = float(scatter.diagonal().mean()) or 1.0  # 0 where each class has a single row
    scatter = (1 - SHRINKAGE) * scatter + SHRINKAGE * ball * torch.eye(len(scatter), dtype=scatter.dtype)
    return cast(Tensor, torch.linalg.cholesky(torch.linalg.inv(scatter)))
