"""Task and class of inputs without a given task."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from zoolearn.beyond.task_inference import MOST_EVIDENCE, TaskInference, evenly
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import Json
from zoolearn.zoo.disk.index import Index

SURE = 0.5  # the default probability from which a task is named
LEAST_QUALITY = 0.3
ROWS_JUDGED = 200  # of each task
JUDGED_AT_ONCE = 1_000


@dataclass(frozen=True)
class Recognised:
    """The inferred task and class of an input, both None if the task is uncertain."""

    task: str | None
    label: str | None
    probability: float  # of the class, if the task is the right one
    chances: dict[str, float]  # of the tasks
    strange: bool = False  # it is unlike the stored rows of every task

    @property
    def chance(self) -> float:
        """The probability of the likeliest task."""
        return max(self.chances.values())

    def to_json(self) -> dict[str, Json]:
        return {
            "task": self.task,
            "class": self.label,
            "probability": self.probability if self.task is not None else None,
            "strange": self.strange,
            "chances": self.chances,
        }


def check_recognisable(index: Index, sure: float = 0.0) -> None:
    """Raises if inputs cannot be recognised, or not with this `sure`, before any input is read."""
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
    """The share of held-out rows whose task is named rightly, and the share that would be named were it unknown.

    The latter estimates how many foreign inputs are named; it cannot be measured with one task, and is then 0.
    """

    right: float
    strangers: float

    @classmethod
    def of(cls, which: TaskInference, held: Mapping[str, Tensor]) -> "Quality":
        """The quality of task inference on rows held out of each task."""
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
        return cls(fmean(map(fmean, right.values())), fmean(map(fmean, strangers.values())))

    def check(self) -> None:
        """Raises if tasks are named hardly more often when known than when unknown."""
        if self.right - self.strangers < LEAST_QUALITY:
            raise DataError(
                f"this zoo cannot tell its tasks apart well enough: it names the right task of {self.right:.0%} of its "
                f"held-out rows, and would name one for {self.strangers:.0%} of rows of a task that it does not know (at "
                f"least {100 * LEAST_QUALITY:.0f} points more are needed); name the task (`zoo predict`), or take the "
                "likeliest, however unlikely (`--sure 0`)"
            )


@dataclass(frozen=True, eq=False)
class Fitted:
    """The task inference of a zoo, its quality, and the generation it was fitted to."""

    generation: int
    which: TaskInference
    quality: Quality


def recognise_rows(
    which: TaskInference, x: Tensor, sure: float, ask: Callable[[Tensor, str], tuple[Tensor, tuple[str, ...]]]
) -> list[Recognised]:
    """The task of every input, then its class by `ask(inputs, task)`, which gives probabilities and class names."""
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
