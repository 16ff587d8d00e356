"""Accuracy where the task is not told (class-incremental): every class of every task is a candidate for every test row.

It is measured once, after the last episode. The classes of all tasks stand in one row of logits, those of a task as its
nets' heads give them, and one softmax over the row decides; a method whose answers are not those of heads gives the
logarithms of its probabilities. A zoo that stores rows of every task can do better: it first infers the task, then
answers for that one.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.methods.learner import Learner, accuracy
from zoolearn.methods.registry import settings_of
from zoolearn.nets.net import Net, passed
from zoolearn.runs.results import Untold
from zoolearn.training.batches import to_device
from zoolearn.training.predict import align, make_ready, piece_size
from zoolearn.training.recipe import Recipe


def class_incremental(learner: Learner, benchmark: Benchmark) -> Untold | None:
    """How the learner fares on the test rows of all tasks, which it has met, when none is told.

    None where that has no meaning: tasks that share names of classes (one set of labels in every task, or classes
    without names) have no common set of classes, and one head for all tasks gives them equal logits.
    """
    names = [name for task in benchmark for name in task.classes]
    if len({*names}) < len(names) or settings_of(learner).get("shared_head"):
        return None
    before = passed.rows["asked"]
    found = {task.name: _accuracy(learner, task, benchmark.tasks) for task in benchmark}
    inferred = _by_inference(learner, benchmark.tasks)
    return Untold(found, inferred, passed.rows["asked"] - before)


def _accuracy(learner: Learner, task: Task, tasks: Sequence[Task]) -> float:
    sizes = [len(other.classes) for other in tasks]
    first = sum(sizes[: tasks.index(task)])
    return accuracy(
        torch.cat(task_logits(learner, task.test.x, [other.name for other in tasks]), dim=1), task.test.y + first
    )


def task_logits(learner: Learner, x: Tensor, tasks: Sequence[str]) -> list[Tensor]:
    """For each task the logits of its classes, averaged by the weights of their votes over its nets that know all of them."""
    if type(learner).answer is not Learner.answer:
        tiny = torch.finfo(torch.float32).tiny
        return [learner.answer(x, task).clamp_min(tiny).log() for task in tasks]
    voters = {task: _know_all(learner, task) for task in tasks}
    totals = dict.fromkeys(tasks, torch.zeros(()))
    for net in dict.fromkeys(net for net, _ in chain.from_iterable(voters.values())):
        weights = {task: weight for task in tasks for voter, weight in voters[task] if voter is net}
        for task, outputs in zip(weights, _logits(net, x, list(weights), learner.recipe), strict=True):
            totals[task] = totals[task] + weights[task] * outputs
    return [totals[task] / sum(weight for _, weight in voters[task]) for task in tasks]


def _know_all(learner: Learner, task: str) -> list[tuple[Net, float]]:
    classes = len(learner.classes[task])
    return [(net, weight) for net, weight in learner.voters(task) if net.head(task).out_features == classes]


def _logits(net: Net, x: Tensor, tasks: Sequence[str], recipe: Recipe) -> list[Tensor]:
    """What each task's head says of raw inputs; the backbone looks once, unless it looks in other ways for other tasks."""
    device, dtype, pieces = recipe.torch_device, recipe.autocast_dtype, []
    make_ready(net, device)
    alike = type(net).forward is Net.forward and not net.standardize and not net._forward_pre_hooks
    with torch.inference_mode():
        for rows in torch.split(x, piece_size(net, device)):
            inputs = to_device(align(rows), device)
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                features = net.embed(inputs) if alike else inputs
                outputs = [net.head(task)(features) if alike else net(inputs, task) for task in tasks]
            pieces.append([logits.float().cpu() for logits in outputs])
    return [torch.cat(column) for column in zip(*pieces, strict=True)]


def _by_inference(learner: Learner, tasks: Sequence[Task]) -> dict[str, float] | None:
    """The share of each task's test rows whose task is inferred and whose class is then told; only a zoo with stored rows can."""
    from zoolearn.beyond.by_statistics import StatInference, by_statistics
    from zoolearn.beyond.task_inference import TaskInference, WhichTask
    from zoolearn.beyond.task_inference import class_incremental as fare
    from zoolearn.methods.model_zoo import ModelZoo

    if not isinstance(learner, ModelZoo) or not learner.kept:
        return None
    of_statistics = learner.grow is by_statistics  # one head over all classes, as in a zoo on features
    which: TaskInference = StatInference(learner.kept.values()) if of_statistics else WhichTask(learner)
    return {task.name: fare(which, [task], {task.name: learner.count_votes(task).mean}).accuracy for task in tasks}
