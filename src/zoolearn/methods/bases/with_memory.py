"""What the methods share that keep a few examples of every task to hold their gradients against."""

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.memory import Memory, Per, check_single_rows, check_sizes
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Progress, cross_entropy


@dataclass(kw_only=True, eq=False)
class WithMemory(SingleNet):
    """One net, and a memory of some examples of every task."""

    memory: Memory = saved(default_factory=Memory)

    @property
    def stored_samples(self) -> int:
        """Examples in the memory."""
        return len(self.memory)


@dataclass(kw_only=True, eq=False)
class GradientGuided(WithMemory):
    """Sets every gradient right by the gradient of a batch that is drawn from the memory of all past tasks."""

    tasks_grow: ClassVar[bool] = True

    memory_size: int = field(default=13, metadata={"help": "examples kept of each class or task"})
    memory_per: Per = field(default="class", metadata={"help": "what memory_size counts for"})
    memory_batch: int = field(default=256, metadata={"help": "examples drawn from the memory for each step"})

    def __post_init__(self) -> None:
        check_sizes(memory_size=self.memory_size, memory_batch=self.memory_batch)

    @abstractmethod
    def guided(self, gradient: Tensor, past: Tensor, loss: Tensor, past_loss: Tensor) -> Tensor:
        """The gradient to step by, given that of the memory batch and both losses; `gradient` itself to leave it."""

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task with guided gradients, then keeps some of it."""
        net, seed, known = self.grown(task), self.episode_seed(), [*self.classes, task.name]
        device = self.recipe.torch_device
        memory = (self.memory.with_one_head() if self.shared_head else self.memory).to(device)
        kept = self.memory.keep(task, self.memory_size, self.memory_per, seed)
        check_single_rows(net, min(len(kept), self.memory_batch))  # what the next task would meet, before any training
        flat = Flat(net.trainable(known))
        latest = torch.zeros((), device=device)

        def noted(net: Net, batch: Batch) -> Tensor:
            loss = cross_entropy(net, batch)
            latest.copy_(loss.detach())
            return loss

        def guide(net: Net, batch: Batch) -> None:
            past_loss = cross_entropy(net, memory.draw(self.memory_batch, derive(seed, "memory batch", batch.step)))
            gradient = flat.gradient()
            guided = self.guided(gradient, flat.gradient_of(past_loss), latest, past_loss.detach())
            if guided is not gradient:
                flat.write_gradient(guided)

        adjust = guide if len(memory) and self.memory_batch else None
        loss = yield from self.fit(net, [task], loss=noted, adjust=adjust, heads=known)
        self.net, self.memory = net, kept
        return Episode((task.name,), None, loss)
