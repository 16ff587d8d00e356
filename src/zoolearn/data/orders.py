"""Other orders of the tasks of a benchmark, and of the classes that its tasks are made of."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError
from zoolearn.seeds import derive, generator

Order = int | Sequence[str] | None  # a seed that shuffles, the names of all, or as they are listed


def reorder_tasks(whole: Benchmark, order: Order) -> Benchmark:
    """The tasks of a benchmark in another order."""
    if order is None:
        return whole
    if isinstance(order, int):
        return whole.shuffle(order)
    known = [task.name for task in whole]
    _check("task", "tasks", whole.name, known, order)
    tasks = tuple(whole[known.index(name)] for name in order)
    return replace(whole, tasks=tasks, options={**whole.options, "task_order": list(order)})


def order_labels(name: str, classes: Sequence[str], order: Order) -> list[int]:
    """The labels of a benchmark's classes in another order."""
    if order is None:
        return list(range(len(classes)))
    if isinstance(order, int):
        return torch.randperm(len(classes), generator=generator(derive(order, "class order"))).tolist()
    _check("class", "classes", name, classes, order)
    return [list(classes).index(each) for each in order]


def _check(kind: str, kinds: str, benchmark: str, known: Sequence[str], order: Sequence[str]) -> None:
    """Every one must be named once."""
    out = f"name each of its {len(known)} {kinds} once"
    for every, given, what in ((known, order, "leaves out"), (order, known, f"has the unknown {kind}")):
        missing = [each for each in every if each not in given]
        if missing:
            raise SettingsError(f"{kind}_order of {benchmark} {what} {missing[0]!r}; {out}")
    twice = next((each for each in order if list(order).count(each) > 1), None)
    if twice is not None:
        raise SettingsError(f"{kind}_order of {benchmark} has {twice!r} twice; {out}")
