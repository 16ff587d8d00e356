"""Detects inputs that are unlike the stored rows of a task: the relative Mahalanobis distance (Ren et al., 2021).

The distance to the nearest class alone says little: unusual rows of a class are far too. It is compared with the
distance to rows of other tasks, or of all classes together if there is no other task. The threshold is set by held-out
rows, one in twenty of which is above it.
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

SHRINKAGE = 0.3  # of the covariance towards the identity
KNOWN = 0.95  # share of held-out rows below the threshold


@dataclass(frozen=True, eq=False)
class Familiarity:
    """Detects strange inputs by a net's features for one task."""

    net: Net
    task: str
    recipe: Recipe
    whiten: Tensor  # of the covariance within classes
    means: Tensor  # of the classes, whitened
    around: Tensor  # the mean of the rows that are compared with
    whiten_around: Tensor
    furthest: float

    @classmethod
    def fit(
        cls, net: Net, task: str, recipe: Recipe, known: Examples, others: Sequence[Tensor], held_out: Tensor
    ) -> "Familiarity":
        """Fits it to rows of the task, of other tasks (if any), and held-out rows of the task."""
        rows = _unit_rows(net, task, recipe, known.x)
        labels = sorted(set(known.y.tolist()))
        means = torch.stack([rows[known.y == label].mean(dim=0) for label in labels])
        places = torch.searchsorted(torch.tensor(labels), known.y)
        compared = _unit_rows(net, task, recipe, torch.cat(list(others))) if others else rows
        around, whiten = compared.mean(dim=0), _fit_whitening(rows - means[places])
        found = cls(
            net, task, recipe, whiten, means @ whiten, around, _fit_whitening(compared - around), furthest=float("inf")
        )
        distances = found.distances(held_out).sort().values
        place = min(len(distances), ceil(KNOWN * (len(distances) + 1)))
        return cls(**{**vars(found), "furthest": float(distances[place - 1])})

    def distances(self, x: Tensor) -> Tensor:
        """The squared distance of each input to the nearest class, less that to the other rows."""
        rows = _unit_rows(self.net, self.task, self.recipe, x)
        nearest = torch.cdist(rows @ self.whiten, self.means).min(dim=1).values.square()
        return nearest - ((rows - self.around) @ self.whiten_around).square().sum(dim=1)

    def strange(self, x: Tensor) -> Tensor:
        """Which inputs are farther than nearly all held-out rows, or have features that are not finite."""
        return ~(self.distances(x) <= self.furthest)


def _unit_rows(net: Net, task: str, recipe: Recipe, x: Tensor) -> Tensor:
    return F.normalize(compute_features(net, net.scale_features(x, task), recipe).double(), dim=1)


def _fit_whitening(deviations: Tensor) -> Tensor:
    """The whitening of deviations from means, with their covariance shrunk towards the identity."""
    scatter = deviations.T @ deviations / len(deviations)
    ball = float(scatter.diagonal().mean()) or 1.0  # 0 where each class has a single row
    scatter = (1 - SHRINKAGE) * scatter + SHRINKAGE * ball * torch.eye(len(scatter), dtype=scatter.dtype)
    return cast(Tensor, torch.linalg.cholesky(torch.linalg.inv(scatter)))
