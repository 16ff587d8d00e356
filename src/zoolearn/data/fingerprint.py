"""Digests of data: by them a run knows whether it goes on with the same, and a report what may be averaged."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task

_known: WeakKeyDictionary[Task, tuple[str, str]] = WeakKeyDictionary()


def fingerprint(benchmark: Benchmark) -> str:
    """Changes when a task's name, classes, sizes, labels or any pixel does (in order)."""
    return _join_digests(part for task in benchmark for part in _digests(task))


def fingerprint_of_data(benchmark: Benchmark) -> str:
    """The same for other orders of tasks, of classes or of pixels, and for other training rows, where a seed decides them."""
    options = benchmark.options
    if {"permutation_seed", "arrivals_seed"} & options.keys() or isinstance(options.get("class_order"), int):
        parts = [part for task in benchmark for part in _digests_of_classes(task, "permutation_seed" in options)]
    else:
        parts = [_digests(task) for task in benchmark]
    drawn = "samples_seed" in options
    return _join_digests(sorted(part for pair in parts for part in (pair[1:] if drawn else pair)))


def _digests_of_classes(task: Task, permuted: bool) -> Iterator[tuple[str, str]]:
    """Of each class of a task, wherever it stands; of permuted pixels what their order does not change: their sum."""
    for label, name in enumerate(task.classes):
        pair = []
        for examples in (task.train, task.test):
            x = examples.x[examples.y == label]
            rows = x.flatten(1).sum(1, dtype=torch.float64) if permuted else x
            shape = (name, task.augment, tuple(x.shape), str(x.dtype))
            digest = blake2b(repr(shape).encode(), digest_size=16)
            digest.update(_bytes(rows))
            pair.append(digest.hexdigest())
        yield pair[0], pair[1]


def _digests(task: Task) -> tuple[str, str]:
    """Of a task's training and of its test data."""
    if task not in _known:
        _known[task] = (_digest(task, task.train), _digest(task, task.test))
    return _known[task]


def _digest(task: Task, examples: Examples) -> str:
    shape = (tuple(examples.x.shape), str(examples.x.dtype))
    digest = blake2b(repr((task.name, task.classes, task.augment, shape)).encode(), digest_size=16)
    for tensor in (examples.x, examples.y):
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """Without a copy; of no rows, which a part may have to test on, there are none."""
    return tensor.contiguous().numpy().data.cast("B") if tensor.numel() else memoryview(b"")


def _join_digests(parts: Iterable[str]) -> str:
    return blake2b("".join(parts).encode(), digest_size=16).hexdigest()
