"""Made-up tasks of given shapes: speed does not depend on what is in the pictures."""

import torch

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task


def task(
    name: str, shape: tuple[int, ...], train: int, test: int, classes: int = 5, augment: tuple[str, ...] = ()
) -> Task:
    """Random pixels, labels in turn."""
    rng = torch.Generator().manual_seed(sum(map(ord, name)))
    parts = []
    for count in (train, test):
        x = torch.randint(0, 256, (count, *shape), generator=rng, dtype=torch.uint8)
        parts.append(Examples(x, torch.arange(count) % classes))
    return Task(name, parts[0], parts[1], augment=augment)


def stream(tasks: int, shape: tuple[int, ...], train: int, test: int, classes: int = 5) -> Benchmark:
    """So many such tasks."""
    return Benchmark("made-up", tuple(task(f"task-{n:03d}", shape, train, test, classes) for n in range(tasks)))
