"""What a net says of raw inputs: class probabilities, or its features, in pieces that suit the machine."""

import torch
from torch import Tensor

from zoolearn.batches import to_device
from zoolearn.nets import Net
from zoolearn.recipe import Recipe


@torch.inference_mode()
def probabilities(
    net: Net, x: Tensor, task: str, recipe: Recipe, batch_size: int | None = None, *, mirror: bool = False
) -> Tensor:
    """The class probabilities that a net gives to raw inputs, in evaluation mode, on the CPU.

    With `mirror`, the mean of those for a picture and for its mirror image.
    """
    if batch_size is None:
        batch_size = _rows_at_once(net, recipe)
    if net.head(task).weight.device != recipe.torch_device:
        net.to(recipe.torch_device)
    if not net.frozen:  # a part of the net may still be in training mode
        net.eval()
    if mirror and x.ndim == 4:
        parts = [
            (_answers(net, rows, task, recipe), _answers(net, rows.flip(-1), task, recipe))
            for rows in torch.split(x, batch_size)
        ]
        return torch.cat([(answer + mirrored) / 2 for answer, mirrored in parts])
    if len(x) <= batch_size:
        return _answers(net, x, task, recipe)
    return torch.cat([_answers(net, rows, task, recipe) for rows in torch.split(x, batch_size)])


def _rows_at_once(net: Net, recipe: Recipe) -> int:
    """On a CPU, the features of 64 images still fit into its cache: a third faster than 256."""
    return 64 if net.convolves and recipe.torch_device.type == "cpu" else 256


def _answers(net: Net, x: Tensor, task: str, recipe: Recipe) -> Tensor:
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    if device.type == "cpu" and dtype is None:
        return torch.softmax(net(x, task), dim=1)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        logits = net(to_device(x, device), task)
    return torch.softmax(logits.float(), dim=1).cpu()


@torch.inference_mode()
def feature_rows(net: Net, x: Tensor, recipe: Recipe) -> Tensor:
    """The features that a net's backbone makes of raw inputs, in evaluation mode, on the CPU."""
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    net.to(device)
    if not net.frozen:
        net.eval()
    parts = []
    for rows in torch.split(x, _rows_at_once(net, recipe)):
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            parts.append(net.embed(to_device(rows, device)).float().cpu())
    return torch.cat(parts)
