"""The base of methods that store a few examples of every task: for replay, or to constrain gradients."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.data.task import Task, merge_classes
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.ensemble import Arrived
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.memory import Memory, Per
from zoolearn.methods.parts.reservoir import Reservoir
from zoolearn.methods.state import derived, saved
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Work, check_single_rows, cross_entropy


@dataclass(kw_only=True, eq=False)
class WithMemory(SingleNet):
    """One net, and a memory of some examples of every task."""

    memory: Memory = saved(default_factory=Memory)
    arrived: dict[str, Arrived] = derived(default_factory=dict)  # of every task met

    def with_some(self, task: Task, size: int, per: Per) -> Memory:
        """The memory with up to `size` examples of a task, or of each of its classes; counts the rows that arrive."""
        before = self.arrived.get(task.name, Arrived())
        self.arrived[task.name] = before.after(task)
        return self.memory.keep(task, size, per, self.episode_seed(), before.rows)

    def rebuild(self, tasks: Sequence[Task]) -> None:
        self.arrived, known = {}, dict[str, tuple[str, ...]]()
        for task in tasks:
            known[task.name] = merge_classes(known.get(task.name, ()), task.classes)
            part = task.relabel(known[task.name])
            self.arrived[task.name] = self.arrived.get(task.name, Arrived()).after(part)

    @property
    def stored_samples(self) -> int:
        return len(self.memory)


@dataclass(kw_only=True, eq=False)
class WithReservoir(SingleNet):
    """One net, and a memory that is a uniform sample of all rows seen; it fills while a task is learned."""

    memory_size: int = setting(500, "samples kept in all", least=0)
    memory_batch: int = setting(0, "rows in each replayed batch; 0: as many as are new", least=0)

    memory: Reservoir = saved()

    def __post_init__(self) -> None:
        self.memory = Reservoir(self.memory_size)

    def check_memory_batch(self, net: Net) -> None:
        """Raises if single rows from the memory would pass through a net with batch-norm."""
        rows = min(self.memory_size, self.memory_batch or self.memory_size)
        check_single_rows(net, "the size of a memory batch", rows)

    def draw(self, count: int) -> dict[str, Tensor]:
        """A batch from the memory, of `count` rows if its size is not set."""
        return self.memory.draw(self.memory_batch or count, self.episode_seed("memory"))

    @property
    def stored_samples(self) -> int:
        return self.memory.filled


@dataclass(kw_only=True, eq=False)
class GradientGuided(WithMemory):
    """Corrects every gradient by that of a batch drawn from the memory of all past tasks."""

    tasks_grow = True

    memory_size: int = setting(13, "examples kept of each class or task", least=0)
    memory_per: Per = setting("class", "what memory_size counts for")
    memory_batch: int = setting(256, "examples drawn from the memory for each step", least=0)

    def look(self, net: Net, batch: Batch) -> None:
        """Called before the memory's batch and the new one pass through the net; does nothing here."""

    @abstractmethod
    def guide(self, gradient: Tensor, past: Tensor, loss: Tensor, past_loss: Tensor) -> Tensor:
        """The gradient to step by, given that of the memory batch and both losses; `gradient` itself to leave it."""

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task with corrected gradients, then stores some of it."""
        net, seed, known = self.grow_net(task), self.episode_seed(), [*self.classes, task.name]
        device = self.recipe.torch_device
        memory = (self.memory.with_one_head() if self.shared_head else self.memory).to(device)
        kept = self.with_some(task, self.memory_size, self.memory_per)
        next_rows = min(len(kept), self.memory_batch)  # what the next task would meet, before any training
        check_single_rows(net, "the size of a memory batch", next_rows)
        flat = Flat(net.trainable(known))
        past = torch.zeros(len(flat), device=device)
        past_loss, new_loss = torch.zeros(2, device=device)

        def loss_after_memory(net: Net, batch: Batch) -> Tensor:
            """The loss of the batch, computed after that of the memory: the last pass moves batch-norm statistics most."""
            self.look(net, batch)
            with torch.autocast(device.type, enabled=False):
                loss = cross_entropy(net, memory.draw(self.memory_batch, derive(seed, "memory batch", batch.step)))
                flat.gradient_of(loss, out=past)
                past_loss.copy_(loss.detach())
            new = cross_entropy(net, batch)
            new_loss.copy_(new.detach())
            return new

        def guide(*_: object) -> None:
            gradient = flat.gradient()
            guided = self.guide(gradient, past, new_loss, past_loss)
            if guided is not gradient:
                flat.write_gradient(guided)

        loss_slot, adjust_slot = (loss_after_memory, guide) if len(memory) and self.memory_batch else (None, None)
        loss = yield from self.fit(net, [task], loss=loss_slot, adjust=adjust_slot, heads=known)
        self.net, self.memory = net, kept
        return Episode((task.name,), None, loss)
