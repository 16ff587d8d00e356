"""Tasks in the order they are met."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
import torch

from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.seeds import derive


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A name and tasks, in the order they are met; sliceable, so that `benchmark[:5]` is its first five tasks."""

    name: str
    tasks: tuple[Task, ...]
    options: Mapping[str, Any] = field(default_factory=dict)  # how it was made and cut down, for the record
    source: Mapping[str, str] = field(default_factory=dict)  # a digest of the function that made it, if it is not ours
    # by task, the test rows that have a near-duplicate among training rows; empty if unknown
    near_duplicates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.tasks:
            raise DataError(f"benchmark {self.name!r} has no tasks")
        first = self.tasks[0]
        for task in self.tasks[1:]:
            if task.shape != first.shape or task.train.x.dtype != first.train.x.dtype:
                raise DataError(
                    f"benchmark {self.name!r}: task {task.name!r} has {task.train!r}, task {first.name!r} has "
                    f"{first.train!r}; tasks of one benchmark share one input shape"
                )
        met: set[str] = set()
        for task in self.tasks:
            if task.name in met and not task.part:
                raise DataError(
                    f"benchmark {self.name!r} has two tasks named {task.name!r}; give each its own name, or say that the "
                    "later one is a part"
                )
            if task.name not in met and task.part:
                raise DataError(f"benchmark {self.name!r} begins task {task.name!r} with a part; give the task first")
            met.add(task.name)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> "Benchmark": ...
    def __getitem__(self, place: int | slice) -> "Task | Benchmark":
        if not isinstance(place, slice):
            return self.tasks[place]
        if "arrivals" in self.options:
            raise DataError(f"{self.name} comes in parts, and no record could tell which are left; cut its tasks first")
        first = self.options.get("after_tasks", 0)
        places = [*(self.options.get("only") or range(first, first + len(self)))]
        chosen = places[place]
        cut: dict[str, Any] = {"only": chosen}
        if chosen == [*range(len(chosen))]:
            cut = {"first_tasks": len(chosen), "only": None}
        elif "only" not in self.options and chosen == places[-len(chosen) :]:
            cut = {"first_tasks": self.options.get("first_tasks"), "after_tasks": chosen[0]}
        made = {name: value for name, value in self.options.items() if name not in ("first_tasks", "after_tasks")}
        options = {name: value for name, value in {**made, **cut}.items() if value is not None}
        return replace(self, tasks=self.tasks[place], options=options)

    def per_class(self, count: int, seed: int = 0) -> "Benchmark":
        """Every task with `count` random training examples of each class."""
        options = {**self.options, "samples_per_class": count, "samples_seed": seed}
        return replace(self, tasks=tuple(sample_per_class(task, count, seed) for task in self.tasks), options=options)

    def validation_split(self, percent: int) -> "Benchmark":
        """Every task with a percentage of its training data in place of its test data."""
        tasks = tuple(validation_split(task, percent) for task in self.tasks)
        return replace(self, tasks=tasks, options={**self.options, "validation": percent}, near_duplicates={})

    def shuffle(self, seed: int) -> "Benchmark":
        """The same tasks in a random order."""
        order = np.random.default_rng(derive(seed, "task order")).permutation(len(self.tasks))
        tasks = tuple(self.tasks[place] for place in order)
        return replace(self, tasks=tasks, options={**self.options, "task_order": seed})


def sample_per_class(task: Task, count: int, seed: int) -> Task:
    """A task with `count` random training examples of each class."""
    if count < 1:
        raise DataError(f"{count} samples per class; give at least 1")
    counts = torch.bincount(task.train.y, minlength=len(task.classes))
    if int(counts.min()) < count:
        short = int(counts.argmin())
        raise DataError(
            f"task {task.name!r} has only {int(counts[short])} examples of class {task.classes[short]!r}, "
            f"{count} per class were asked for"
        )
    return replace(task, train=task.train.select(task.draw_rows([count] * len(task.classes), seed)))


def validation_split(task: Task, percent: int, seed: int = 0) -> Task:
    """A task tested on this percentage of its training data, of each class, in place of its test data.

    For choosing settings: the test data stays unseen.
    """
    if not 1 <= percent <= 99:
        raise DataError(f"{percent} percent for validation; give 1 to 99")
    counts = torch.bincount(task.train.y, minlength=len(task.classes))
    if int(counts.min()) < 2:
        rare = task.classes[int(counts.argmin())]
        raise DataError(f"task {task.name!r} has one training example of class {rare!r}; to set some aside takes two")
    kept = [min(count - 1, max(1, count - round(percent * count / 100))) for count in counts.tolist()]
    rows = task.draw_rows(kept, seed)
    rest = torch.ones(len(task.train), dtype=torch.bool)
    rest[rows] = False
    return replace(task, train=task.train.select(rows), test=task.train.select(rest.nonzero()[:, 0]))
