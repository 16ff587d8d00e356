"""Adam and AdamW, for methods that were published with them."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd

SECOND_DECAY = 0.999
EPSILON = 1e-8
CACHED = 1 << 16  # numbers processed at once, so that they stay in a CPU's cache


class Adam(Sgd):
    """Adam (Kingma and Ba, 2015), algorithm 1, at the recipe's learning rate and schedule.

    The recipe's momentum is the decay of the first moment; its weight decay is added to the gradients, as in torch.
    Parameters without a gradient are treated as having a zero one.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, -0.5])
    >>> Adam([weight], Recipe(lr=0.1, weight_decay=0.0)).step()
    >>> [round(number, 4) for number in weight.tolist()]
    [-0.1, 0.1]
    """

    def __init__(self, parameters: Sequence[nn.Parameter], recipe: Recipe) -> None:
        super().__init__(parameters, replace(recipe, momentum=0.0, nesterov=False, weight_decay=0.0))
        self.first_decay, self.weight_decay = recipe.momentum, recipe.weight_decay
        self.first = torch.cat([torch.zeros_like(parameter).reshape(-1) for parameter in self.parameters])
        self.second = torch.zeros_like(self.first)
        self.steps = torch.zeros((), dtype=torch.int64)

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first, "second": self.second, "steps": self.steps}

    @torch.no_grad()
    def step(self) -> None:
        """Updates the moments, replaces the gradients by the step, and applies it."""
        self.steps.add_(1)
        start = 0
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if self.weight_decay:
                parameter.grad.add_(parameter, alpha=self.weight_decay)
            gradient = parameter.grad.reshape(-1)  # a copy where the memory layout is another
            piece = CACHED if gradient.device.type == "cpu" else max(1, len(gradient))
            for place in range(0, len(gradient), piece):
                end = min(place + piece, len(gradient))
                self._turn(gradient[place:end], slice(start + place, start + end))
            if not parameter.grad.is_contiguous():
                parameter.grad.copy_(gradient.view(parameter.shape))
            start += len(gradient)
        super().step()

    def _turn(self, gradient: Tensor, place: slice) -> None:
        """Turns a piece of the gradient into a piece of the step, in place."""
        first, second, count = self.first[place], self.second[place], int(self.steps)
        first.lerp_(gradient, 1 - self.first_decay)
        second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
        scale = torch.div(second, 1 - SECOND_DECAY**count, out=gradient).sqrt_().add_(EPSILON)
        gradient.copy_((first / (1 - self.first_decay**count)).div_(scale))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): weights first shrink by lr x weight_decay."""

    def __init__(self, parameters: Sequence[nn.Parameter], recipe: Recipe) -> None:
        super().__init__(parameters, replace(recipe, weight_decay=0.0))
        self.shrinkage = recipe.weight_decay

    @torch.no_grad()
    def step(self) -> None:
        """Shrinks the parameters, then takes Adam's step."""
        for parameter in self.parameters:
            parameter.mul_(1 - self.lr * self.shrinkage)
        super().step()
