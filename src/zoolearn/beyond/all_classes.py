"""Class-incremental answers: one discriminant over the classes of all tasks, from statistics of the rows that a zoo stores.

Heads of single tasks side by side do not compare: none of them was fitted to rows of another task. Here classes of all
tasks are Gaussian in the features of the newest member (of each chain, joined), with one shared covariance.
"""

from itertools import islice

import torch
from torch import Tensor

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.growth import Statistics
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features


class AllClasses:
    """Scores every class of every task for inputs whose task is not given.

    >>> from zoolearn import Recipe, benchmark, mlp
    >>> zoo, tasks = ModelZoo(backbone=mlp, recipe=Recipe(epochs=2)), benchmark("split-digits")[:2]
    >>> for task in tasks:
    ...     zoo.learn(task)
    >>> scores = AllClasses(zoo)
    >>> scores.places
    {'0-1': (0, 2), '2-3': (2, 4)}
    >>> scores.logits(tasks[1].test.x).shape[1]
    4
    """

    def __init__(self, zoo: ModelZoo) -> None:
        if not can_score(zoo):
            raise DataError(
                "classes of all tasks are compared by stored pictures, or features that are not standardised; keep some of every task (replay)"
            )
        self.recipe, self.nets = zoo.recipe, newest_nets(zoo)
        self.places: dict[str, tuple[int, int]] = {}  # of the classes of a task among all
        statistics = None
        for task in zoo.kept.values():
            of_task = self._statistics(task)
            statistics = of_task if statistics is None else statistics.merge(of_task)
        assert statistics is not None
        self.weight, self.bias = statistics.discriminant()

    def _statistics(self, task: Task) -> Statistics:
        first = max((end for _, end in self.places.values()), default=0)
        self.places[task.name] = first, first + len(task.classes)
        return Statistics.of(self._features(task.train.x), task.train.y + first, first + len(task.classes))

    def _features(self, x: Tensor) -> Tensor:
        return torch.cat([compute_features(net, x, self.recipe) for net in self.nets], dim=1)

    def logits(self, x: Tensor) -> Tensor:
        """The logits of raw inputs for the classes of all tasks, in `places`."""
        return self._features(x).double() @ self.weight.T + self.bias


def can_score(zoo: ModelZoo) -> bool:
    """Whether rows of every task are stored, and features of a row are the same whatever its task."""
    return bool(zoo.classes) and {*zoo.kept} == {*zoo.classes} and not zoo.members[-1].net.standardize


def newest_nets(zoo: ModelZoo) -> list[Net]:
    """The net that was trained last, or the last one of each chain, newest first."""
    chains = zoo.grow.chains if isinstance(zoo.grow, WarmStart) else 1
    return [member.net for member in islice((each for each in reversed(zoo.members) if each.trained), chains)]
