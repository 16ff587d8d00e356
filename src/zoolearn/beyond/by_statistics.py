"""A zoo on pre-trained features: a member is a head from statistics, and one head over all classes infers tasks."""

from collections.abc import Generator, Iterable, Sequence
from math import log

import torch
from torch import Tensor

from zoolearn.beyond.stat_head import stat_head
from zoolearn.beyond.task_inference import TaskInference
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import identity
from zoolearn.training.fit import Progress


def by_statistics(zoo: ModelZoo, tasks: Sequence[Task], seed: int) -> Generator[Progress, None, Member]:
    """A member without training: the head of all rows of one task, which alone counts.

    Its loss is by leave-one-out; with one row a class, that of guessing.
    """
    if len(tasks) > 1 or zoo.replay < 1:
        raise SettingsError(
            f"tasks_per_episode is {zoo.tasks_per_episode} and replay is {zoo.replay:g}; a head from statistics is of all "
            "rows of one task: leave both at 1"
        )
    yield from ()
    (task,) = tasks
    head = stat_head(task.train.x, task.train.y, len(task.classes))
    net = zoo.new_net([task], seed, identity)
    with torch.no_grad():
        net.head(task.name).weight.copy_(head.weight)
        net.head(task.name).bias.copy_(head.bias)
    loss = -head.likelihood if len(head.unseen) else log(len(task.classes))
    return Member(net.freeze(), {task.name: Vote(1.0, task.classes, newest=1)}, loss, zoo.episode)


class StatInference(TaskInference):
    """Infers tasks by one head over the classes of all: a task is as likely as its classes together."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        stored = list(tasks)
        sizes = [len(task.classes) for task in stored]
        firsts = torch.tensor([0, *sizes]).cumsum(0)
        labels = torch.cat([task.train.y + first for task, first in zip(stored, firsts[:-1], strict=True)])
        self.head = stat_head(torch.cat([task.train.x for task in stored]), labels, sum(sizes))
        names = tuple(task.name for task in stored)
        self.columns = dict(zip(names, zip(firsts.tolist(), firsts[1:].tolist(), strict=False), strict=True))
        self.classes = {task.name: task.classes for task in stored}
        super().__init__(names, self._evidence, 1.0, -self.head.sharpness / 2 * self.head.far)

    def _evidence(self, rows: Tensor) -> Tensor:
        densities = self.head.densities(rows)
        parts = [densities[:, slice(*columns)].logsumexp(dim=1) for columns in self.columns.values()]
        return torch.stack(parts, dim=1)

    def answer(self, rows: Tensor, task: str) -> tuple[Tensor, tuple[str, ...]]:
        """The probabilities of a task's classes for rows of this task, and the names of the classes."""
        logits = self.head.logits(rows)[:, slice(*self.columns[task])]
        return torch.softmax(logits, dim=1).float(), self.classes[task]
