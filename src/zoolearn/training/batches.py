"""The batches of an epoch: the order of rows; gathering, moving and augmenting of many batches at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.data.augment import Augmentation, augment
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.seeds import generator
from zoolearn.training.recipe import Recipe

CHUNK_BYTES = 1 << 20  # of raw data gathered at once; a chunk is many batches, which share its cost


@dataclass(frozen=True)
class Batch:
    """Rows to train on; row i belongs to tasks[task_index[i]], its label counts within that task.

    `row_index` numbers the rows through all tasks of the training, if known. In a training, `step` and `epoch` count from
    0: random draws of a step can be derived from a seed and these.
    """

    x: Tensor
    y: Tensor
    task_index: Tensor
    tasks: tuple[str, ...]
    row_index: Tensor | None = None
    step: int = 0
    epoch: int = 0


def shuffled_order(tasks: Sequence[Task], seed: int) -> Tensor:
    """Every row of every task once, in random order; rows are numbered through all tasks."""
    return torch.randperm(sum(len(task.train) for task in tasks), generator=generator(seed))


def balanced_order(tasks: Sequence[Task], seed: int) -> Tensor:
    """Rows of the first task (each once) and of the others (as often as needed), alternating."""
    rng = generator(seed)
    new = len(tasks[0].train)
    others = sum(len(task.train) for task in tasks[1:])
    rounds = -(-new // others)
    past = torch.cat([torch.randperm(others, generator=rng) for _ in range(rounds)])[:new] + new
    return torch.stack([torch.randperm(new, generator=rng), past], dim=1).reshape(-1)


def steps_per_epoch(rows: int, batch_size: int) -> int:
    """How many batches an epoch over this many rows has."""
    return len(batch_sizes(rows, batch_size))


def batch_sizes(rows: int, batch_size: int) -> list[int]:
    """Full batches and the rest; a rest of one row joins the batch before it, since batch-norm cannot take one row.

    >>> batch_sizes(33, 16), batch_sizes(34, 16)
    ([16, 17], [16, 16, 2])
    """
    sizes = [batch_size] * (rows // batch_size)
    rest = rows % batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes


def iter_chunks(
    tasks: Sequence[Task], places: Tensor, sizes: Sequence[int], recipe: Recipe, seed: int, epoch: int = 0
) -> Iterator[Iterator[Batch]]:
    """The epoch's batches in groups that are gathered, moved and augmented at once."""
    row_bytes = tasks[0].train.x[0].numel() * tasks[0].train.x.element_size()
    per_chunk = max(1, CHUNK_BYTES // (row_bytes * recipe.batch_size))
    names = tuple(task.name for task in tasks)
    ends = torch.tensor([len(task.train) for task in tasks]).cumsum(0)
    rng = generator(seed)
    done = 0
    for first in range(0, len(sizes), per_chunk):
        chunk_sizes = list(sizes[first : first + per_chunk])
        chosen = places[done : done + sum(chunk_sizes)]
        done += len(chosen)
        x, y, rows = (to_device(part, recipe.torch_device) for part in _gather(tasks, ends, chosen))
        if recipe.augments:
            x = _augment_tasks(x, rows, tasks, rng, recipe.augment_by)
        steps = range(epoch * len(sizes) + first, epoch * len(sizes) + first + len(chunk_sizes))
        parts = zip(*(torch.split(part, chunk_sizes) for part in (x, y, rows, chosen)), steps, strict=True)
        yield (
            Batch(inputs, labels, owners, names, where, step, epoch) for inputs, labels, owners, where, step in parts
        )


def _augment_tasks(x: Tensor, rows: Tensor, tasks: Sequence[Task], rng: torch.Generator, vary: Augmentation) -> Tensor:
    """Augments each task's images as that task allows; a caller's own `augment_by` sees all of them."""
    for kinds in dict.fromkeys(task.augment for task in tasks if task.augment or vary is not augment):
        numbers = [number for number, task in enumerate(tasks) if task.augment == kinds]
        if len(numbers) == len(tasks):
            return _vary(x, kinds, rng, vary)
        here = torch.isin(rows, torch.tensor(numbers, device=rows.device))
        x[here] = _vary(x[here], kinds, rng, vary)
    return x


def _vary(x: Tensor, kinds: tuple[str, ...], rng: torch.Generator, vary: Augmentation) -> Tensor:
    made = vary(x, kinds, rng)
    if not isinstance(made, Tensor) or made.shape != x.shape or made.dtype != x.dtype:
        got = f"{tuple(made.shape)} {made.dtype}" if isinstance(made, Tensor) else type(made).__name__
        raise SettingsError(
            f"augment_by {vary.__name__} gave {got} for images {tuple(x.shape)} {x.dtype}; it must keep shape and dtype"
        )
    return made


def _gather(tasks: Sequence[Task], ends: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if len(tasks) == 1:
        train = tasks[0].train
        return train.x.index_select(0, places), train.y.index_select(0, places), torch.zeros_like(places)
    rows = torch.searchsorted(ends, places, right=True)
    first = tasks[0].train
    x = first.x.new_empty((len(places), *first.shape))
    y = torch.empty_like(places)
    for number, task in enumerate(tasks):
        here = (rows == number).nonzero()[:, 0]
        local = places[here] - (int(ends[number]) - len(task.train))
        x.index_copy_(0, here, task.train.x.index_select(0, local))
        y.index_copy_(0, here, task.train.y.index_select(0, local))
    return x, y, rows


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device; copies from a CPU to a GPU are asynchronous, through pinned memory."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor
