"""MC-SGD (Mirzadeh et al., 2021): a solution for all tasks, sought on straight lines of low loss between solutions."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.memory import Memory, Per, check_sizes
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.seeds import derive, generator
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Loss, Progress, check_single_rows, cross_entropy
from zoolearn.training.recipe import Recipe

LEAST_LR = 5e-4  # the decay over tasks stops here, as in the authors' code

Weights = Mapping[str, Tensor]
LossAt = Callable[[Weights], Tensor]


@dataclass(kw_only=True, eq=False)
class McSgd(SingleNet):
    """Learns each task by plain SGD, then moves the solution of all tasks towards it where lines to both stay low.

    "Linear Mode Connectivity in Multitask and Continual Learning", the objective of MC-SGD. With p the solution of all
    tasks so far and q that of the new task, the next solution w starts at p + `line_start` (q - p) and takes SGD
    steps on the sum over s = 0, 1/n, ..., 1 of L_memory(p + s (w - p)) + L_new(q + s (w - q)): the first over batches of
    a small memory of all tasks, the new one included, the second over some of the new task's data. `net`, which answers,
    is w; the next task is learned on from q ("hat") or from w ("bar").

    `num_parameters` counts the net and, where it is kept, q; `stored_samples` is the memory.

    Where we differ: the gradient is exact by default, s * grad L at each point; with `exact_gradient=False` it is the
    authors', without the factor s and divided by the batch size once more. Each memory batch is a fresh draw, of at most
    `line_batch`, so every step has both terms. Learning a task moves its own head only; the head of the new task, which p
    lacks, is there that of q. All tasks get the recipe's epochs (the authors double the first). Batch-norm statistics do
    not interpolate: the authors' nets have none and use those of the batch at hand, also when they answer. We do so on
    the lines, where no units are dropped either; for the answers the statistics are measured again on the memory, unless
    the backbone keeps none.
    """

    memory_size: int = field(default=1, metadata={"help": "examples kept of each class or task"})
    memory_per: Per = field(default="class", metadata={"help": "what memory_size counts for"})
    line_points: int = field(default=5, metadata={"help": "parts into which each line is cut (the paper's n)"})
    line_start: float = field(
        default=0.5, metadata={"help": "where w starts: 0 at the old solution, 1 at the new task's"}
    )
    line_lr: float = field(default=0.01, metadata={"help": "learning rate along the lines; 0 leaves w where it starts"})
    line_batch: int = field(default=64, metadata={"help": "rows per step on each of the two lines"})
    line_epochs: int = field(default=1, metadata={"help": "passes over the new task's line_samples"})
    line_samples: int = field(
        default=500, metadata={"help": "examples of the new task used on its line, as many of each class as its share"}
    )
    lr_decay: float = field(default=1.0, metadata={"help": "the learning rate is multiplied by this after every task"})
    exact_gradient: bool = field(default=True, metadata={"help": "no: the gradient of the authors' code"})
    continue_from: Literal["hat", "bar"] = field(
        default="hat", metadata={"help": "hat: learn the next task from the last one's solution; bar: from that of all"}
    )

    memory: Memory = saved(default_factory=Memory)
    hat: Net | None = saved(default=None)

    def __post_init__(self) -> None:
        check_sizes(memory_size=self.memory_size)
        for name in ("line_points", "line_batch", "line_epochs", "line_samples"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if not 0 <= self.line_start <= 1:
            raise SettingsError(f"line_start is {self.line_start}; it is a place on a line, from 0 to 1")
        if not 0 <= self.line_lr < math.inf:
            raise SettingsError(f"line_lr is {self.line_lr}; it must be 0 or more")
        if not 0 < self.lr_decay <= 1:
            raise SettingsError(f"lr_decay is {self.lr_decay}; it must be above 0 and at most 1")

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task, then seeks the solution of all."""
        bar = self.grown(task)
        if self.line_lr:
            check_single_rows(bar, "line_batch", self.line_batch)
        hat = deepcopy(bar) if self.hat is None else self._with_head(self.hat, task)
        seed = self.episode_seed()
        lr = max(min(LEAST_LR, self.recipe.lr), self.recipe.lr * self.lr_decay**self.episode)
        loss = yield from self.fit(hat, [task], recipe=replace(self.recipe, lr=lr))
        memory = self.memory.keep(task, self.memory_size, self.memory_per, seed)
        if self.classes:
            yield from self._connect(bar, hat, task, memory)
        else:
            bar = deepcopy(hat)
        self.net, self.memory = bar, memory
        self.hat = hat if self.continue_from == "hat" else None
        return Episode((task.name,), None, loss)

    def _with_head(self, net: Net, task: Task) -> Net:
        net = deepcopy(net)
        if self.shared_head:
            net.share_head(task.name, net.tasks[0])
        else:
            net.add_head(task.name, len(task.classes))
        return net

    def _connect(self, bar: Net, hat: Net, task: Task, memory: Memory) -> Generator[Progress, None, None]:
        """Moves `bar`, the solution of the tasks before, to one of all."""
        device, seed = self.recipe.torch_device, self.episode_seed("line")
        bar.to(device)
        hat.to(device)
        memory = (memory.with_one_head() if self.shared_head else memory).to(device)
        if not self.shared_head:
            bar.head(task.name).load_state_dict(hat.head(task.name).state_dict())
        ends = [{name: weight.detach().clone() for name, weight in net.named_parameters()} for net in (bar, hat)]
        with torch.no_grad():
            for name, weight in bar.named_parameters():
                weight.lerp_(ends[1][name], self.line_start)
        if self.line_lr and len(memory):
            some = task.subsample(min(1.0, self.line_samples / len(task.train)), seed)
            loss = self._line_loss(bar, ends, memory, seed)
            heads = [*self.classes, task.name]
            yield from self.fit(bar, [some], seed, recipe=self._line_recipe(), loss=loss, heads=heads)
        measure_norms(bar, memory)

    def _line_loss(self, bar: Net, ends: Sequence[Weights], memory: Memory, seed: int) -> Loss:
        """The sum of the losses on both lines, from the ends to the weights as they then are."""
        scored = _Scored(bar)

        def loss(net: Net, batch: Batch) -> Tensor:
            past = memory.draw(self.line_batch, derive(seed, "memory batch", batch.step))
            weights = dict(net.named_parameters())
            with torch.autocast(batch.x.device.type, enabled=False):
                lines = [
                    along_line(
                        scored.on(part, self.exact_gradient), end, weights, self.line_points, self.exact_gradient
                    )
                    for part, end in zip((past, batch), ends, strict=True)
                ]
            return _as_loss(lines, weights)

        return loss

    def _line_recipe(self) -> Recipe:
        return replace(
            self.recipe,
            lr=self.line_lr,
            batch_size=self.line_batch,
            epochs=self.line_epochs,
            schedule="constant",
            weight_decay=0.0,
            augment="no",
        )

    @property
    def stored_samples(self) -> int:
        """Examples in the memory."""
        return len(self.memory)

    @property
    def num_parameters(self) -> int:
        """Weights of the net and of the newest task's solution."""
        return super().num_parameters + (self.hat.num_parameters if self.hat is not None else 0)


