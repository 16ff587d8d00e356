"""Tiny tasks that a small net learns in a moment: for checks, tests and examples."""

from typing import Any

import numpy as np

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.seeds import derive


def pictures(
    name: str = "stripes",
    classes: int = 2,
    per_class: int = 12,
    *,
    test_per_class: int = 10,
    shape: tuple[int, int, int] = (1, 8, 8),
    augment: tuple[str, ...] = (),
    contrast: int = 180,
    seed: int = 0,
) -> Task:
    """Noisy uint8 images of one random pattern per class; no image occurs twice, in training or test.

    With the default contrast every image can be classified, with one of 20 or less many cannot.
    """
    rng = np.random.default_rng(derive(seed, "pictures", name))
    patterns = contrast * rng.integers(0, 2, (classes, *shape))

    def split(count: int) -> Examples:
        y = np.tile(np.arange(classes), count)
        return Examples.of((patterns[y] + rng.integers(0, 76, (len(y), *shape))).astype(np.uint8), y)

    names = tuple(f"{name} {number}" for number in range(classes))
    return Task(name, split(per_class), split(test_per_class), names, augment)


def blobs(name: str = "blobs", classes: int = 2, per_class: int = 12, features: int = 6, seed: int = 0) -> Task:
    """Float features around one random centre per class."""
    rng = np.random.default_rng(derive(seed, "blobs", name))
    centres = rng.normal(0, 3, (classes, features))

    def split(count: int) -> Examples:
        y = np.tile(np.arange(classes), count)
        return Examples.of(centres[y] + rng.normal(0, 0.5, (len(y), features)), y)

    return Task(name, split(per_class), split(8))


def toy_benchmark(tasks: int = 3, **options: Any) -> Benchmark:
    """Picture tasks of two and three classes in turn."""
    names = ("stripes", "dots", "rings", "waves", "grids", "stars")[:tasks]
    return Benchmark("toys", tuple(pictures(name, 2 + place % 2, **options) for place, name in enumerate(names)))
