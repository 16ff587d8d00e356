"""Distillation: trains one small net to answer for every task as a zoo does, on the zoo's stored rows."""

from collections.abc import Sequence
from functools import partial

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
    loss = partial(soft_cross_entropy, targets=soft_targets(zoo, tasks, labels))
    value = yield from iter_fit(net, tasks, recipe, seed=seed, loss=loss)
    return net.freeze(), value


def soft_targets(zoo: ModelZoo, tasks: Sequence[Task], labels: float) -> Tensor:
    """The target of every row of every task over the classes of its own task, then zeros up to those of the widest."""
    targets = torch.zeros(sum(len(task.train) for task in tasks), max(len(task.classes) for task in tasks))
    row = 0
    for task in tasks:
        answers = zoo.answer(task.train.x, task.name)
        wanted = labels * F.one_hot(task.train.y, len(task.classes)) + (1 - labels) * answers
        targets[row : row + len(answers), : answers.shape[1]] = wanted
        row += len(answers)
    return targets


def soft_cross_entropy(net: Net, batch: Batch, targets: Tensor) -> Tensor:
    """Mean over rows of the cross-entropy with each row's target, under its own task's head."""
    assert batch.row_index is not None
    logits, first = net.forward_mixed(batch.x, batch.tasks, batch.task_index)
    logs = F.log_softmax(logits, dim=1).masked_fill(logits == float("-inf"), 0.0)
    wanted = targets[batch.row_index.to(targets.device)].to(logs.device)
    columns = first[:, None] + torch.arange(wanted.shape[1], device=first.device)
    own = logs.gather(1, columns.clamp_max(logs.shape[1] - 1))  # beyond a row's own classes, targets are 0
    return -(wanted * own).sum(dim=1).mean()
