"""What a method does, to be done again in plain lines: a few steps over whole tasks with a small smooth net."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from toys import blobs
from zoolearn.data.task import Examples, Task
from zoolearn.methods.parts.flat import Flat
from zoolearn.nets.net import Net
from zoolearn.training.recipe import Recipe

WHOLE = Recipe(
    epochs=3,
    batch_size=1000,
    lr=0.1,
    schedule="constant",
    momentum=0.0,
    weight_decay=0.0,
    dropout=0.0,
    augment="no",
    device="cpu",
)


def smooth(shape: tuple[int, ...], dropout: float = 0.0) -> nn.Module:
    """Five features without kinks, norms or dropped units."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 5), nn.Tanh())


def gradient_on(net: Net, task: Task, flat: Flat) -> Tensor:
    """The gradient of the mean loss over all of a task's training rows."""
    return flat.gradient_of(F.cross_entropy(net(task.train.x, task.name), task.train.y))


def descended(net: Net, task: Task, penalty: Callable[[Tensor], Tensor], recipe: Recipe = WHOLE) -> Tensor:
    """The backbone's weights after plain steps down a task's loss and a penalty on those weights."""
    net = deepcopy(net)
    flat = Flat(net.trainable([task.name]))
    for _ in range(recipe.epochs):
        loss = F.cross_entropy(net(task.train.x, task.name), task.train.y)
        weights = torch.cat([parameter.reshape(-1) for parameter in net.backbone.parameters()])
        flat.write_data(flat.data() - recipe.lr * flat.gradient_of(loss + penalty(weights)))
    return Flat(net.backbone.parameters()).data()


def vague(name: str, classes: int = 2, per_class: int = 12) -> Task:
    """Blobs that overlap, so that no net is ever sure of all of them."""
    task = blobs(name, classes, per_class)
    return Task(name, *(Examples(0.2 * part.x, part.y) for part in (task.train, task.test)))


def much_closer(found: Tensor, wanted: Tensor, others: Sequence[Tensor], times: float = 100.0) -> bool:
    """Whether a result is so many times nearer to what is wanted than to each other thing that it might be."""
    off = float((found - wanted).norm())
    return all(times * off < float((other - wanted).norm()) for other in others)
