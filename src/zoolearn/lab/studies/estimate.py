"""How long a run would take here: the samples it trains on and asks about, times what a sample takes on this machine."""

from collections.abc import Sequence
from functools import lru_cache
from time import process_time
from typing import NamedTuple

import torch

from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.studies.trials import Trial
from zoolearn.methods.registry import METHODS, learner_from
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.training.at_once import fit
from zoolearn.training.recipe import Recipe

ASKED = 0.35  # what an answer takes, as a share of what a sample takes in training
PASSES = {"ewc": 1.3, "ogd": 1.3, "mc-sgd": 3.0}  # of plain SGD's


class Size(NamedTuple):
    """How large a benchmark is: tasks, training and test samples and classes of each, shape of an input."""

    tasks: int
    train: int
    test: int
    classes: int
    shape: tuple[int, int, int]


SIZES: dict[str, Size] = {
    "rotated-mnist": Size(5, 60_000, 10_000, 10, (1, 28, 28)),
    "permuted-mnist": Size(5, 60_000, 10_000, 10, (1, 28, 28)),
    "split-mnist": Size(5, 12_000, 2_000, 2, (1, 28, 28)),
    "split-cifar10": Size(5, 10_000, 2_000, 2, (3, 32, 32)),
    "split-cifar100": Size(20, 2_500, 500, 5, (3, 32, 32)),
    "coarse-cifar100": Size(20, 2_500, 500, 5, (3, 32, 32)),
    "split-miniimagenet": Size(20, 2_400, 600, 5, (3, 84, 84)),
}


def work(trial: Trial) -> tuple[float, float]:
    """Samples that a trial trains on, epochs counted, and samples that it answers for, weights and accuracies together.

    >>> work(Trial(method="isolated", benchmark="split-cifar100", recipe={"epochs": 1}))
    (50000.0, 10000.0)
    """
    size = SIZES[trial.benchmark]
    tasks = trial.first_tasks or trial.length or size.tasks
    size = size._replace(tasks=len(trial.only) or tasks - (trial.after_tasks or 0))
    train = size.train if trial.samples_per_class is None else size.classes * trial.samples_per_class
    epochs = Recipe(**trial.recipe).epochs
    if trial.method == "model-zoo":
        return _zoo_work(trial, size, train, epochs)
    nets = int(trial.learner.get("networks", 1))
    passes = PASSES.get(trial.method, 1.0) + _remembered(trial, size) / Recipe(**trial.recipe).batch_size
    if trial.method == "progressive":  # a column asks all older ones
        passes += ASKED * (size.tasks - 1) / 2
    asks = sum(range(1, size.tasks + 1)) if trial.method not in ("isolated", "multi-head") else size.tasks
    return float(size.tasks * train * epochs * nets * passes), float(asks * size.test * nets)


def _remembered(trial: Trial, size: Size) -> float:
    """Rows of the memory beside a batch, on the average over tasks."""
    if trial.method not in ("er", "a-gem", "mega-ii", "gem"):
        return 0.0
    learner = learner_from(METHODS[trial.method], dict(trial.learner)).settings()
    per = {"class": size.classes, "task": 1}.get(str(learner.get("memory_per", "all")), 0)
    kept = [past * per * int(learner["memory_size"]) or int(learner["memory_size"]) for past in range(1, size.tasks)]
    most = float("inf") if trial.method == "gem" else int(learner["memory_batch"])  # GEM asks its whole memory
    return sum(min(most, rows) for rows in kept) / size.tasks


def _zoo_work(trial: Trial, size: Size, train: int, epochs: int) -> tuple[float, float]:
    b, replay = int(trial.learner.get("tasks_per_episode", 5)), float(trial.learner.get("replay", 1.0))
    met = [min(episode, b) for episode in range(1, size.tasks + 1)]
    if replay == 0:
        met = [1] * size.tasks
    kept = replay * train
    trained = sum(
        train * count if replay == 1 else train * min(count, 2) for count in met
    )  # limited replay: half and half
    return float(trained * epochs), float(sum(count * (kept + size.test) for count in met))


@lru_cache
def pace(backbone: str, shape: tuple[int, int, int], classes: int) -> float:
    """Seconds of a core that a sample takes in training on this machine, in batches of 16, measured."""
    if backbone not in BACKBONES:
        raise SettingsError(unknown_name("backbone", backbone, BACKBONES))
    steps = 400 if backbone.startswith("mlp") else 20 if backbone == "small-conv" else 4  # some tenths of a second
    rows = 16 * steps
    images = Examples(torch.zeros(rows, *shape, dtype=torch.uint8), torch.arange(rows) % classes)
    task = Task("timing", images, images)
    net = Net(BACKBONES[backbone], shape)
    net.add_head(task.name, classes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        fit(net, [Task("timing", images.select(torch.arange(32)), images)], Recipe(epochs=1), seed=0)  # warm
        started = process_time()
        fit(net, [task], Recipe(epochs=1), seed=0)
        return (process_time() - started) / rows
    finally:
        torch.set_num_threads(threads)


def seconds(trial: Trial) -> float:
    """How long a trial would take on one free core of this machine."""
    size = SIZES[trial.benchmark]
    trained, asked = work(trial)
    each = pace(str(trial.learner.get("backbone", "small-conv")), size.shape, size.classes)
    return each * (trained + ASKED * asked)


def total(trials: Sequence[Trial]) -> float:
    """Core-seconds of several trials."""
    return sum(map(seconds, trials))
