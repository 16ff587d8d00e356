"""Distillation: trains one small net to answer for every task as a zoo does, on the zoo's stored rows."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Work, iter_fit
from zoolearn.training.recipe import Recipe


def iter_distil(zoo: ModelZoo, tasks: Sequence[Task], recipe: Recipe, labels: float = 0.5) -> Work[tuple[Net, float]]:
    """A net with a head for each task, and its final loss.

    It starts from the newest member's backbone; its targets are the zoo's class probabilities mixed with the
    labels, which have the weight `labels`.
    """
    seed = derive(zoo.seed, "distil")
    net = zoo.new_net(tasks, seed)
    net.backbone.load_state_dict(zoo.members[-1].net.backbone.state_dict())
    targets = _targets(zoo, tasks, labels)

    def loss(net: Net, batch: Batch) -> Tensor:
        assert batch.row_index is not None
        logits, _ = net.forward_mixed(batch.x, batch.tasks, batch.task_index)
        logs = F.log_softmax(logits, dim=1).masked_fill(logits == float("-inf"), 0.0)
        return -(targets[batch.row_index.to(targets.device)].to(logs.device) * logs).sum(dim=1).mean()

    value = yield from iter_fit(net, tasks, recipe, seed=seed, loss=loss)
    return net.freeze(), value


def _targets(zoo: ModelZoo, tasks: Sequence[Task], labels: float) -> Tensor:
    """The target of every row of every task, in the columns of its own task's classes."""
    rows, classes = sum(len(task.train) for task in tasks), sum(len(task.classes) for task in tasks)
    targets = torch.zeros(rows, classes)
    row = column = 0
    for task in tasks:
        answers = zoo.answer(task.train.x, task.name)
        wanted = labels * F.one_hot(task.train.y, len(task.classes)) + (1 - labels) * answers
        targets[row : row + len(answers), column : column + answers.shape[1]] = wanted
        row, column = row + len(answers), column + answers.shape[1]
    return targets
