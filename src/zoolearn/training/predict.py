"""Class probabilities of raw inputs by one or several nets, in pieces that fit the cache."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from zoolearn.errors import DataError
from zoolearn.nets.net import Net
from zoolearn.training.batches import to_device
from zoolearn.training.recipe import Recipe

ALIGNMENT = 64  # bytes, of memory that torch allocates
CACHED_ROWS = 64  # images whose features fit into a CPU's cache: a third faster than 256 at once


def probabilities(net: Net, x: Tensor, task: str, recipe: Recipe) -> Tensor:
    """The class probabilities that a net gives to raw inputs, in evaluation mode, on the CPU."""
    return join([output for (output,) in iter_probabilities([net], x, task, recipe)])


def iter_probabilities(nets: Sequence[Net], x: Tensor, task: str, recipe: Recipe) -> Iterator[list[Tensor]]:
    """The class probabilities by each net, for one piece of the inputs after the other.

    A piece is moved to the device and scaled once for all nets with the same scaling.
    """
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    for net in nets:
        make_ready(net, device)
    for rows in split_rows(nets, x, device):
        with torch.inference_mode():
            moved = to_device(align(rows), device)
            scaling, outputs = None, []
            for net in nets:
                if net.scaling != scaling:
                    scaling, inputs = net.scaling, net.normalize(moved)
                outputs.append(_softmax(net, inputs, task, dtype))
        yield outputs


def compute_features(net: Net, x: Tensor, recipe: Recipe) -> Tensor:
    """A net's features of raw (or standardised) inputs, in evaluation mode, on the CPU."""
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    make_ready(net, device)  # outside inference mode, in which weights that move could never be trained again
    parts = []
    with torch.inference_mode():
        for rows in split_rows([net], x, device):
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                parts.append(net.embed(to_device(align(rows), device)).float().cpu())
        return torch.cat(parts)


def average(outputs: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of votes on the same inputs."""
    weighted = (output if weight == 1.0 else weight * output for output, weight in zip(outputs, weights, strict=True))
    total = next(weighted)
    for output in weighted:
        total = total + output
    whole = sum(weights)
    return total if whole == 1.0 else total / whole


def combine(
    outputs: Sequence[Tensor], weights: Sequence[float], known: Sequence[Sequence[str]], wanted: Sequence[str]
) -> Tensor:
    """The answer of voters that may know different classes of a task: probabilities of the classes `wanted`, by name.

    `outputs` holds one tensor (row, class) for each voter, its columns named by `known`. The voters that know every wanted
    class, at least one, say how much probability the classes known to another voter have together; that voter divides it
    among them. If all voters know all classes, in this order, it is their weighted mean, bit for bit.

    >>> old, new = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.25, 0.25, 0.5]])
    >>> combine([old, new], [1.0, 1.0], [("cat", "dog"), ("cat", "dog", "fox")], ("cat", "dog", "fox")).tolist()
    [[0.3125, 0.1875, 0.5]]
    """
    wanted = tuple(wanted)
    if all(tuple(names) == wanted for names in known):
        return average(outputs, weights)
    votes = list(zip(outputs, weights, known, strict=True))
    whole = [(_order(vote, names, wanted), weight) for vote, weight, names in votes if {*names} == {*wanted}]
    if not whole:
        raise DataError(f"no voter knows all of the classes {', '.join(wanted)}; their outputs cannot be compared")
    mass = average(*zip(*whole, strict=True))
    return average([complete(vote, names, wanted, mass) for vote, _, names in votes], weights)


def complete(output: Tensor, known: Sequence[str], wanted: Sequence[str], whole: Tensor) -> Tensor:
    """Extends a vote among the `known` classes to all `wanted` ones, given their probabilities `whole`.

    The probability of the known classes together is divided as the voter says; that of the others stays.
    """
    if {*known} == {*wanted}:
        return _order(output, known, wanted)
    places = _places(known, wanted)
    completed = whole.clone()
    completed[:, places] = output * whole[:, places].sum(dim=1, keepdim=True)
    return completed


def _order(output: Tensor, known: Sequence[str], wanted: Sequence[str]) -> Tensor:
    return output if tuple(known) == tuple(wanted) else output[:, _places(wanted, known)]


def _places(names: Sequence[str], among: Sequence[str]) -> list[int]:
    found = {name: place for place, name in enumerate(among)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise DataError(f"a vote is about class {unknown[0]!r}, which is not among {', '.join(among)}")
    return [found[name] for name in names]


def join(pieces: Sequence[Tensor]) -> Tensor:
    """All pieces as one tensor."""
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))


def align(rows: Tensor) -> Tensor:
    """Copies rows that are not aligned in memory: kernels round differently by address, and equal rows must agree."""
    is_raw = rows.is_floating_point() and rows.device.type == "cpu"  # pixels are scaled into memory of their own
    return rows.clone() if is_raw and rows.data_ptr() % ALIGNMENT else rows


def make_ready(net: Net, device: torch.device) -> None:
    """Brings a net to the device, in evaluation mode."""
    if net.device != device:
        net.to(device)
    if not net.frozen:  # a part of the net may still be in training mode
        net.eval()


def split_rows(nets: Sequence[Net], x: Tensor, device: torch.device) -> Sequence[Tensor]:
    """Pieces of rows that these nets take at once; none is a single row where rows are normalised by each other."""
    pieces = torch.split(x, min(CACHED_ROWS if net.convolves and device.type == "cpu" else 256 for net in nets))
    if len(pieces) > 1 and len(pieces[-1]) == 1 and any(net.mixes_rows for net in nets):
        return (*pieces[:-2], *torch.tensor_split(x[-len(pieces[0]) - 1 :], 2))
    return pieces


def _softmax(net: Net, inputs: Tensor, task: str, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        return torch.softmax(net(inputs, task), dim=1).cpu()
    with torch.autocast(inputs.device.type, dtype):
        logits = net(inputs, task)
    return torch.softmax(logits.float(), dim=1).cpu()
