"""A list of parameters as one vector, for methods that compare or mix whole gradients."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from zoolearn.training.fit import Adjust
from zoolearn.training.recipe import Recipe


class Flat:
    """Parameters as one vector, each in its logical order whatever its memory layout.

    A parameter without a gradient (the head of a task that is not in the batch) reads as zeros and gets one on writing.

    >>> used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
    >>> flat = Flat([used, unused])
    >>> (3 * used).sum().backward()
    >>> flat.gradient().tolist()
    [3.0, 3.0, 0.0]
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.sizes = [parameter.numel() for parameter in self.parameters]

    def __len__(self) -> int:
        return sum(self.sizes)

    def data(self) -> Tensor:
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])

    def gradient(self) -> Tensor:
        return self._join([parameter.grad for parameter in self.parameters])

    def gradient_of(self, loss: Tensor, out: Tensor | None = None) -> Tensor:
        """The gradient of a loss, written to `out` if given; the parameters' own gradients stay as they are."""
        return self._join(torch.autograd.grad(loss, self.parameters, allow_unused=True), out)

    @torch.no_grad()
    def write_data(self, vector: Tensor) -> None:
        torch._foreach_copy_([*self.parameters], self._shape(vector))

    @torch.no_grad()
    def write_gradient(self, vector: Tensor) -> None:
        """Sets the gradients, in the memory layout of their parameters, as the fused optimizer needs them."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        torch._foreach_copy_(gradients, self._shape(vector))

    def _join(self, gradients: Iterable[Tensor | None], out: Tensor | None = None) -> Tensor:
        pairs = zip(self.parameters, gradients, strict=True)
        present = [torch.zeros_like(parameter) if gradient is None else gradient for parameter, gradient in pairs]
        return torch.cat([gradient.reshape(-1) for gradient in present], out=out)

    def _shape(self, vector: Tensor) -> list[Tensor]:
        parts = zip(torch.split(vector, self.sizes), self.parameters, strict=True)
        return [part.view(parameter.shape) for part, parameter in parts]


def clip_gradients(parameters: Sequence[nn.Parameter], largest: float) -> Adjust | None:
    """A slot that clips the norm of gradients to `largest`; None if that is 0."""

    def shorten(*_: object) -> None:
        nn.utils.clip_grad_norm_(parameters, largest)

    return shorten if largest else None


def is_skipped(gradient: Tensor, recipe: Recipe) -> bool:
    """Whether loss scaling skips the step of a gradient that overflowed in float16; it must not be stored."""
    return recipe.autocast_dtype is torch.float16 and not bool(torch.isfinite(gradient).all())
