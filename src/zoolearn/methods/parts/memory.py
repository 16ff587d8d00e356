"""Episodic memory: a few stored training examples of every task."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.seeds import derive, generator
from zoolearn.training.batches import Batch

Per = Literal["task", "class"]


@dataclass(frozen=True, eq=False)
class Memory:
    """Kept examples: row i is of tasks[task_index[i]], the rows of a task lie together.

    It never changes; `keep` gives a larger one. What is kept of a task is a uniform draw from its training data, raw as
    it came: the last rows of a shuffled pass, which the published rings hold, are such a draw too.
    """

    tasks: tuple[str, ...] = ()
    x: Tensor = field(default_factory=lambda: torch.empty(0))
    y: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    task_index: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.y)

    def keep(self, task: Task, size: int, per: Per, seed: int, arrived: Sequence[int] = ()) -> "Memory":
        """This memory and up to `size` examples of the task, or of each of its classes.

        Of a task that grows, examples are drawn from the kept and the new ones, so that of all its rows each is kept
        with the same chance; `arrived` are the earlier rows of each class, kept or not.
        """
        rng = np.random.default_rng(derive(seed, "memory", task.name))
        rows, others = self.take_out(task)
        labels = rows.y.numpy() if per == "class" else np.zeros(len(rows), dtype=np.int64)
        earlier = dict(enumerate(arrived if per == "class" else [sum(arrived)]))
        drawn = []
        for label in np.unique(labels):
            group = np.flatnonzero(labels == label)
            known, new = np.split(group, [np.searchsorted(group, len(rows) - len(task.train))])
            before = max(len(known), earlier.get(label, 0))
            count = min(size, before + len(new))
            of_known = rng.hypergeometric(before, len(new), count) if before else 0
            drawn += [rng.permutation(known)[:of_known], rng.permutation(new)[: count - of_known]]
        return others.add(task.name, rows.select(torch.from_numpy(np.sort(np.concatenate(drawn)))))

    def take_out(self, task: Task) -> "tuple[Examples, Memory]":
        """What is kept of a task followed by its new examples, and the memory of all other tasks."""
        if task.name not in self.tasks:
            return task.train, self
        place = self.tasks.index(task.name)
        own, names = self.task_index == place, tuple(name for name in self.tasks if name != task.name)
        index = self.task_index - (self.task_index > place).long()
        rows = Examples(torch.cat([self.x[own], task.train.x]), torch.cat([self.y[own], task.train.y]))
        return rows, Memory(names, self.x[~own], self.y[~own], index[~own])

    def add(self, task: str, chosen: Examples) -> "Memory":
        """This memory and these examples of a new task."""
        rows = torch.full_like(chosen.y, len(self.tasks))
        x = torch.cat([self.x, chosen.x]) if self.tasks else chosen.x
        return Memory((*self.tasks, task), x, torch.cat([self.y, chosen.y]), torch.cat([self.task_index, rows]))

    def draw(self, count: int, seed: int) -> Batch:
        """Up to `count` different examples, each equally likely."""
        if count >= len(self):
            return Batch(self.x, self.y, self.task_index, self.tasks)
        places = torch.randperm(len(self), generator=generator(seed))[:count].to(self.y.device)
        return Batch(self.x[places], self.y[places], self.task_index[places], self.tasks)

    def by_task(self) -> list[Batch]:
        """All that is kept, one batch per task that has any."""
        counts = torch.bincount(self.task_index, minlength=len(self.tasks)).tolist()
        parts = zip(self.tasks, *(torch.split(part, counts) for part in (self.x, self.y, self.task_index)), strict=True)
        return [Batch(x, y, torch.zeros_like(rows), (name,)) for name, x, y, rows in parts if len(y)]

    def with_one_head(self) -> "Memory":
        """The same examples as if all were of the first task, for nets that answer every task through one head."""
        return Memory(self.tasks[:1], self.x, self.y, torch.zeros_like(self.task_index))

    def to(self, device: torch.device) -> "Memory":
        return Memory(self.tasks, self.x.to(device), self.y.to(device), self.task_index.to(device))
