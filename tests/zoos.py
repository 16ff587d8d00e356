"""Small zoos in folders, and ways to compare them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import zoolearn
from toys import TINY, benchmark, contents
from zoolearn.data.task import Task
from zoolearn.files import load_json
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.zoo import Zoo

TASKS = benchmark(4)


def shuffled(task: Task) -> Task:
    """The task with its test rows in another order, so that every part of them has all classes."""
    order = torch.randperm(len(task.test), generator=torch.Generator().manual_seed(0))
    return replace(task, test=task.test.select(order))


HAZY = [shuffled(task) for task in benchmark(4, contrast=30, test_per_class=30)]  # not all of it is answered rightly


def small_zoo(folder: Path, tasks: Iterable[Task] = TASKS[:3], **settings: Any) -> Zoo:
    """A zoo that has learned some tasks, opened again before each, as months apart."""
    zoolearn.new(folder, **{"backbone": mlp_100, "recipe": TINY, "tasks_per_episode": 3, **settings})
    for task in tasks:
        zoolearn.open(folder).learn(task)
    return zoolearn.open(folder)


def answers(zoo: Zoo, tasks: Iterable[Task] = TASKS, at: int | None = None) -> dict[str, Tensor]:
    """What a zoo says about the test rows of every task that it knows."""
    return {task.name: zoo.predict_proba(task.test.x, task.name, at) for task in tasks if task.name in zoo.tasks}


def alike(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two sets of answers are equal bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def stray_files(zoo: Zoo) -> set[str]:
    """Files in the folder that do not belong to the zoo as it is now."""
    return set(contents(zoo.path)) - zoo.index.files() - index_files(zoo)


def index_files(zoo: Zoo) -> set[str]:
    """The files that say what the zoo is."""
    head = load_json(zoo.path / "zoo.json")
    kinds = ("episodes", "contents", "rows")
    marks = [head["log"], *(state[kind] for state in (head, head["before"]) if state for kind in kinds)]
    return {"zoo.json", *(f"index/{mark['file']}" for mark in marks)}