class _Scored(nn.Module):
    """The loss of a net on a batch as a function of the weights: no units dropped, batch-norm over the batch at hand."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = deepcopy(net).eval()
        for norm in _norms(self.net):
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = norm.num_batches_tracked = None

    def forward(self, batch: Batch) -> Tensor:
        return cross_entropy(self.net, batch)

    def on(self, batch: Batch, exact: bool) -> LossAt:
        divisor = 1 if exact else len(batch.y)

        def loss(weights: Weights) -> Tensor:
            named = {f"net.{name}": weight for name, weight in weights.items()}
            return cast(Tensor, functional_call(self, named, (batch,))) / divisor

        return loss


def along_line(
    loss: LossAt, end: Weights, weights: Weights, points: int, exact: bool = True
) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum of a loss over equal steps from `end` to `weights`, and its gradient in `weights`.

    One point is held in memory at a time. With `exact`, the point at `end`, which no weight can change, is left out;
    without, every point counts the same in the gradient, as in the authors' code.
    """
    values = []
    total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for number in range(1 if exact else 0, points + 1):
        place = number / points
        point = {name: end[name].lerp(weight.detach(), place).requires_grad_() for name, weight in weights.items()}
        value = loss(point)
        values.append(value.detach())
        gradients = torch.autograd.grad(value, list(point.values()), allow_unused=True)
        for name, gradient in zip(point, gradients, strict=True):
            if gradient is not None:
                total[name].add_(gradient, alpha=place if exact else 1.0)
    return torch.stack(values).sum(), total


def _as_loss(lines: Sequence[tuple[Tensor, Weights]], weights: Weights) -> Tensor:
    """A scalar with the summed value of some lines, whose gradient is the sum of theirs."""
    total = torch.stack([value for value, _ in lines]).sum()
    for _, gradients in lines:
        for name, weight in weights.items():
            total = total + (gradients[name] * (weight - weight.detach())).sum()
    return total


@torch.no_grad()
def measure_norms(net: Net, memory: Memory) -> None:
    """Sets batch-norm statistics, where a net keeps some, to those of the memory."""
    norms = [norm for norm in _norms(net) if norm.track_running_stats]
    if not norms or not len(memory):
        return
    net.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain average over batches
        norm.train()
    order = torch.randperm(len(memory), generator=generator(0)).to(memory.y.device)
    for rows in torch.tensor_split(order, math.ceil(len(memory) / 256)):
        net.embed(memory.x[rows])
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def _norms(net: Net) -> list[nn.modules.batchnorm._BatchNorm]:
    return [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
