"""A zoo on the features of a pre-trained net: a member is one head from statistics, and one head over all classes tells tasks apart."""

from collections.abc import Generator, Iterable, Sequence
from math import log

import torch
from torch import Tensor

from zoolearn.beyond.stat_head import StatHead, stat_head
from zoolearn.beyond.task_inference import Evidence, TaskJudge
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.backbones import identity
from zoolearn.training.fit import Progress


def by_statistics(zoo: ModelZoo, tasks: Sequence[Task], seed: int) -> Generator[Progress, None, Member]:
    """A member that nothing is trained for: the head of all rows of one task; it alone answers from now on.

    Its loss is that of rows left out; of one row a class, which cannot be left out, that of guessing.
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
    return Member(net.freeze(), {task.name: Vote(1.0, task.classes, supersedes=True)}, loss, zoo.episode)


def judge_by_statistics(tasks: Iterable[Task]) -> TaskJudge:
    """Tells tasks apart by one head over the classes of all: how likely a task is, its classes are together."""
    stored = list(tasks)
    sizes = [len(task.classes) for task in stored]
    firsts = torch.tensor([0, *sizes]).cumsum(0)[:-1]
    labels = torch.cat([task.train.y + first for task, first in zip(stored, firsts, strict=True)])
    head = stat_head(torch.cat([task.train.x for task in stored]), labels, sum(sizes))
    return TaskJudge(tuple(task.name for task in stored), _evidence(head, sizes), 1.0, -head.sharpness / 2 * head.far)


def _evidence(head: StatHead, sizes: Sequence[int]) -> Evidence:
    def evidence(rows: Tensor) -> Tensor:
        parts = torch.split(head.densities(rows), list(sizes), dim=1)
        return torch.stack([part.logsumexp(dim=1) for part in parts], dim=1)

    return evidence
