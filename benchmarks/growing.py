"""Tasks that grow: one class, ten classes one by one, ten times the classes, a thousand; beside tasks learned at once.

Processor seconds, so that rows can be compared on a machine that others use. `at once` is a task of the same classes and
rows, learned in one episode of a zoo that knows as much else.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import torch

import zoolearn
from benchmarks.tables import Table
from zoolearn.data import datasets
from zoolearn.data.arrivals import part_by_class
from zoolearn.data.task import Examples, Task
from zoolearn.seeds import generator
from zoolearn.zoo import Zoo

COLUMNS = ["growth", "classes", "rows", "growths", "accuracy", "at once", "seconds", "of the last growth", "at once"]


@dataclass(frozen=True)
class Case:
    """A task, the classes that it comes in, and how long it is trained."""

    what: str
    task: Task
    parts: Sequence[Sequence[int]]
    epochs: int
    beside: Task | None = None  # that the zoo knows already


def measure(*, quick: bool) -> list[Table]:
    """Pictures of CIFAR-100, 100 test rows of each class; bells in 32 dimensions, 10 test rows of each class."""
    few = 20 if quick else 100
    pictures = datasets.cifar100()
    superclasses = zoolearn.benchmark("coarse-cifar100").tasks
    twelve, fifty = (_of_classes(pictures.train, pictures.test, count, few) for count in (12, 50))
    cases = [
        Case("one class of 500 rows", superclasses[1], [[0, 1, 2, 3], [4]], 1 if quick else 4, superclasses[0]),
        Case("ten growths by one class", twelve, [[0, 1], *([label] for label in range(2, 12))], 8),
        Case("five classes at once", _of_classes(pictures.train, pictures.test, 10, few), _split(5, 10), 8),
        Case("to ten times the classes", fifty, _split(5, 50), 8),
        Case("to a thousand classes", _bells(100 if quick else 1000), _split(10 if quick else 100, 100 if quick else 1000), 20),
    ]  # fmt: skip
    return [Table("tasks that grow, and the same tasks learned at once", COLUMNS, [_measured(case) for case in cases])]


def _measured(case: Case) -> list[object]:
    first, *later = part_by_class(case.task, case.parts)
    with tempfile.TemporaryDirectory() as folder:
        grown, whole = (_zoo(Path(folder, name), case.beside) for name in ("grown", "whole"))
        grown.learn(first, epochs=case.epochs)
        seconds = [_seconds(grown, part, case.epochs) for part in later]
        at_once = _seconds(whole, case.task, case.epochs)
        accuracies = [zoo.measure(case.task.name).accuracy for zoo in (grown, whole)]
    classes = f"{len(first.classes)} to {len(case.task.classes)}"
    return [case.what, classes, len(case.task.train), len(later), *accuracies, sum(seconds), seconds[-1], at_once]


def _zoo(folder: Path, beside: Task | None) -> Zoo:
    zoo = zoolearn.new(folder, tasks_per_episode=2)
    if beside is not None:
        zoo.learn(beside, epochs=1)
    return zoo


def _seconds(zoo: Zoo, task: Task, epochs: int) -> float:
    started = process_time()
    zoo.learn(task, epochs=epochs, new_classes="any" if task.part else ())
    return process_time() - started


def _split(first: int, classes: int) -> list[range]:
    return [range(first), range(first, classes)]


def _of_classes(train: Examples, test: Examples, count: int, rows: int) -> Task:
    """The first classes of a dataset, with some rows of each to train on; CIFAR-100 has pictures twice, under two labels."""
    chosen = torch.cat([(train.y == label).nonzero()[:rows, 0] for label in range(count)])
    rows_of = {picture.tobytes(): -1 for picture in train.x[chosen].numpy()}
    for row in (test.y < count).nonzero()[:, 0].tolist():
        rows_of.setdefault(test.x[row].numpy().tobytes(), row)
    held = torch.tensor([row for row in rows_of.values() if row >= 0])
    names = tuple(f"kind {label}" for label in range(count))
    return Task("pictures", train.select(chosen), test.select(held), names, ("crop", "flip"))


def _bells(classes: int) -> Task:
    """As many bells around random centres, 20 rows of each to train on, 10 to test."""
    rng = generator(0)
    centres = 0.7 * torch.randn(classes, 32, generator=rng)
    train, test = (
        Examples(centres[y] + torch.randn(len(y), 32, generator=rng), y)
        for y in (torch.arange(classes * rows) % classes for rows in (20, 10))
    )
    return Task("bells", train, test, tuple(f"kind {label}" for label in range(classes)))
