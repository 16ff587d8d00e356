"""A torch optimizer made by the caller's own function."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zoolearn.errors import SettingsError
from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd


class TorchOptimizer(Sgd):
    """Wraps the optimizer that `Recipe.optimizer_by` makes, at the rates of the recipe's schedule.

    Parameter groups with other learning rates keep their ratio to the recipe's. Its state is saved in checkpoints, and so is
    what it changes in its groups while it steps.
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
        self.begun = [{name: repr(value) for name, value in _options(group)} for group in made.param_groups]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.made.param_groups

    def tensors(self) -> dict[str, Tensor]:
        """Its state by the positions of the parameters, and what it changed in its groups; an error for what is no number or tensor."""
        found: dict[str, Tensor] = {}
        if not self.made.state.keys() <= {*self.parameters}:
            raise self._cannot_hold("a state that belongs to no parameter")
        for place, parameter in enumerate(self.parameters):
            for name, value in self.made.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"{place}.{name}"] = value
                elif value is not None:
                    raise self._cannot_hold(f"{name} as a {type(value).__name__}")
        for number, (group, begun) in enumerate(zip(self.made.param_groups, self.begun, strict=True)):
            for name, value in _options(group):
                if isinstance(value, Tensor):
                    found[f"group {number}.{name}"] = value
                elif repr(value) != begun.get(name):
                    if not isinstance(value, (int, float)):
                        raise self._cannot_hold(f"in its groups a {name} that changes, a {type(value).__name__}")
                    exact = torch.float64 if isinstance(value, float) else None
                    found[f"number {number}.{name}"] = torch.tensor(value, dtype=exact)
        return found

    def _cannot_hold(self, what: str) -> SettingsError:
        return SettingsError(
            f"{type(self.made).__name__} keeps {what}, which a checkpoint cannot hold; "
            "take an optimizer that keeps tensors, or leave checkpoints out"
        )

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Loads what `tensors` gave; empty before the first step."""
        for key, tensor in tensors.items():
            place, _, name = key.partition(".")
            kind, _, number = place.rpartition(" ")
            if kind:
                group = self.made.param_groups[int(number)]
                group[name] = tensor.item() if kind == "number" else tensor.to(_device(group, name))
            else:
                self.made.state[self.parameters[int(place)]][name] = self._placed(int(place), name, tensor)

    def _placed(self, place: int, name: str, tensor: Tensor) -> Tensor:
        """A part of a parameter's state where a step looks for it, in the parameter's own order in memory if it has its shape."""
        parameter = self.parameters[place]
        group = next(group for group in self.made.param_groups if any(one is parameter for one in group["params"]))
        if not tensor.dim() and (parameter.dim() or name == "step"):  # a count: on the CPU, unless a kernel reads it
            return tensor.to(parameter.device) if group.get("fused") or group.get("capturable") else tensor
        if tensor.shape != parameter.shape:
            return tensor.to(parameter.device)
        return torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)

    @torch.no_grad()
    def step(self) -> None:
        for group, share in zip(self.made.param_groups, self.shares, strict=True):
            group["lr"] = share * self.lr
        self.made.step()


def _options(group: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options of a parameter group, but for the rate, which is set at every step."""
    return ((name, value) for name, value in group.items() if name not in ("params", "lr"))


def _device(group: Mapping[str, Any], name: str) -> torch.device:
    """Where a tensor of a group lies: as when the group was made, else with its parameters."""
    known = group.get(name)
    return known.device if isinstance(known, Tensor) else group["params"][0].device
