"""The estimator's Model Zoo: sample weights."""

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from zoolearn.data.task import Task
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Progress


@dataclass(frozen=True)
class WeightedRows:
    """Rows of one call: features, labels as given, and sample weights."""

    x: torch.Tensor
    y: NDArray[Any]
    weights: torch.Tensor

    def select(self, chosen: NDArray[np.bool_]) -> "WeightedRows":
        places = torch.from_numpy(chosen)
        return WeightedRows(self.x[places], self.y[chosen], self.weights[places])

    def __add__(self, other: "WeightedRows") -> "WeightedRows":
        x, weights = (torch.cat(pair) for pair in ((self.x, other.x), (self.weights, other.weights)))
        return WeightedRows(x, np.concatenate([self.y, other.y]), weights)


@dataclass(kw_only=True, eq=False)
class WeightedZoo(ModelZoo):
    """Model Zoo with sample weights in the training loss."""

    row_weights: dict[str, torch.Tensor] = saved(default_factory=dict)  # of tasks with unequal weights

    def learn_weighted(self, task: Task, weights: torch.Tensor) -> None:
        """`learn` with a weight for each row; weights of rows that are not kept are dropped."""
        if bool((weights != 1).any()):
            self.row_weights[task.name] = weights
        self.learn(task)
        if task.name in self.row_weights and task.name in self.kept:
            rows = task.subsample_rows(self.replay, derive(self.seed, "replay")) if self.replay < 1 else slice(None)
            self.row_weights[task.name] = weights[rows]

    def weights_of(self, task: Task) -> torch.Tensor:
        return self.row_weights.get(task.name, torch.ones(len(task.train)))

    def fit(
        self, net: Net, tasks: Sequence[Task], seed: int | None = None, **slots: Any
    ) -> Generator[Progress, None, float]:
        """Trains the net of a member by weighted rows."""
        if any(task.name in self.row_weights for task in tasks):
            weights = torch.cat([self.weights_of(task) / self.weights_of(task).mean() for task in tasks])
            slots["loss"] = partial(_weighted_loss, weights=weights)
        return super().fit(net, tasks, seed, **slots)

    def drop(self, tasks: Sequence[str]) -> None:
        """Removes tasks that others have replaced, with their rows and members."""
        self.members = [member for member in self.members if not {*member.votes} & {*tasks}]
        for name in tasks:
            del self.kept[name], self.classes[name]

    def without_rows(self) -> Self:
        """A copy that predicts the same, without rows or votes on them."""
        bare = copy(self)
        bare.kept, bare.train_votes, bare.test_votes, bare.row_weights = {}, {}, {}, {}
        return bare


def _weighted_loss(net: Net, batch: Batch, weights: torch.Tensor) -> torch.Tensor:
    """The weighted cross-entropy; weights have mean 1."""
    assert batch.row_index is not None
    logits, first = net.forward_mixed(batch.x, batch.tasks, batch.task_index)
    missed = F.cross_entropy(logits, batch.y + first, reduction="none")
    return (weights[batch.row_index.cpu()].to(missed.device) * missed).mean()


def float32_rows(x: NDArray[Any]) -> torch.Tensor:
    """Rows as float32; values out of range are clipped."""
    largest = float(np.finfo(np.float32).max)
    return torch.from_numpy(np.clip(x, -largest, largest).astype(np.float32))
