"""Stochastic gradient descent: one kernel call a step."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from zoolearn.training.recipe import Recipe

Move = Callable[..., None]  # (parameters, gradients, momenta, *, lr, momentum, nesterov, weight_decay)


class Sgd:
    """`torch.optim.SGD(fused=True)`, bit for bit, without its bookkeeping.

    The bookkeeping costs 70 microseconds where a step of a small net takes a few hundred. The kernel is private to torch;
    if a version lacks it, plain operations do the same arithmetic. A parameter without a gradient is left unchanged, and
    so is its momentum. `torch.amp.GradScaler` accepts this as an optimizer.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], recipe: Recipe) -> None:
        self.parameters = list(parameters)
        self.lr = recipe.lr
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters] if recipe.momentum else []
        self.move: Move = move_fused if has_fused_kernel() else move_plainly
        self.settings: dict[str, Any] = {
            "momentum": recipe.momentum,
            "nesterov": recipe.nesterov and recipe.momentum > 0,
            "weight_decay": recipe.weight_decay,
        }

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameters, in the form that a gradient scaler looks for."""
        return [{"params": self.parameters}]

    def tensors(self) -> dict[str, Tensor]:
        """Its state, changed in place by `step`; saved in checkpoints."""
        return {f"momentum.{place}": moment for place, moment in enumerate(self.momenta)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Loads what `tensors` gave."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    @torch.no_grad()
    def step(self) -> None:
        moved: list[Tensor] = list(self.parameters)
        momenta = self.momenta
        gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
        if len(gradients) < len(moved):
            places = [place for place, parameter in enumerate(moved) if parameter.grad is not None]
            moved = [moved[place] for place in places]
            momenta = [momenta[place] for place in places] if momenta else []
        if moved:
            self.move(moved, gradients, momenta, lr=self.lr, **self.settings)

    def begin_epoch(self) -> None:
        """Called before each epoch; does nothing here."""


@cache
def has_fused_kernel() -> bool:
    """Whether this torch has the private kernel and it computes what is expected; tried once, on single numbers."""
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}
    fused, plain = ([torch.tensor([number]) for number in (1.0, 2.0, 3.0)] for _ in range(2))
    move_plainly(*([tensor] for tensor in plain), **settings)
    try:
        move_fused(*([tensor] for tensor in fused), **settings)
    except (AttributeError, TypeError, RuntimeError):  # no such function, or one that takes something else
        return False
    return torch.allclose(torch.cat(fused), torch.cat(plain))


def move_fused(
    parameters: list[Tensor], gradients: list[Tensor], momenta: list[Tensor], *, lr: float, **settings: Any
) -> None:
    """One step of all parameters in torch's kernel; momenta start as zeros, since a head may get its first gradient late."""
    fixed: dict[str, Any] = {"dampening": 0.0, "maximize": False, "is_first_step": False}
    torch._fused_sgd_(parameters, gradients, momenta, lr=lr, **settings, **fixed)


def move_plainly(
    parameters: list[Tensor], gradients: list[Tensor], momenta: list[Tensor], *, lr: float,
    momentum: float, nesterov: bool, weight_decay: float,
) -> None:  # fmt: skip
    """The same step in plain operations, equal up to rounding."""
    for place, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        direction = gradient.add(parameter, alpha=weight_decay) if weight_decay else gradient
        if momenta:
            moment = momenta[place].mul_(momentum).add_(direction)
            direction = direction.add(moment, alpha=momentum) if nesterov else moment
        parameter.sub_(direction, alpha=lr)
