"""Class-incremental accuracy: the task of a test row is not given, so every class of every task is a candidate.

It is measured once, after the last episode, by the logits of all tasks' heads side by side. A zoo that stores rows of every
task can do better: it first infers the task, then answers for that one, or it compares all classes by statistics of the rows.
"""

from collections.abc import Sequence

import torch

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.methods.learner import Learner, accuracy
from zoolearn.methods.registry import settings_of
from zoolearn.nets.net import passed
from zoolearn.runs.results import Untold


def class_incremental(learner: Learner, benchmark: Benchmark) -> Untold | None:
    """The accuracy on the test rows of all tasks, without the task given.

    None where it is not defined: tasks with equal names of classes have no common set of classes, and one head for all
    tasks gives them equal logits.
    """
    names = [name for task in benchmark for name in task.classes]
    if len({*names}) < len(names) or settings_of(learner).get("shared_head"):
        return None
    before = passed.rows["asked"]
    found = {task.name: _accuracy(learner, task, benchmark.tasks) for task in benchmark}
    inferred = _by_inference(learner, benchmark.tasks)
    compared = _by_statistics(learner, benchmark.tasks)
    return Untold(found, inferred, passed.rows["asked"] - before, compared)


def _accuracy(learner: Learner, task: Task, tasks: Sequence[Task]) -> float:
    from zoolearn.methods.parts.head_logits import task_logits

    first = sum(len(other.classes) for other in tasks[: tasks.index(task)])
    logits = task_logits(learner, task.test.x, [other.name for other in tasks])
    return accuracy(torch.cat(logits, dim=1), task.test.y + first)


def _by_inference(learner: Learner, tasks: Sequence[Task]) -> dict[str, float] | None:
    """The accuracy on each task's test rows with an inferred task; None unless a zoo stores rows."""
    from zoolearn.beyond.by_statistics import StatInference, by_statistics
    from zoolearn.beyond.task_inference import TaskInference, WhichTask, inferred_accuracy
    from zoolearn.methods.model_zoo import ModelZoo

    if not isinstance(learner, ModelZoo) or not learner.kept:
        return None
    of_statistics = learner.grow is by_statistics  # one head over all classes, as in a zoo on features
    which: TaskInference = StatInference(learner.kept.values()) if of_statistics else WhichTask(learner)
    return {
        task.name: inferred_accuracy(which, [task], {task.name: learner.test_answers(task)}).accuracy for task in tasks
    }


def _by_statistics(learner: Learner, tasks: Sequence[Task]) -> dict[str, float] | None:
    """The accuracy on each task's test rows by one discriminant over all classes; None unless a zoo can make it.

    A zoo on pre-trained features has one head over all classes already.
    """
    from zoolearn.beyond.all_classes import AllClasses, can_score
    from zoolearn.beyond.by_statistics import by_statistics
    from zoolearn.methods.model_zoo import ModelZoo

    if not isinstance(learner, ModelZoo) or learner.grow is by_statistics or not can_score(learner):
        return None
    scores = AllClasses(learner)
    return {
        task.name: accuracy(scores.logits(task.test.x), task.test.y + scores.places[task.name][0]) for task in tasks
    }
