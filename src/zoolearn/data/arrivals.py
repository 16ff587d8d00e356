"""Tasks that arrive in parts: some classes first, others later, interleaved with other tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.seeds import derive, generator


def split_into_arrivals(whole: Benchmark, sizes: Sequence[int], seed: int = 0) -> Benchmark:
    """Splits every task into parts of `sizes` classes, chosen by `seed`, and interleaves the parts at random.

    Each part has the training and test rows of its own classes. The parts of a task keep their order; all interleavings
    are equally likely.

    >>> from zoolearn import benchmark
    >>> stream = split_into_arrivals(benchmark("split-digits", classes_per_task=5), (3, 1, 1))
    >>> [(task.name, task.classes) for task in stream][:3]
    [('5-9', ('7', '8', '6')), ('5-9', ('5',)), ('0-4', ('1', '0', '2'))]
    """
    sizes = tuple(sizes)
    if any(task.part for task in whole):
        raise SettingsError(f"{whole.name} comes in parts already; give arrivals of whole tasks")
    if len(sizes) < 2 or min(sizes) < 1 or sizes[0] < 2:
        given = "+".join(map(str, sizes))
        raise SettingsError(
            f"arrivals is {given}; give classes at first (2 or more) and those that come later, as 3+1+1"
        )
    parts = {task.name: _parts(task, sizes, seed) for task in whole}
    turns = [task.name for task in whole for _ in sizes]
    order = torch.randperm(len(turns), generator=generator(derive(seed, "arrivals")))
    coming = {name: iter(of_task) for name, of_task in parts.items()}
    tasks = tuple(next(coming[turns[place]]) for place in order.tolist())
    return replace(whole, tasks=tasks, options={**whole.options, "arrivals": list(sizes), "arrivals_seed": seed})


def _parts(task: Task, sizes: Sequence[int], seed: int) -> list[Task]:
    if sum(sizes) != len(task.classes):
        given = "+".join(map(str, sizes))
        raise SettingsError(
            f"arrivals is {given}, {sum(sizes)} classes, but task {task.name!r} has {len(task.classes)}; name them all"
        )
    order = torch.randperm(len(task.classes), generator=generator(derive(seed, "class arrivals", task.name)))
    return part_by_class(task, [part.tolist() for part in torch.split(order, list(sizes))])


def join_parts(tasks: Iterable[Task]) -> dict[str, Task]:
    """The tasks by name, with all of these parts joined; a task of one part is returned itself."""
    joined: dict[str, Task] = {}
    for task in tasks:
        joined[task.name] = joined[task.name].join_part(task) if task.name in joined else task
    return joined


def part_by_class(task: Task, labels: Sequence[Sequence[int]]) -> list[Task]:
    """Splits a task into parts by the labels of their classes; the first is a task of its own."""
    parts = []
    for number, chosen in enumerate(labels):
        train, test = (select_classes(examples, chosen) for examples in (task.train, task.test))
        classes = tuple(task.classes[label] for label in chosen)
        parts.append(Task(task.name, train, test, classes, task.augment, part=number > 0))
    return parts


def select_classes(examples: Examples, labels: Sequence[int]) -> Examples:
    """The examples with these labels, renumbered from 0 in their order; contiguous rows are not copied."""
    numbers = torch.full((1 + max(int(examples.y.max()), *labels),), -1)
    numbers[torch.tensor(labels)] = torch.arange(len(labels))
    rows = (numbers[examples.y] >= 0).nonzero()[:, 0]
    renumbered = numbers[examples.y[rows]]
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return Examples(examples.x[int(rows[0]) : int(rows[-1]) + 1], renumbered)
    return Examples(examples.x[rows], renumbered)
