"""Logits of the heads of several tasks for the same inputs, averaged over the nets that vote on each task."""

from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from zoolearn.methods.learner import Learner
from zoolearn.nets.net import Net
from zoolearn.training.batches import to_device
from zoolearn.training.predict import align, make_ready, split_rows
from zoolearn.training.recipe import Recipe


def task_logits(learner: Learner, x: Tensor, tasks: Sequence[str]) -> list[Tensor]:
    """The logits of each task's classes; log-probabilities if the method's answers are not those of heads."""
    if type(learner).answer is Learner.answer:
        return read_heads(learner, x, tasks, lambda logits: logits)
    tiny = torch.finfo(torch.float32).tiny
    return [learner.answer(x, task).clamp_min(tiny).log() for task in tasks]


def read_heads(learner: Learner, x: Tensor, tasks: Sequence[str], read: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """For each task a function of its heads' logits, averaged by vote weights over the nets that know all its classes."""
    voters = {
        task: [each for each in learner.voters(task) if each[0].head(task).out_features == len(learner.classes[task])]
        for task in tasks
    }
    totals = dict.fromkeys(tasks, torch.zeros(()))
    for net in dict.fromkeys(net for net, _ in chain.from_iterable(voters.values())):
        weights = {task: weight for task in tasks for voter, weight in voters[task] if voter is net}
        for task, logits in zip(weights, _logits(net, x, list(weights), learner.recipe), strict=True):
            totals[task] = totals[task] + weights[task] * read(logits)
    return [totals[task] / sum(weight for _, weight in voters[task]) for task in tasks]


def _logits(net: Net, x: Tensor, tasks: Sequence[str], recipe: Recipe) -> list[Tensor]:
    """The logits of each task's head for raw inputs; the backbone runs once, unless its input depends on the task."""
    device, dtype, pieces = recipe.torch_device, recipe.autocast_dtype, []
    make_ready(net, device)
    alike = type(net).forward is Net.forward and not net.standardize and not net._forward_pre_hooks
    with torch.inference_mode():
        for rows in split_rows([net], x, device):
            inputs = to_device(align(rows), device)
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                features = net.embed(inputs) if alike else inputs
                outputs = [] if alike else [net(inputs, task) for task in tasks]
            if alike:  # in float32, as a net reads its head
                outputs = [net.head(task)(features.float()) for task in tasks]
            pieces.append([logits.float().cpu() for logits in outputs])
    return [torch.cat(column) for column in zip(*pieces, strict=True)]
