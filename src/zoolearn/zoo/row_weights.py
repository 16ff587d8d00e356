"""Model Zoo whose rows may count more or less, as the estimator's callers ask for."""

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from zoolearn.data.task import Examples, Task
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Progress


@dataclass(frozen=True)
class Rows:
    """Rows of one call: features, labels as they were given, and how much each counts."""

    x: torch.Tensor
    y: NDArray[Any]
    weights: torch.Tensor

    def select(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Some of them."""
        places = torch.from_numpy(chosen)
        return Rows(self.x[places], self.y[chosen], self.weights[places])

    def __add__(self, other: "Rows") -> "Rows":
        x, weights = (torch.cat(pair) for pair in ((self.x, other.x), (self.weights, other.weights)))
        return Rows(x, np.concatenate([self.y, other.y]), weights)


@dataclass(kw_only=True, eq=False)
class WeightedZoo(ModelZoo):
    """Model Zoo whose rows may count more or less in the loss of a training."""

    row_weights: dict[str, torch.Tensor] = saved(default_factory=dict)  # of tasks whose rows are not alike

    def learn_weighted(self, task: Task, weights: torch.Tensor) -> None:
        """`learn`, with a weight for each row; those of rows that are not kept are forgotten."""
        if bool((weights != 1).any()):
            self.row_weights[task.name] = weights
        self.learn(task)
        if task.name in self.row_weights and task.name in self.kept:
            places = Examples(torch.arange(len(weights), dtype=torch.float32)[:, None], task.train.y)
            kept = replace(task, train=places, test=places).subsample(self.replay, derive(self.seed, "replay"))
            self.row_weights[task.name] = weights[kept.train.x[:, 0].long()]

    def weights_of(self, task: Task) -> torch.Tensor:
        """How much each row of a task counts."""
        return self.row_weights.get(task.name, torch.ones(len(task.train)))

    def fit(
        self, net: Net, tasks: Sequence[Task], seed: int | None = None, **slots: Any
    ) -> Generator[Progress, None, float]:
        """Trains the net of a member by rows as they count; members are the paper's, which have no loss of their own."""
        if any(task.name in self.row_weights for task in tasks):
            weights = torch.cat([self.weights_of(task) / self.weights_of(task).mean() for task in tasks])
            slots["loss"] = partial(_weighted, weights=weights)
        return super().fit(net, tasks, seed, **slots)

    def drop(self, tasks: Sequence[str]) -> None:
        """Forgets tasks that others have taken the place of, rows and members."""
        self.members = [member for member in self.members if not {*member.votes} & {*tasks}]
        for name in tasks:
            del self.kept[name], self.classes[name]

    def without_rows(self) -> Self:
        """A copy that answers as this one does, without any row or what is known of single rows."""
        bare = copy(self)
        bare.kept, bare.train_votes, bare.test_votes, bare.row_weights = {}, {}, {}, {}
        return bare


def _weighted(net: Net, batch: Batch, weights: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of rows that count by their weights, whose mean is 1."""
    assert batch.row_index is not None
    logits, first = net.forward_mixed(batch.x, batch.tasks, batch.task_index)
    missed = F.cross_entropy(logits, batch.y + first, reduction="none")
    return (weights[batch.row_index.cpu()].to(missed.device) * missed).mean()


def float32_rows(x: NDArray[Any]) -> torch.Tensor:
    """Rows as nets take them; what does not fit in 32 bits is brought to their limits."""
    largest = float(np.finfo(np.float32).max)
    return torch.from_numpy(np.clip(x, -largest, largest).astype(np.float32))
