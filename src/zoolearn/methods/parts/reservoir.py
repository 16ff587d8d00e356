"""A memory that is, at every moment, a uniform sample of all rows ever offered to it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoolearn.nets.backbones import Shape
from zoolearn.seeds import derive


@dataclass(eq=False)
class Reservoir:
    """At most `size` rows, each of all rows offered so far with the same chance (Vitter, 1985, algorithm R).

    The draws depend on how many rows and draws came before and on the seed given, on nothing else: a memory whose
    tensors are saved and taken up goes on as if nothing had happened.

    >>> memory = Reservoir.empty(2, (3,), torch.float32)
    >>> memory.offer(torch.eye(3), torch.arange(3), task=0, seed=0)
    >>> memory.seen, memory.filled
    (3, 2)
    """

    x: Tensor
    y: Tensor
    task: Tensor  # of each row, the number under which it was offered
    counts: Tensor  # rows offered, draws made; on the CPU

    def __post_init__(self) -> None:
        self._counts = self.counts.numpy()  # the same memory, read without a tensor's overhead

    @classmethod
    def empty(cls, size: int, shape: Shape, dtype: torch.dtype, device: torch.device | None = None) -> "Reservoir":
        """A memory with room for `size` rows."""
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        x = torch.zeros((size, *shape), dtype=dtype, device=device)
        return cls(x, labels, labels.clone(), torch.zeros(2, dtype=torch.int64))

    def copy(self) -> "Reservoir":
        """A memory with the same rows that goes its own way."""
        return Reservoir(**{name: tensor.clone() for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """All of the memory; these very tensors change as it goes on."""
        return {"x": self.x, "y": self.y, "task": self.task, "counts": self.counts}

    def to(self, device: torch.device) -> "Reservoir":
        """This memory with its rows on a device."""
        return Reservoir(self.x.to(device), self.y.to(device), self.task.to(device), self.counts)

    @property
    def size(self) -> int:
        """How many rows it has room for."""
        return len(self.y)

    @property
    def seen(self) -> int:
        """How many rows were offered so far."""
        return int(self._counts[0])

    @property
    def filled(self) -> int:
        """How many rows it holds."""
        return min(self.seen, self.size)

    def offer(self, x: Tensor, y: Tensor, task: int, seed: int) -> None:
        """Lets each row in turn take a slot: row number n (from 0) the n-th, or when all are taken slot j of 0..n, if there is one."""
        seen = self.seen
        self._counts[0] += len(y)
        if not self.size:
            return
        numbers = np.arange(seen, seen + len(y))
        drawn = np.random.default_rng(derive(seed, "offer", seen)).integers(0, numbers + 1)
        slots = np.where(numbers < self.size, numbers, drawn)
        inside = np.flatnonzero(slots < self.size)
        taken = dict(zip(slots[inside].tolist(), inside.tolist(), strict=True))  # a later row overwrites an earlier one
        if taken:
            places = torch.tensor(list(taken), device=self.y.device)
            rows = torch.tensor(list(taken.values()), device=self.y.device)
            self.x.index_copy_(0, places, x.index_select(0, rows))
            self.y.index_copy_(0, places, y.index_select(0, rows))
            self.task.index_fill_(0, places, task)

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """`count` different rows at random (all of them, if there are fewer): inputs, labels and task numbers."""
        rng = np.random.default_rng(derive(seed, "draw", int(self._counts[1])))
        self._counts[1] += 1
        slots = rng.choice(self.filled, min(count, self.filled), replace=False)
        places = torch.from_numpy(slots).to(self.y.device)
        return self.x.index_select(0, places), self.y.index_select(0, places), self.task.index_select(0, places)
