"""Evaluation of a zoo's answers on held-out rows and on new labelled data."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoolearn.beyond.temperature import apply_temperature, cross_fit_temperature
from zoolearn.errors import DataError
from zoolearn.training.step import Step
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_labels
from zoolearn.zoo.inputs.source import Broken, Source
from zoolearn.zoo.intake.intake import class_numbers
from zoolearn.zoo.intake.leaks import read_digests, row_digests
from zoolearn.zoo.learning.recall import StoredVotes
from zoolearn.zoo.learning.scores import Scores

MOST_ERRORS = 1000  # rows that are named
LEAST_TO_CROSS_FIT = 20  # held-out rows: half of fewer tell nothing of a temperature


@dataclass(frozen=True)
class Mistake:
    """A row that was answered wrongly."""

    name: str
    label: str
    answer: str
    probability: float


@dataclass(frozen=True)
class Tested:
    """How a task was answered on new data: the scores, the surest mistakes first, and rows that could not be read.

    `seen` counts rows that the zoo stores to train on, which are no test of it.
    """

    task: str
    scores: Scores
    seen: int
    mistakes: tuple[Mistake, ...]
    broken: tuple[Broken, ...]


def held_out_majority(folder: ZooFolder, entry: TaskEntry) -> tuple[str, float]:
    """The most frequent class of a task's held-out rows, and the share of them that it has."""
    counts = torch.bincount(load_labels(folder, entry, "test"), minlength=len(entry.classes))
    return entry.classes[int(counts.argmax())], float(counts.max()) / entry.rows_held_out


def held_out_scores(folder: ZooFolder, index: Index, task: str) -> Scores:
    """The scores of a task on its held-out rows, from stored votes.

    Where they are enough, chances are measured at temperatures that are fitted to other rows.
    """
    entry = index.task(task)
    votes, labels = StoredVotes(folder, index).answer(task), load_labels(folder, entry, "test")
    temperature = index.measures[task].temperature
    if index.settings.features is not None or len(labels) < LEAST_TO_CROSS_FIT:
        return Scores.of(apply_temperature(votes, temperature), labels, entry.classes)
    return Scores.of(cross_fit_temperature(votes, labels), labels, entry.classes)


def iter_test(
    ask: Callable[[Tensor, str], Tensor],
    stored: Callable[[Tensor], Tensor],
    folder: ZooFolder,
    index: Index,
    task: str,
    source: Source,
) -> Generator[Step, None, Tested]:
    """Predicts labelled rows block by block; `stored` converts inputs to what the zoo stores."""
    classes, shape = index.task(task).classes, index.settings.shape
    assert shape is not None
    rows = list(range(len(source)))
    numbers = class_numbers(source, classes, f"task {task!r} can only be tested on its own classes")
    trained = [read_digests(folder, entry, "train") for entry in index.tasks.values() if entry.keeps_rows]
    known = np.concatenate(trained) if trained else np.empty(0, np.uint64)
    seen = 0
    answers: list[Tensor] = []
    labels: list[int] = []
    tested_rows: list[int] = []
    broken: list[Broken] = []
    for block in source.blocks(rows, shape):
        broken += block.broken
        if len(block.x):
            x = stored(torch.from_numpy(block.x))
            seen += int(np.isin(row_digests(x.numpy()), known).sum())
            answers.append(ask(x, task))
            labels += [numbers[row] for row in block.rows]
            tested_rows += block.rows
        yield Step(f"testing {task}", len(tested_rows) + len(broken), len(rows))
    if not tested_rows:
        raise DataError(
            f"{source.where}: none of the {len(rows)} rows can be read; {broken[0].name}: {broken[0].reason}"
        )
    probabilities, truth = torch.cat(answers), torch.tensor(labels)
    scores = Scores.of(probabilities, truth, classes)
    return Tested(task, scores, seen, _mistakes(source, tested_rows, probabilities, truth, classes), tuple(broken))


def _mistakes(
    source: Source, rows: Sequence[int], probabilities: Tensor, labels: Tensor, classes: Sequence[str]
) -> tuple[Mistake, ...]:
    best, chosen = probabilities.max(dim=1)
    wrong = (chosen != labels).nonzero()[:, 0].tolist()
    wrong.sort(key=lambda place: -float(best[place]))
    return tuple(
        Mistake(source.name(rows[place]), classes[int(labels[place])], classes[int(chosen[place])], float(best[place]))
        for place in wrong[:MOST_ERRORS]
    )
