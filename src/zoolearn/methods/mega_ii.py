"""MEGA-II (Guo et al., 2020): each gradient is turned towards that of the memory, the further the larger its loss."""

import math
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

PARALLEL = 1e-10  # below this squared sine the two gradients span no plane to turn in


@dataclass(kw_only=True, eq=False)
class MegaII(SingleNet):
    """Turns the gradient g of a batch towards the gradient r of a batch from the memory, at the length of g.

    "Improved Schemes for Episodic Memory-based Lifelong Learning", the rotation of MEGA-II: with the losses l of the batch
    and m of the memory batch, and the angle a between g and r, the new angle to g is the one in [0, pi/2] that maximises
    l cos(angle) + m cos(a - angle). The first task is plain training. The memory batch passes through the net in
    training mode, so that batch-norm statistics follow it too. `stored_samples` is the memory; nothing else is kept.

    Where we differ: the angle has a closed form (`best_angle`) in place of a search by gradient ascent; gradients that
    are parallel or opposite are left alone by a test of their angle, not of their lengths; the memory of a task is drawn
    uniformly when the task ends, from its raw training data, in place of a ring of the last examples of a class. From
    the second task on every step moves all heads, with the recipe's momentum and weight decay (the paper has neither).
    The memory gradient is computed in float32 throughout.
    """

    memory_size: int = field(default=13, metadata={"help": "examples kept of each class or task"})
    memory_per: Per = field(default="class", metadata={"help": "what memory_size counts for"})
    memory_batch: int = field(default=256, metadata={"help": "examples drawn from the memory for each step"})

    memory: Memory = field(init=False, default_factory=Memory, repr=False)

    def __post_init__(self) -> None:
        check_sizes(memory_size=self.memory_size, memory_batch=self.memory_batch)

    def absorb(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task with turned gradients, then keeps some of it."""
        net, seed, known = self.grown(task), self.episode_seed(), [*self.classes, task.name]
        memory = (self.memory.with_one_head() if self.shared_head else self.memory).to(self.recipe.torch_device)
        refuse_single_rows(net, min(len(memory), self.memory_batch))
        flat = Flat(net.trainable(known))
        step = torch.zeros((), dtype=torch.int64)
        latest = torch.zeros((), device=self.recipe.torch_device)

        def noted(net: Net, batch: Batch) -> Tensor:
            loss = cross_entropy(net, batch)
            latest.copy_(loss.detach())
            return loss

        def turn(net: Net, _: Batch) -> None:
            past_loss = cross_entropy(net, memory.draw(self.memory_batch, derive(seed, "memory batch", int(step))))
            step.add_(1)
            gradient = flat.gradient()
            turned = mix(gradient, flat.gradient_of(past_loss), float(latest), float(past_loss.detach()))
            if turned is not gradient:
                flat.write_gradient(turned)

        loss = yield from fitting(
            net,
            [task],
            self.recipe,
            seed=seed,
            loss=noted,
            adjust=turn if len(memory) and self.memory_batch else None,
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


def mix(gradient: Tensor, reference: Tensor, loss: float, reference_loss: float) -> Tensor:
    """`gradient` turned towards `reference`, at its own length; itself where there is no plane to turn in."""
    both = torch.stack([gradient, reference]).double()
    gram: list[list[float]] = (both @ both.T).tolist()
    (own, product), (_, other) = gram
    if not 0 < own * other < math.inf:
        return gradient
    cosine = min(1.0, max(-1.0, product / math.sqrt(own * other)))
    if 1 - cosine * cosine <= PARALLEL:
        return gradient
    between = math.acos(cosine)
    angle = best_angle(between, loss, reference_loss)
    if angle == 0:
        return gradient
    across = math.sin(angle) / math.sin(between)
    return gradient * (math.cos(angle) - across * cosine) + reference * (across * math.sqrt(own / other))


def best_angle(between: float, loss: float, reference_loss: float) -> float:
    """The angle in [0, pi/2] that maximises loss * cos(angle) + reference_loss * cos(between - angle).

    The sum is one cosine whose peak is the direction of loss * (1, 0) + reference_loss * (cos between, sin between).

    >>> best_angle(math.pi / 3, loss=1.0, reference_loss=1.0) == math.pi / 6
    True
    """
    peak = math.atan2(reference_loss * math.sin(between), loss + reference_loss * math.cos(between))
    return min(max(peak, 0.0), math.pi / 2)
