"""A-GEM (Chaudhry et al., 2019a): no step may oppose the average gradient of what is remembered."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoolearn.learner import Episode, Snapshot
from zoolearn.methods.single_net import SingleNet, part_of
from zoolearn.nets import Backbone, Net
from zoolearn.parts.flat import Flat
from zoolearn.parts.memory import Memory, Per, check_sizes, refuse_single_rows
from zoolearn.seeds import derive
from zoolearn.task import Task
from zoolearn.train import Batch, Progress, cross_entropy, fitting


@dataclass(kw_only=True, eq=False)
class AGem(SingleNet):
    """Projects each gradient g that opposes the gradient r of a batch drawn from the memory of all past tasks.

    "Efficient Lifelong Learning with A-GEM", equation 11: if <g, r> < 0 the step is g - (<g, r> / <r, r>) r, else g.
    The first task is plain training. The memory batch passes through the net in training mode, so that batch-norm
    statistics follow it too, as in the authors' code. `stored_samples` is the memory; nothing else is kept.

    Where we differ: the memory of a task is drawn uniformly when the task ends, from its raw training data, in place of
    a ring of the last examples of a class. A projected step also moves the heads of past tasks; they have no gradient
    in the other steps, so neither momentum nor weight decay moves them then. The guarantee is about the gradient: with
    momentum the step may still oppose r (the paper has none). The memory gradient is computed in float32 throughout.
    """

    memory_size: int = field(default=13, metadata={"help": "examples kept of each class or task"})
    memory_per: Per = field(default="class", metadata={"help": "what memory_size counts for"})
    memory_batch: int = field(default=256, metadata={"help": "examples drawn from the memory for each step"})

    memory: Memory = field(init=False, default_factory=Memory, repr=False)

    def __post_init__(self) -> None:
        check_sizes(memory_size=self.memory_size, memory_batch=self.memory_batch)

    def absorb(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task with projected gradients, then keeps some of it."""
        net, seed, known = self.grown(task), self.episode_seed(), [*self.classes, task.name]
        memory = (self.memory.with_one_head() if self.shared_head else self.memory).to(self.recipe.torch_device)
        refuse_single_rows(net, min(len(memory), self.memory_batch))
        flat = Flat(net.trainable(known))
        step = torch.zeros((), dtype=torch.int64)

        def spare_the_past(net: Net, _: Batch) -> None:
            past = memory.draw(self.memory_batch, derive(seed, "memory batch", int(step)))
            step.add_(1)
            gradient = flat.gradient()
            spared = project(gradient, flat.gradient_of(cross_entropy(net, past)))
            if spared is not gradient:
                flat.write_gradient(spared)

        loss = yield from fitting(
            net,
            [task],
            self.recipe,
            seed=seed,
            adjust=spare_the_past if len(memory) and self.memory_batch else None,
            heads=known,
            checkpoints=self.checkpoints,
            carried={"step": step},
        )
        self.net, self.memory = net, self.memory.keep(task, self.memory_size, self.memory_per, seed)
        return Episode((task.name,), None, loss)

    def knowledge(self) -> Snapshot:
        """The net and the memory."""
        own = super().knowledge()
        return Snapshot(own.info, {**own.parts, f"memory/{self.episode:04d}": self.memory.save()})

    def recall(self, snapshots: Sequence[Snapshot], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the net and the memory."""
        super().recall(snapshots, tasks, backbones)
        self.memory = Memory.load(part_of(snapshots[-1], "memory")[1])

    @property
    def stored_samples(self) -> int:
        """Examples in the memory."""
        return len(self.memory)


def project(gradient: Tensor, reference: Tensor) -> Tensor:
    """The nearest vector to `gradient` that does not oppose `reference`; the gradient itself if it does not.

    >>> project(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 2.0])).tolist()
    [1.0, 0.0]
    """
    product = torch.dot(gradient, reference)
    if not bool(product < 0):
        return gradient
    return gradient - (product / torch.dot(reference, reference)) * reference
