"""Answers for inputs whose task nobody has told."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zoolearn.beyond.task_inference import WhichTask
from zoolearn.errors import DataError, SettingsError
from zoolearn.zoo.index import Index


@dataclass(frozen=True)
class Recognised:
    """What a zoo makes of an input: its task and class, both None where it is not sure of the task."""

    task: str | None
    label: str | None
    probability: float  # of the class, if the task is the right one
    chances: dict[str, float]  # of the tasks
    strange: bool = False  # it is like nothing that is stored of any task

    @property
    def chance(self) -> float:
        """Of the likeliest task."""
        return max(self.chances.values())


def check_unrecognisable(index: Index, sure: float = 0.0) -> None:
    """Refuses what cannot be recognised, or not so surely, before any input is read."""
    if not 0 <= sure <= 1:
        raise SettingsError(f"sure is {sure}; it is the least chance of a task that is named, from 0 to 1")
    if not index.tasks:
        raise DataError("the zoo knows no task yet; teach it one first")
    bare = [name for name, entry in index.tasks.items() if entry.train is None]
    if bare:
        raise DataError(
            f"no rows of task {bare[0]!r} are stored, and tasks are told apart by stored rows; name the task of the "
            "inputs (`zoo predict`), or keep some rows (`zoo new --replay`)"
        )


def recognised(
    which: WhichTask, x: Tensor, sure: float, ask: Callable[[Tensor, str], tuple[Tensor, tuple[str, ...]]]
) -> list[Recognised]:
    """The task of every input, then its class by `ask(inputs, task)`, which gives probabilities and names of classes."""
    look = which.look(x, sure)
    likeliest = look.chances.argmax(dim=1)
    found = [
        Recognised(None, None, 0.0, dict(zip(which.tasks, row, strict=True)), strange)
        for row, strange in zip(look.chances.tolist(), look.strange.tolist(), strict=True)
    ]
    for place in sorted(set(likeliest[look.certain].tolist())):
        rows = ((likeliest == place) & look.certain).nonzero()[:, 0]
        task = which.tasks[place]
        answers, classes = ask(x[rows], task)
        best, labels = torch.max(answers, dim=1)
        for row, probability, label in zip(rows.tolist(), best.tolist(), labels.tolist(), strict=True):
            found[row] = replace(found[row], task=task, label=classes[label], probability=probability)
    return found
