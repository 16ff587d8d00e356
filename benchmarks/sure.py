"""Chances that hold, and "none of these": superclasses of CIFAR-100 that a zoo has learned, and those that it has not.

The zoo sees training rows alone, a fifth of them held out; test rows judge.
"""

import tempfile
from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

import zoolearn
from benchmarks.tables import Table
from zoolearn.beyond.temperature import apply_temperature, fit_temperature
from zoolearn.data.task import Task
from zoolearn.training.predict import average
from zoolearn.zoo import Zoo
from zoolearn.zoo.disk.stored import load_labels
from zoolearn.zoo.learning.recall import StoredVotes
from zoolearn.zoo.learning.scores import Scores

LEARNED = 6
SURE = 0.9


def measure(*, quick: bool) -> list[Table]:
    """The first superclasses in their order are learned; the others are strangers."""
    superclasses = zoolearn.benchmark("coarse-cifar100").tasks
    tasks, others = superclasses[: 2 if quick else LEARNED], superclasses[LEARNED:]
    strangers = torch.cat([task.test.x[::5] for task in others])
    with tempfile.TemporaryDirectory() as folder:
        zoo = zoolearn.new(folder, backbone="small-conv", epochs=1 if quick else 10, tasks_per_episode=3)
        for task in tasks:
            zoo.learn(_held_out(task))
        return [_chances(zoo, tasks), _sure(zoo, tasks), _few_rows(zoo, tasks), _none_of_these(zoo, tasks, strangers)]


def _held_out(task: Task) -> Task:
    """The task with a fifth of its training rows in place of its test rows."""
    held = torch.arange(len(task.train)) % 5 == 0
    train, test = (task.train.select(rows.nonzero()[:, 0]) for rows in (~held, held))
    return Task(task.name, train, test, task.classes)


def _votes(zoo: Zoo, task: Task) -> Tensor:
    """The average of votes, before any temperature."""
    votes = zoo.votes(task.test.x, task.name)
    return average(list(votes.values()), [zoo.index.member(number).share[task.name] for number in votes])


def _chances(zoo: Zoo, tasks: Sequence[Task]) -> Table:
    columns = ["accuracy", "temperature", "calibration error", "with it", "log-loss", "with it"]
    rows = []
    for task in tasks:
        votes, temperature = _votes(zoo, task), zoo.temperature(task.name)
        raw, scaled = (
            Scores.of(answers, task.test.y, task.classes) for answers in (votes, apply_temperature(votes, temperature))
        )
        errors = raw.calibration_error, scaled.calibration_error, raw.log_loss, scaled.log_loss
        rows.append([scaled.accuracy.value, temperature, *errors])
    return _with_mean("test rows of each task, before and after its temperature", columns, tasks, rows)


def _sure(zoo: Zoo, tasks: Sequence[Task]) -> Table:
    """What an answer at 90 % is worth: those of about that chance, and all that `--sure 0.9` gives."""
    columns = ["which answers", "answers", "mean chance", "right", "without a temperature: answers", "mean chance", "right"]  # fmt: skip
    votes = [_votes(zoo, task) for task in tasks]
    labels = torch.cat([task.test.y for task in tasks])
    scaled = [apply_temperature(said, zoo.temperature(task.name)) for task, said in zip(tasks, votes, strict=True)]
    found = []
    for low, high in ((SURE - 0.05, SURE + 0.05), (SURE, 1.0)):
        cells: list[object] = [f"{low:.2f} to {high:.2f} sure"]
        for answers in (scaled, votes):
            chances, named = torch.cat(answers).max(dim=1)
            given = (chances >= low) & (chances <= high)
            right = (named == labels)[given].double().mean()
            cells += [int(given.sum()), float(chances[given].mean()), float(right)]
        found.append(cells)
    return Table(f"answers on {len(labels):,} test rows", columns, found)


def _few_rows(zoo: Zoo, tasks: Sequence[Task]) -> Table:
    """Temperatures by some of the held-out rows, of votes as they are and as sure again (their squares)."""
    columns = ["votes", "held-out rows", "log-loss without", "with it", "calibration error without", "with it"]
    rng = torch.Generator().manual_seed(0)
    found: list[list[object]] = []
    for power, name in ((1, "as they are"), (2, "as sure again")):
        for count in (5, 20, 100, 500):
            cells = []
            for task in tasks:
                test, held_out = (
                    apply_temperature(said, 1 / power)
                    for said in (_votes(zoo, task), StoredVotes(zoo.folder, zoo.index).answer(task.name))
                )
                labels = load_labels(zoo.folder, zoo.tasks[task.name], "test")
                for _ in range(10):
                    some = torch.randperm(len(labels), generator=rng)[:count]
                    scaled = apply_temperature(test, fit_temperature(held_out[some], labels[some]))
                    scores = [Scores.of(answers, task.test.y, task.classes) for answers in (test, scaled)]
                    cells.append([*(each.log_loss for each in scores), *(each.calibration_error for each in scores)])
            found.append([name, count, *map(fmean, zip(*cells, strict=True))])
    return Table("temperatures by few rows, ten draws of each", columns, found)


def _none_of_these(zoo: Zoo, tasks: Sequence[Task], strangers: Tensor) -> Table:
    columns = ["AUROC by confidence", "by distance", "known rows strange", "strangers strange", "known answered", "right of these", "strangers answered"]  # fmt: skip
    rows = []
    for task in tasks:
        familiar, x = zoo.familiarity(task.name), task.test.x
        known, strange = (zoo.predict_proba(some, task.name).max(dim=1).values for some in (x, strangers))
        near, far = familiar.distances(x), familiar.distances(strangers)
        answers = [(name, task.classes[label]) for name, label in zip(zoo.predict(x, task.name, sure=SURE), task.test.y, strict=True)]  # fmt: skip
        given = [name == label for name, label in answers if name is not None]
        wrongly = [name for name in zoo.predict(strangers, task.name, sure=SURE) if name is not None]
        rows.append([
            _auroc(-known, -strange), _auroc(near, far), _share(near > familiar.furthest), _share(far > familiar.furthest),
            len(given) / len(x), sum(given) / max(1, len(given)), len(wrongly) / len(strangers),
        ])  # fmt: skip
    title = f"none of these: each task's test rows against {len(strangers):,} of tasks never learned, --sure {SURE}"
    return _with_mean(title, columns, tasks, rows)


def _with_mean(title: str, columns: list[str], tasks: Sequence[Task], rows: list[list[float]]) -> Table:
    named: list[list[object]] = [[task.name, *row] for task, row in zip(tasks, rows, strict=True)]
    return Table(title, ["task", *columns], [*named, ["mean", *map(fmean, zip(*rows, strict=True))]])


def _share(marked: Tensor) -> float:
    return float(marked.double().mean())


def _auroc(known: Tensor, strange: Tensor) -> float:
    """The chance that a stranger has more of something than a row that is known."""
    ranks = torch.cat([known, strange]).argsort().argsort().double() + 1
    return float((ranks[len(known) :].mean() - (len(strange) + 1) / 2) / len(known))
