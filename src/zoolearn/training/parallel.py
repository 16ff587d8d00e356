"""One training by several processes: each takes its part of every batch, and all make the same step.

The processes of a `Crew` are connected by torch.distributed. The one of rank 0 leads: it has the learner and its folder,
and calls the others only to train. Every process gathers and augments the same batches and works on its own rows; losses
and gradients are added up, so all take the step that one process would take, up to the rounding of sums and, in backbones
with batch-norm, its statistics: each part is normalised by itself, and the running ones are the leader's. Dropout
masks are those of the whole batch. Where one process would train in float16, a crew trains in bfloat16: it needs no loss
scaling, in which each process would judge by its own gradients whether to skip a step.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import Diverged, WorkerDied
from zoolearn.nets.net import Net
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Checkpoints, Loss, Progress, cross_entropy, drain, fitting
from zoolearn.training.recipe import Recipe

LONGEST_SILENCE = timedelta(hours=2)  # between two trainings, while the leader evaluates


@dataclass(frozen=True)
class Training:
    """What the leader asks its crew to train, and the checkpoint to go on from."""

    net: Net
    tasks: Sequence[Task]
    recipe: Recipe
    seed: int
    balanced: bool
    loss: Loss
    checkpoint: bytes | None


@dataclass(frozen=True)
class Crew:
    """This process among those that train together."""

    rank: int
    size: int

    def fitting(
        self,
        net: Net,
        tasks: Sequence[Task],
        recipe: Recipe,
        *,
        seed: int,
        balanced: bool = False,
        loss: Loss = cross_entropy,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[Progress, None, float]:
        """`fitting` of the leader, with all others; the loss is a mean over rows."""
        before = checkpoints.path(seed) if checkpoints is not None else None
        checkpoint = before.read_bytes() if before is not None and before.exists() else None
        work = Training(net, tasks, recipe, seed, balanced, loss, checkpoint)
        self._exchange(work)
        return (yield from self._fitting(work, checkpoints))

    def follow(self) -> None:
        """The life of the others: they train what the leader trains, until it is gone."""
        while True:
            work = self._exchange(None)
            with TemporaryDirectory() as folder, suppress(Diverged):  # the leader has seen the same, and says so
                checkpoints = Checkpoints(Path(folder), every=work.recipe.epochs + 1)  # to read one, never to write
                if work.checkpoint is not None:
                    checkpoints.path(work.seed).write_bytes(work.checkpoint)
                drain(self._fitting(work, checkpoints))

    def _fitting(self, work: Training, checkpoints: Checkpoints | None) -> Generator[Progress, None, float]:
        recipe = work.recipe
        if recipe.autocast_dtype is torch.float16:
            recipe = replace(recipe, precision="bfloat16")
        movable = work.net.trainable([task.name for task in work.tasks])
        with _dropout_of_whole_batches(work.net) as place:

            def loss(net: Net, batch: Batch) -> Tensor:
                place.first, place.rows = first, rows = self.part(len(batch.y))
                place.whole = len(batch.y)
                mine = slice(first, first + rows)
                part = replace(batch, x=batch.x[mine], y=batch.y[mine], rows=batch.rows[mine])
                share = 1 / self.size if rows == len(batch.y) else rows / len(batch.y)
                value = work.loss(net, part) * share
                return value + (self._sum(value.detach().clone()) - value.detach())

            def adjust(_: Net, __: Batch) -> None:
                self._add_up_gradients(movable)

            return (
                yield from fitting(
                    work.net,
                    work.tasks,
                    recipe,
                    seed=work.seed,
                    loss=loss,
                    adjust=adjust,
                    balanced=work.balanced,
                    checkpoints=checkpoints,
                )
            )

    def part(self, rows: int) -> tuple[int, int]:
        """The first of this process's rows of a batch, and how many: all of a batch too small to give everyone two.

        >>> [Crew(rank, 2).part(17) for rank in range(2)], [Crew(rank, 2).part(3) for rank in range(2)]
        ([(0, 8), (8, 9)], [(0, 3), (0, 3)])
        """
        if rows < 2 * self.size:  # batch-norm cannot take a single row
            return 0, rows
        first, end = rows * self.rank // self.size, rows * (self.rank + 1) // self.size
        return first, end - first

    def _add_up_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Gives every process the sum of all gradients."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = self._sum(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, total in zip(
            gradients, torch.split(flat, [gradient.numel() for gradient in gradients]), strict=True
        ):
            gradient.copy_(total.view_as(gradient))

    def _sum(self, tensor: Tensor) -> Tensor:
        with _peers():
            dist.all_reduce(tensor)
        return tensor

    def _exchange(self, training: Training | None) -> Training:
        """What the leader wants trained, at every process."""
        orders = [training]
        with _peers():
            dist.broadcast_object_list(orders, src=0)
        assert orders[0] is not None
        return orders[0]


def crew_of_this_process() -> Crew | None:
    """The crew that this process belongs to, None if it works alone."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    return Crew(dist.get_rank(), dist.get_world_size())


@contextmanager
def leading(size: int, host: str, call: Callable[[int, str, int], Any]) -> Iterator[None]:
    """Makes this process the leader of a crew inside `with`; `call(rank, host, port)` has another process `join` it."""
    if size == 1:
        yield
        return
    store = _store(host, 0, size, is_master=True)
    for rank in range(1, size):
        call(rank, host, store.port)
    with _group(store, 0, size):
        yield


def join(rank: int, size: int, host: str, port: int) -> None:
    """Works for the leader that waits there, until it is gone."""
    store = _store(host, port, size, is_master=False)
    with suppress(WorkerDied), _group(store, rank, size):
        Crew(rank, size).follow()


def _store(host: str, port: int, size: int, *, is_master: bool) -> Any:
    """Where the processes of a crew find each other."""
    make: Any = dist.TCPStore  # type: ignore[attr-defined]
    return make(host, port, size, is_master=is_master, wait_for_workers=False, timeout=LONGEST_SILENCE)


@contextmanager
def _group(store: Any, rank: int, size: int) -> Iterator[None]:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LONGEST_SILENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _peers() -> Iterator[None]:
    """What goes wrong between processes is the loss of one of them."""
    try:
        yield
    except RuntimeError as error:
        raise WorkerDied(f"a process that trained with this one was lost ({str(error).splitlines()[0]})") from error


@dataclass
class _Place:
    """Which rows of the whole batch are being worked on here."""

    first: int = 0
    rows: int = 0
    whole: int = 0


@contextmanager
def _dropout_of_whole_batches(net: Net) -> Iterator[_Place]:
    """Lets dropout draw the mask of the whole batch and use that of the rows at hand, so that parts drop what the whole would."""
    place = _Place()
    layers = [layer for layer in net.modules() if isinstance(layer, nn.Dropout)]

    def dropped(layer: nn.Dropout, x: Tensor) -> Tensor:
        if not layer.training or not layer.p:
            return x
        copies = -(-place.whole // place.rows)
        whole = torch.cat([torch.ones_like(x)] * copies)[: place.whole]
        return x * F.dropout(whole, layer.p)[place.first : place.first + place.rows]

    for layer in layers:
        layer.forward = lambda x, layer=layer: dropped(layer, x)  # type: ignore[method-assign, misc]
    try:
        yield place
    finally:
        for layer in layers:
            del layer.forward
