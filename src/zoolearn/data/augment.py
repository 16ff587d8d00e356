"""Random crops and mirror images of a whole batch at once, on whatever device it lies."""

from collections.abc import Callable, Collection

import torch
import torch.nn.functional as F
from torch import Tensor

PADDING = 4
Augmentation = Callable[[Tensor, Collection[str], torch.Generator], Tensor]  # (images, allowed kinds, generator)


def augment(x: Tensor, kinds: Collection[str], rng: torch.Generator) -> Tensor:
    """Each image padded by 4 black pixels and cropped back at a random place ("crop"), half of them mirrored ("flip").

    The draws come from a CPU generator, so that a run is the same on every device.

    >>> rng = torch.Generator().manual_seed(0)
    >>> augment(torch.full((2, 1, 8, 8), 7, dtype=torch.uint8), ["flip"], rng).unique().tolist()
    [7]
    """
    count, channels, height, width = x.shape
    offsets = torch.randint(0, 2 * PADDING + 1, (2, count), generator=rng)
    mirrored = torch.rand(count, generator=rng) < 0.5
    padding = PADDING if "crop" in kinds else 0
    rows = torch.arange(height).expand(count, height)
    columns = torch.arange(width).expand(count, width)
    if "flip" in kinds:
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    if padding:
        rows, columns = rows + offsets[0, :, None], columns + offsets[1, :, None]
        x = F.pad(x, (padding,) * 4)
    places = rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]
    places = places.reshape(count, 1, -1).expand(count, channels, -1).to(x.device)
    return x.reshape(count, channels, -1).gather(2, places).reshape(count, channels, height, width)


AUGMENT: dict[str, Augmentation] = {"task": augment}
