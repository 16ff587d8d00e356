"""Features of the inner layers of a backbone, from the same forward pass: more for a linear head to read."""

from collections import OrderedDict
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.nets.backbones import Shape

Pool = Callable[[Tensor, list[int], list[int]], Tensor]


class LayerFeatures(nn.Sequential):
    """A sequential backbone that in evaluation mode appends features of its inner maps to its own.

    Inner maps are the inputs of all convolutions but the first. Each gives its standard deviations over the picture, the
    last one also its mean and its maximum over the four quarters. In training mode the backbone is unchanged, and its
    weights have the same names.

    >>> from zoolearn.nets.backbones import small_conv
    >>> from zoolearn.nets.perceptrons import mlp
    >>> LayerFeatures(small_conv((3, 32, 32)), (3, 32, 32)).blocks
    (320, 320, 320, 160)
    >>> LayerFeatures(mlp((1, 8, 8)), (1, 8, 8)).blocks
    (256,)
    """

    def __init__(self, backbone: nn.Sequential, shape: Shape) -> None:
        super().__init__(OrderedDict(backbone.named_children()))
        with torch.no_grad():
            self.blocks = tuple(block.shape[1] for block in self.eval().read(torch.zeros(1, *shape)))
        self.train(backbone.training)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else torch.cat(self.read(x), dim=1)  # type: ignore[no-untyped-call]

    def read(self, x: Tensor) -> list[Tensor]:
        """The features in blocks, the backbone's own first."""
        inside: list[Tensor] = []
        is_first = True
        for layer in self:
            if any(isinstance(module, nn.Conv2d) for module in layer.modules()):
                inside += [] if is_first else [x]
                is_first = False
            x = layer(x)
        if not inside:
            return [x]
        deviations = torch.cat([_deviations(maps.float()) for maps in inside], dim=1)
        return [x, _quarters(inside[-1], F.avg_pool2d), _quarters(inside[-1], F.max_pool2d), deviations]


def _deviations(maps: Tensor) -> Tensor:
    """The standard deviation of each map; `std` takes ten times as long where channels come last."""
    return (maps - maps.mean(dim=(2, 3), keepdim=True)).square().mean(dim=(2, 3)).sqrt()


def _quarters(maps: Tensor, pool: Pool) -> Tensor:
    """Each map pooled to 2 x 2; halves of an odd side share its middle, a side of one is not halved."""
    sides = maps.shape[2:]
    return pool(maps, [-(-side // 2) for side in sides], [max(1, side // 2) for side in sides]).flatten(1)
