"""Classes of few rows beside classes of many: what `balance` makes of accuracy, and of the accuracy of rare classes.

Superclasses of CIFAR-100, the 11th to the 16th; the strength of the default was chosen on the first four. Half of them have
one rare class, half a long tail. Members are trained once, and their heads set right as `balance` does it.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from statistics import fmean, stdev

import torch

import zoolearn
from benchmarks.tables import Table
from zoolearn.data.task import Task
from zoolearn.methods.parts.growth import correct_class_priors
from zoolearn.seeds import generator
from zoolearn.zoo.learning.scores import Scores

KINDS = {"one rare class": (500, 500, 500, 500, 15), "a long tail": (500, 210, 90, 40, 15)}
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


def measure(*, quick: bool) -> list[Table]:
    """Three seeds, which also deal which class is rare; 100 test rows of each class judge."""
    superclasses = zoolearn.benchmark("coarse-cifar100").tasks[10 : 12 if quick else 16]
    found: dict[tuple[str, float], list[list[float]]] = {}
    for seed in range(1 if quick else 3):
        kinds = [*KINDS] * len(superclasses)
        tasks = {
            task.name: (kind, _thinned(task, KINDS[kind], seed + place))
            for place, (kind, task) in enumerate(zip(kinds, superclasses, strict=False))
        }
        zoo = zoolearn.ModelZoo(recipe=zoolearn.Recipe(epochs=1 if quick else 8), tasks_per_episode=2, seed=seed)
        for _, task in tasks.values():
            zoo.learn(task)
        for strength in STRENGTHS:
            balanced = _balanced(zoo, [task for _, task in tasks.values()], strength)
            for kind, task in tasks.values():
                found.setdefault((kind, strength), []).append(_judged(balanced, task))
    return [_table(found, per_seed=len(superclasses) // 2)]


def _thinned(task: Task, sizes: Sequence[int], seed: int) -> Task:
    """Some rows of each class; the seed turns which class has how many."""
    rng, rows = generator(seed), []
    for label in range(len(task.classes)):
        own = (task.train.y == label).nonzero()[:, 0]
        rows.append(own[torch.randperm(len(own), generator=rng)][: sizes[(label + seed) % len(sizes)]])
    return replace(task, train=task.train.select(torch.cat(rows)))


def _balanced(zoo: zoolearn.ModelZoo, tasks: Sequence[Task], strength: float) -> zoolearn.ModelZoo:
    """The zoo as it would be with this `balance`."""
    made = deepcopy(zoo)
    made.test_votes.clear()
    for member in made.members:
        for task in tasks:
            if task.name in member.votes:
                correct_class_priors(member.net, task, made.arrived[task.name].rows, strength)
    return made


def _judged(zoo: zoolearn.ModelZoo, task: Task) -> list[float]:
    """Accuracy as frequent as classes are in training, balanced accuracy, and recall of the rarest class, in percent."""
    counts = torch.bincount(task.train.y).double()
    scores = Scores.of(zoo.predict_proba(task.test.x, task.name), task.test.y, task.classes)
    recalls = torch.tensor([scores.of_class(name).value for name in task.classes]).double()
    of_training = float((recalls * counts / counts.sum()).sum())
    return [100 * of_training, 100 * float(recalls.mean()), 100 * float(recalls[counts.argmin()])]


def _table(found: dict[tuple[str, float], list[list[float]]], per_seed: int) -> Table:
    table = Table(
        "classes of few rows: percent, mean over tasks and seeds ± standard error over seeds",
        ["tasks", "balance", "accuracy at training frequencies", "balanced accuracy", "recall of the rarest class"],
    )
    for (kind, strength), judged in found.items():
        seeds = [judged[first : first + per_seed] for first in range(0, len(judged), per_seed)]
        cells = []
        for place in range(3):
            means = [fmean(row[place] for row in rows) for rows in seeds]
            error = f" ± {stdev(means) / len(means) ** 0.5:.1f}" if len(means) > 1 else ""
            cells.append(f"{fmean(means):.1f}{error}")
        table.rows.append([kind, strength, *cells])
    return table
