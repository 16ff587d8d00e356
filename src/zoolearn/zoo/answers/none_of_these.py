"""Answers of "none of these": inputs whose class is too uncertain, or that are unlike all stored rows."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from zoolearn.beyond.familiarity import Familiarity
from zoolearn.data.task import Examples
from zoolearn.errors import SettingsError
from zoolearn.nets.net import Net
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_examples

NONE = "none of these"
ROWS = 1000  # of a task, and of all others together, that inputs are compared with
MOST_FAMILIAR = 16  # tasks kept in memory; each holds two matrices (feature, feature)

Why = Literal["not sure", "strange"]


def check_sure(sure: float) -> None:
    """Raises unless it is a probability."""
    if not 0 <= sure <= 1:
        raise SettingsError(f"sure is {sure}; it is the least chance of a class that is named, from 0 to 1")


def why_none(probabilities: Tensor, sure: float, strange: Tensor | None) -> list[Why | None]:
    """Why each input is none of the classes; None if a class is named, as always with `sure` 0.

    >>> import torch
    >>> answers = torch.tensor([[0.95, 0.05], [0.6, 0.4], [0.97, 0.03]])
    >>> why_none(answers, 0.9, torch.tensor([False, False, True]))
    [None, 'not sure', 'strange']
    """
    if not sure or strange is None:
        return [None] * len(probabilities)
    unsure = (probabilities.max(dim=1).values < sure).tolist()
    return [
        "strange" if is_strange else "not sure" if is_unsure else None
        for is_strange, is_unsure in zip(strange.tolist(), unsure, strict=True)
    ]


def load_familiarity(folder: ZooFolder, index: Index, task: str, net: Net, recipe: Recipe) -> Familiarity:
    """Fits the detection of inputs unlike the stored rows of a task, by the features of a member."""
    entry = index.task(task)
    known = load_examples(folder, entry, "train") if entry.keeps_rows else None
    others = [other for name, other in index.tasks.items() if name != task and other.keeps_rows]
    rows = (load_examples(folder, other, "train") for other in others[-ROWS:])
    return fit_familiarity(net, task, recipe, known, rows, load_examples(folder, entry, "test"))


def fit_familiarity(
    net: Net, task: str, recipe: Recipe, known: Examples | None, others: Iterable[Examples], held_out: Examples
) -> Familiarity:
    """Fits it to rows of a task and of others.

    If no rows of the task are kept, every second held-out row stands for known ones, and the rest calibrate.
    """
    if known is None:
        known, held_out = _every(held_out, 2), _every(held_out, 2, first=1)
    compared = [rows.x for rows in others]
    compared = [_some(ROWS // len(compared), x) for x in compared]
    judges = held_out.x if len(held_out) else known.x
    return Familiarity.fit(net, task, recipe, _at_most(ROWS, known), compared, _some(ROWS, judges))


def _some(most: int, x: Tensor) -> Tensor:
    """At most `most` rows, spread over all."""
    return x[torch.linspace(0, len(x) - 1, most).round().long()] if len(x) > most else x


def _at_most(most: int, rows: Examples) -> Examples:
    """About `most` rows, of every class at least one."""
    return _every(rows, -(-len(rows) // most))


def _every(rows: Examples, step: int, first: int = 0) -> Examples:
    """Every `step`-th row of each class, from `first` on."""
    order = rows.y.argsort(stable=True)
    counts = torch.bincount(rows.y)
    number = torch.arange(len(order)) - (counts.cumsum(0) - counts)[rows.y[order]]  # within its class
    return rows.select(order[number % step == first].sort().values)
