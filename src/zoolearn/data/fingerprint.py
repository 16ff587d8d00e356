"""Digests of data: by them a run knows whether it goes on with the same, and a report what may be averaged."""

from collections.abc import Iterable
from hashlib import blake2b
from weakref import WeakKeyDictionary

from zoolearn.data.task import Benchmark, Examples, Task

_known: WeakKeyDictionary[Task, tuple[str, str]] = WeakKeyDictionary()


def fingerprint(benchmark: Benchmark) -> str:
    """Changes when a task's name, classes, sizes, labels or any pixel does (in order)."""
    return _joined(part for task in benchmark for part in _digests(task))


def fingerprint_of_data(benchmark: Benchmark) -> str:
    """The same for other orders of the tasks, and for other training rows where a seed drew them."""
    drawn = "samples_seed" in benchmark.options
    return _joined(sorted(part for task in benchmark for part in (_digests(task)[1:] if drawn else _digests(task))))


def _digests(task: Task) -> tuple[str, str]:
    """Of a task's training and of its test data."""
    if task not in _known:
        _known[task] = (_digest(task, task.train), _digest(task, task.test))
    return _known[task]


def _digest(task: Task, examples: Examples) -> str:
    shape = (tuple(examples.x.shape), str(examples.x.dtype))
    digest = blake2b(repr((task.name, task.classes, task.augment, shape)).encode(), digest_size=16)
    for tensor in (examples.x, examples.y):
        digest.update(tensor.contiguous().numpy().data.cast("B"))
    return digest.hexdigest()


def _joined(parts: Iterable[str]) -> str:
    return blake2b("".join(parts).encode(), digest_size=16).hexdigest()
