"""What nets say of raw inputs: class probabilities, in pieces that suit the machine."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from zoolearn.nets.net import Net
from zoolearn.training.batches import to_device
from zoolearn.training.recipe import Recipe

ALIGNMENT = 64  # bytes, of memory that torch allocates
CACHED_ROWS = 64  # images whose features still fit into the cache of a CPU: a third faster than 256 at once


def probabilities(net: Net, x: Tensor, task: str, recipe: Recipe) -> Tensor:
    """The class probabilities that a net gives to raw inputs, in evaluation mode, on the CPU."""
    return joined([said for (said,) in votes([net], x, task, recipe)])


def votes(nets: Sequence[Net], x: Tensor, task: str, recipe: Recipe) -> Iterator[list[Tensor]]:
    """The class probabilities that each of some nets gives, piece after piece of the inputs.

    A piece is moved to the device and scaled once for all nets that scale alike.
    """
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    for net in nets:
        make_ready(net, device)
    for rows in (x,) if len(x) <= CACHED_ROWS else torch.split(x, min(rows_at_once(net, device) for net in nets)):
        with torch.inference_mode():
            moved = to_device(aligned(rows), device)
            scaling, said = None, []
            for net in nets:
                if net.scaling != scaling:
                    scaling, inputs = net.scaling, net.normalize(moved)
                said.append(_answers(net, inputs, task, dtype))
        yield said


def average(said: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of votes on the same inputs."""
    counted = (answers if weight == 1.0 else weight * answers for answers, weight in zip(said, weights, strict=True))
    total = next(counted)
    for answers in counted:
        total = total + answers
    whole = sum(weights)
    return total if whole == 1.0 else total / whole


def joined(pieces: Sequence[Tensor]) -> Tensor:
    """The pieces of an answer as one."""
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))


def aligned(rows: Tensor) -> Tensor:
    """Rows where the allocator would put them: products round differently by address, and equal rows get equal answers."""
    is_raw = rows.is_floating_point() and rows.device.type == "cpu"  # pixels are scaled into memory of their own
    return rows.clone() if is_raw and rows.data_ptr() % ALIGNMENT else rows


def make_ready(net: Net, device: torch.device) -> None:
    """Brings a net to where it is asked, in evaluation mode."""
    if net.device != device:
        net.to(device)
    if not net.frozen:  # a part of the net may still be in training mode
        net.eval()


def rows_at_once(net: Net, device: torch.device) -> int:
    """Rows of a piece."""
    return CACHED_ROWS if net.convolves and device.type == "cpu" else 256


def _answers(net: Net, inputs: Tensor, task: str, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        return torch.softmax(net(inputs, task), dim=1).cpu()
    with torch.autocast(inputs.device.type, dtype):
        logits = net(inputs, task)
    return torch.softmax(logits.float(), dim=1).cpu()
