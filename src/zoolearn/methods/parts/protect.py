"""Protection of what past tasks need: gradients of protected weights are blocked before they reach the optimiser.

Blocking is exact. A protected weight's gradient is 0 from an episode's first step on, and weight decay is added before
blocking instead of by the optimiser, so momentum has nothing to build on: a step subtracts 0, and the bits stay.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from zoolearn.training.recipe import Recipe


class Guard:
    """Scales the gradients of some parameters by fixed factors: 0 protects a weight fully, 1 leaves it free.

    Give `iter_fit` the recipe `undecayed(recipe)`, and call this in `adjust`.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> weight.grad = torch.ones(2)
    >>> Guard([(weight, torch.tensor([0.0, 1.0]))], weight_decay=0.5)()
    >>> weight.grad.tolist()
    [0.0, 1.5]
    """

    def __init__(self, factors: Iterable[tuple[Tensor, Tensor]], weight_decay: float = 0.0) -> None:
        self.factors = list(factors)
        self.weight_decay = weight_decay

    @torch.no_grad()
    def __call__(self) -> None:
        """Adds weight decay to the gradients as they are, and blocks what is protected."""
        for parameter, factor in self.factors:
            if parameter.grad is not None:
                parameter.grad.add_(parameter, alpha=self.weight_decay).mul_(factor)


def undecayed(recipe: Recipe) -> Recipe:
    """The recipe without weight decay, which a `Guard` takes over."""
    return replace(recipe, weight_decay=0.0)
