"""Answers for inputs whose task is not given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from zoolearn.beyond.task_inference import MOST_EVIDENCE, TaskInference, evenly
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import Json
from zoolearn.zoo.disk.index import Index

SURE = 0.5  # chance of a task from which on it is named, by default
LEAST_QUALITY = 0.3
ROWS_JUDGED = 200  # of each task
JUDGED_AT_ONCE = 1_000


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

    def to_json(self) -> dict[str, Json]:
        return {
            "task": self.task,
            "class": self.label,
            "probability": self.probability if self.task is not None else None,
            "strange": self.strange,
            "chances": self.chances,
        }


def check_unrecognisable(index: Index, sure: float = 0.0) -> None:
    """Refuses what cannot be recognised, or not so surely, before any input is read."""
    if not 0 <= sure <= 1:
        raise SettingsError(f"sure is {sure}; it is the least chance of a task that is named, from 0 to 1")
    if not index.tasks:
        raise DataError("the zoo knows no task yet; teach it one first")
    bare = [name for name, entry in index.tasks.items() if not entry.keeps_rows]
    if bare:
        raise DataError(
            f"no rows of task {bare[0]!r} are stored, and tasks are told apart by stored rows; name the task of the "
            "inputs (`zoo predict`), or keep some rows (`zoo new --replay`)"
        )


@dataclass(frozen=True)
class Quality:
    """Of held-out rows, the share whose task is named rightly, and the share that would be named if it were not known.

    The latter is what rows of nothing known may expect; of one task alone it cannot be told, and is taken for 0.
    """

    right: float
    strangers: float

    def check(self) -> None:
        """Refuses a zoo that names tasks hardly more often where it knows them than where it does not."""
        if self.right - self.strangers < LEAST_QUALITY:
            raise DataError(
                f"this zoo cannot tell its tasks apart well enough: it names the right task of {self.right:.0%} of its "
                f"held-out rows, and would name one for {self.strangers:.0%} of rows of a task that it does not know (at "
                f"least {100 * LEAST_QUALITY:.0f} points more are needed); name the task (`zoo predict`), or take the "
                "likeliest, however unlikely (`--sure 0`)"
            )


@dataclass(frozen=True, eq=False)
class Fitted:
    """What tells the tasks of a zoo apart, how well, and the generation that it is of."""

    generation: int
    which: TaskInference
    quality: Quality


def quality(which: TaskInference, held: Mapping[str, Tensor]) -> Quality:
    """How far a zoo can be asked about inputs of unknown tasks, by rows held out of each."""
    counts = [min(ROWS_JUDGED, len(held[name])) for name in which.tasks]
    rows = [(place, row) for place, count in enumerate(counts) for row in range(count)]
    judged = [rows[one] for one in evenly(len(rows), MOST_EVIDENCE // len(which.tasks)).tolist()]
    right: dict[int, list[float]] = {}  # by task
    strangers: dict[int, list[float]] = {}
    for some in (judged[start : start + JUDGED_AT_ONCE] for start in range(0, len(judged), JUDGED_AT_ONCE)):
        evidence = which.evidence(torch.stack([held[which.tasks[place]][row] for place, row in some]))
        owners = torch.tensor([place for place, _ in some])
        inferred = which.infer_from(evidence, SURE)
        is_right = (inferred.chances.argmax(dim=1) == owners) & inferred.certain
        others = evidence.scatter(1, owners[:, None], -torch.inf)
        is_named = which.infer_from(others, SURE).certain & (len(counts) > 1)
        for (place, _), found, named in zip(some, is_right.tolist(), is_named.tolist(), strict=True):
            right.setdefault(place, []).append(found)
            strangers.setdefault(place, []).append(named)
    return Quality(fmean(map(fmean, right.values())), fmean(map(fmean, strangers.values())))


def recognised(
    which: TaskInference, x: Tensor, sure: float, ask: Callable[[Tensor, str], tuple[Tensor, tuple[str, ...]]]
) -> list[Recognised]:
    """The task of every input, then its class by `ask(inputs, task)`, which gives probabilities and names of classes."""
    inferred = which.infer(x, sure)
    likeliest = inferred.chances.argmax(dim=1)
    found = [
        Recognised(None, None, 0.0, dict(zip(which.tasks, row, strict=True)), strange)
        for row, strange in zip(inferred.chances.tolist(), inferred.strange.tolist(), strict=True)
    ]
    for place in sorted(set(likeliest[inferred.certain].tolist())):
        rows = ((likeliest == place) & inferred.certain).nonzero()[:, 0]
        task = which.tasks[place]
        answers, classes = ask(x[rows], task)
        best, labels = torch.max(answers, dim=1)
        for row, probability, label in zip(rows.tolist(), best.tolist(), labels.tolist(), strict=True):
            found[row] = replace(found[row], task=task, label=classes[label], probability=probability)
    return found
