"""Adam for methods that were published with it, as an `adjust` slot of the one training loop."""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.nets.net import Net
from zoolearn.training.fit import Checkpoints, Loss, Progress, iter_fit
from zoolearn.training.recipe import Recipe

SECOND_DECAY = 0.999
EPSILON = 1e-8
CACHED = 1 << 16  # numbers that are worked on at once, so that they stay in the cache of a CPU


class Adam:
    """Turns the gradients of some parameters into the steps of Adam (Kingma and Ba, 2015), algorithm 1.

    For the `adjust` slot of a training by plain SGD, which then takes the steps as they are; its `state` is to be
    `carried`. Parameters without a gradient count as having zeros.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, -0.5])
    >>> Adam([weight])()
    >>> weight.grad.round(decimals=4).tolist()
    [1.0, -1.0]
    """

    def __init__(self, parameters: Iterable[nn.Parameter], first_decay: float = 0.9) -> None:
        self.parameters = list(parameters)
        self.first_decay = first_decay
        self.first = torch.cat([torch.zeros_like(parameter).reshape(-1) for parameter in self.parameters])
        self.second = torch.zeros_like(self.first)
        self.steps = torch.zeros((), dtype=torch.int64)

    @property
    def state(self) -> dict[str, Tensor]:
        """What changes from step to step."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    @torch.no_grad()
    def __call__(self, *_: object) -> None:
        """Takes the gradients into the moments and puts the step in their place."""
        self.steps.add_(1)
        start = 0
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradient = parameter.grad.reshape(-1)  # a copy where the memory layout is another
            piece = CACHED if gradient.device.type == "cpu" else max(1, len(gradient))
            for place in range(0, len(gradient), piece):
                end = min(place + piece, len(gradient))
                self._turn(gradient[place:end], slice(start + place, start + end))
            if not parameter.grad.is_contiguous():
                parameter.grad.copy_(gradient.view(parameter.shape))
            start += len(gradient)

    def _turn(self, gradient: Tensor, place: slice) -> None:
        """Makes a piece of the gradient a piece of the step, in place."""
        first, second, count = self.first[place], self.second[place], int(self.steps)
        first.lerp_(gradient, 1 - self.first_decay)
        second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
        scale = torch.div(second, 1 - SECOND_DECAY**count, out=gradient).sqrt_().add_(EPSILON)
        gradient.copy_((first / (1 - self.first_decay**count)).div_(scale))


Optimizer = Literal["sgd", "adam"]


def fitting_by(
    optimizer: Optimizer,
    net: Net,
    task: Task,
    recipe: Recipe,
    *,
    seed: int,
    loss: Loss,
    heads: Sequence[str],
    largest: float = math.inf,
    checkpoints: Checkpoints | None = None,
) -> Generator[Progress, None, float]:
    """`iter_fit` on one task in float32, by SGD as the recipe says, or by Adam with its learning rate and schedule.

    Adam takes the recipe's momentum as the decay of its first moment, and no weight decay. Gradients longer than
    `largest` are shortened to it.
    """
    recipe = replace(recipe, precision="float32")
    movable = net.to(recipe.torch_device).trainable(heads)
    slots: dict[str, Any] = {"seed": seed, "loss": loss, "heads": heads, "checkpoints": checkpoints}
    if optimizer == "sgd":
        return iter_fit(net, [task], recipe, adjust=lambda *_: shorten(movable, largest), **slots)
    adam = Adam(movable, recipe.momentum)

    def step(*_: object) -> None:
        shorten(movable, largest)
        adam()

    plain = replace(recipe, momentum=0.0, nesterov=False, weight_decay=0.0)
    return iter_fit(net, [task], plain, adjust=step, carried=adam.state, **slots)


def shorten(parameters: Sequence[nn.Parameter], largest: float) -> None:
    """Scales gradients that are together longer than `largest` to that length."""
    if largest < math.inf:
        nn.utils.clip_grad_norm_(parameters, largest)
