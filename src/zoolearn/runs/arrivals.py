"""What a run records of tasks that arrive in parts."""

from collections import Counter
from collections.abc import Sequence

import torch

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.files import Json
from zoolearn.methods.learner import Learner, accuracy


def accuracy_by_arrival(learner: Learner, task: Task, met: Sequence[Task]) -> tuple[float | None, ...]:
    """The accuracy of a task that grew on the test rows of each of its arrivals."""
    counts = [len(part.test) for part in met if part.name == task.name]
    if len(counts) < 2:
        return ()
    answers = zip(torch.split(learner.test_answers(task), counts), torch.split(task.test.y, counts), strict=True)
    return tuple(accuracy(output, labels) if len(labels) else None for output, labels in answers)


def name_tasks(benchmark: Benchmark) -> dict[str, Json]:
    """The tasks and, if they arrive in parts, the task of every arrival."""
    arrivals = [task.name for task in benchmark]
    tasks = [*dict.fromkeys(arrivals)]
    return {"tasks": tasks} if arrivals == tasks else {"tasks": tasks, "arrivals": arrivals}


def count_samples(benchmark: Benchmark) -> list[int]:
    """The training samples of each task, all its parts together."""
    counts = Counter[str]()
    for task in benchmark:
        counts[task.name] += len(task.train)
    return [*counts.values()]


def find_whole_tasks(benchmark: Benchmark) -> list[Task]:
    """The tasks whose test rows are the same in every episode."""
    parted = {task.name for task in benchmark if task.part}
    return [task for task in benchmark if task.name not in parted]
