"""A torch optimizer made by the caller's own function."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zoolearn.errors import SettingsError
from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd


class TorchOptimizer(Sgd):
    """Wraps the optimizer that `Recipe.optimizer_by` makes, at the rates of the recipe's schedule.

    Parameter groups with other learning rates keep their ratio to the recipe's. Its state is saved in checkpoints.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], recipe: Recipe) -> None:
        super().__init__(parameters, recipe)
        made = recipe.optimizer_by(self.parameters, recipe)
        if not isinstance(made, Optimizer):
            name = getattr(recipe.optimizer_by, "__name__", repr(recipe.optimizer_by))
            raise SettingsError(
                f"optimizer_by {name} gave a {type(made).__name__}; it must give a torch.optim.Optimizer"
            )
        self.made = made
        self.shares = [group["lr"] / recipe.lr for group in made.param_groups]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.made.param_groups

    def tensors(self) -> dict[str, Tensor]:
        """Its state by the positions of the parameters; values that are no tensors cannot be saved and are an error."""
        found: dict[str, Tensor] = {}
        for place, parameter in enumerate(self.parameters):
            for name, value in self.made.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"{place}.{name}"] = value
                elif value is not None:
                    raise SettingsError(
                        f"{type(self.made).__name__} keeps {name} as a {type(value).__name__}, which a checkpoint cannot hold; "
                        "take an optimizer that keeps tensors, or leave checkpoints out"
                    )
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Loads what `tensors` gave; empty before the first step."""
        for key, tensor in tensors.items():
            place, _, name = key.partition(".")
            parameter = self.parameters[int(place)]
            self.made.state[parameter][name] = tensor.to(parameter.device) if tensor.dim() else tensor

    @torch.no_grad()
    def step(self) -> None:
        for group, share in zip(self.made.param_groups, self.shares, strict=True):
            group["lr"] = share * self.lr
        self.made.step()
