"""Digests of data: to resume a run only on the same data, and to average only comparable runs."""

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
    """Like `fingerprint`, but independent of orders of tasks, classes or pixels, and of training rows, that a seed decides."""
    options = benchmark.options
    if {"permutation_seed", "arrivals_seed"} & options.keys() or isinstance(options.get("class_order"), int):
        parts = [part for task in benchmark for part in _digests_of_classes(task, "permutation_seed" in options)]
    else:
        parts = [_digests(task) for task in benchmark]
    drawn = "samples_seed" in options
    return _join_digests(sorted(part for pair in parts for part in (pair[1:] if drawn else pair)))


def _digests_of_classes(task: Task, permuted: bool) -> Iterator[tuple[str, str]]:
    """Digests of each class of a task; of permuted pixels only their sum, which the order does not change."""
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
    """Digests of a task's training and test data."""
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
    """The bytes of a tensor, without a copy."""
    return tensor.contiguous().numpy().data.cast("B") if tensor.numel() else memoryview(b"")


def _join_digests(parts: Iterable[str]) -> str:
    return blake2b("".join(parts).encode(), digest_size=16).hexdigest()
