"""MC-SGD (Mirzadeh et al., 2021): a solution for all tasks, sought on straight lines of low loss between solutions."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from zoolearn.data.task import Array, Task
from zoolearn.errors import DataError
from zoolearn.files import Json
from zoolearn.methods.bases.with_memory import WithMemory
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.memory import Memory, Per
from zoolearn.methods.state import saved
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.seeds import derive, generator
from zoolearn.settings import setting
from zoolearn.training.batches import Batch, batch_sizes, steps_per_epoch
from zoolearn.training.fit import Loss, Work, check_single_rows, cross_entropy
from zoolearn.training.recipe import Recipe

LEAST_LR = 5e-4  # the decay over tasks stops here, as in the authors' code

Weights = Mapping[str, Tensor]
LossAt = Callable[[Weights], Tensor]


@dataclass(kw_only=True, eq=False)
class McSgd(WithMemory):
    """Learns each task by plain SGD, then moves the solution of all tasks towards it where lines to both stay low.

    "Linear Mode Connectivity in Multitask and Continual Learning", the objective of MC-SGD. With p the solution of all
    tasks so far and q that of the new task, the next solution w starts at p + `line_start` (q - p) and takes SGD
    steps on the sum over s = 0, 1/n, ..., 1 of L_memory(p + s (w - p)) + L_new(q + s (w - q)): the first over batches of
    a small memory of all tasks, the new one included, the second over some of the new task's data. A memory batch is of
    one task and counts by the mean over its own rows; an epoch deals all of them out to its steps, more than one to a
    step where there are more. `net`, which answers, is w; the next task is learned on from q ("hat") or from w ("bar").

    The authors' nets keep no batch-norm statistics and use those of the batch at hand, also when they answer: with
    `answer_norms="batch"` ours do so too. Such answers are transductive, an input's depends on those beside it (64 of
    them, as they come; 256 on a GPU or without convolutions), and a published number that was made so contains that.
    With "memory" statistics are measured on the memory after each task. On the lines the batch at hand decides in both,
    and no units are dropped.

    `num_parameters` counts the net and, where it is kept, q; `stored_samples` is the memory.

    Where we differ: the gradient is exact by default, s * grad L at each point; with `exact_gradient=False` it is the one
    of the authors' code, which is never set to zero along a line, so that point j of n counts n + 1 - j times, lacks the
    factor s and is divided by the rows of the batch once more. Every step has both terms: where there are fewer memory
    batches than steps they come again (the authors take the rest of the steps by the new task's term alone, and where
    there are more, by the memory's). Learning a task moves its own head only; the head of the new task, which p lacks, is
    there that of q. All tasks get the recipe's epochs; `first_factor=2` is the authors'.
    """

    memory_size: int = setting(1, "examples kept of each class or task", least=0)
    memory_per: Per = setting("class", "what memory_size counts for")
    line_points: int = setting(5, "parts into which each line is cut (the paper's n)", least=1)
    line_start: float = setting(0.5, "where w starts: 0 at the old solution, 1 at the new task's", least=0, most=1)
    line_lr: float = setting(0.005, "learning rate along the lines; 0 leaves w where it starts", least=0)
    line_batch: int = setting(64, "rows per step on each of the two lines", least=1)
    line_epochs: int = setting(1, "passes over the new task's line_samples", least=1)
    line_samples: int = setting(500, "examples of the new task on its line, the same share of each class", least=1)
    first_factor: int = setting(
        1, "epochs of the first task, in those of others (theirs: 2)", omit_default=True, least=1
    )
    answer_norms: Literal["memory", "batch"] = setting(
        "memory", "batch-norm at answers: measured on the memory, or of the inputs at hand", omit_default=True
    )
    lr_decay: float = setting(1.0, "the learning rate is multiplied by this after every task", above=0, most=1)
    exact_gradient: bool = setting(True, "no: the gradient of the authors' code")
    continue_from: Literal["hat", "bar"] = setting(
        "hat", "hat: learn the next task from the last one's solution; bar: from that of all"
    )

    hat: Net | None = saved(default=None)

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task, then seeks the solution of all."""
        bar = self.grow_net(task)
        if self.line_lr:
            check_single_rows(bar, "line_batch", self.line_batch)
        hat = deepcopy(bar) if self.hat is None else self._with_head(self.hat, task)
        seed = self.episode_seed()
        memory = self.memory.keep(task, self.memory_size, self.memory_per, seed)
        if self.line_lr and len(memory):
            check_single_rows(bar, "the size of a memory batch", min(len(batch.y) for batch in memory.by_task()))
        lr = max(min(LEAST_LR, self.recipe.lr), self.recipe.lr * self.lr_decay**self.episode)
        epochs = self.recipe.epochs * (1 if self.classes else self.first_factor)
        varies: Literal["yes", "no"] = (
            "yes" if self.recipe.augments else "no"
        )  # which a longer first task must not decide
        loss = yield from self.fit(hat, [task], recipe=replace(self.recipe, lr=lr, epochs=epochs, augment=varies))
        if self.classes:
            yield from self._connect(bar, hat, task, memory)
        else:
            bar = deepcopy(hat)
        self.net, self.memory = bar, memory
        self.hat = hat if self.continue_from == "hat" else None
        return Episode((task.name,), None, loss)

    def new_net(self, tasks: Iterable[Task], seed: int, backbone: Backbone | None = None) -> Net:
        """An untrained net, with batch-norm as it answers."""
        return self._add_norms(super().new_net(tasks, seed, backbone))

    def rebuild_net(self, spec: Mapping[str, Json], seed: int) -> Net:
        return self._add_norms(super().rebuild_net(spec, seed))

    def _add_norms(self, net: Net) -> Net:
        return by_the_batch(net) if self.answer_norms == "batch" else net

    def predict_proba(self, x: Array, task: str) -> Tensor:
        """Class probabilities; where the inputs at hand decide batch-norm, of two or more."""
        if self.answer_norms == "batch" and len(x) == 1:
            raise DataError(
                "1 input, but with answer_norms='batch' inputs are normalised by each other; give 2 or more"
            )
        return super().predict_proba(x, task)

    def _with_head(self, net: Net, task: Task) -> Net:
        net = deepcopy(net)
        if self.shared_head:
            net.share_head(task.name, net.tasks[0])
        else:
            net.add_head(task.name, len(task.classes))
        return net

    def _connect(self, bar: Net, hat: Net, task: Task, memory: Memory) -> Work[None]:
        """Moves `bar`, the solution of the tasks before, to one of all."""
        device, seed = self.recipe.torch_device, self.episode_seed("line")
        bar.to(device)
        hat.to(device)
        memory = memory.to(device)
        if not self.shared_head:
            bar.head(task.name).load_state_dict(hat.head(task.name).state_dict())
        ends = [{name: weight.detach().clone() for name, weight in net.named_parameters()} for net in (bar, hat)]
        with torch.no_grad():
            for name, weight in bar.named_parameters():
                weight.lerp_(ends[1][name], self.line_start)
        if self.line_lr and len(memory):
            some = task.subsample(min(1.0, self.line_samples / len(task.train)), seed)
            steps = steps_per_epoch(len(some.train), self.line_batch)
            loss = self._line_loss(bar, ends, deal(memory, self.line_batch, steps, seed))
            heads = [*self.classes, task.name]
            yield from self.fit(bar, [some], seed, recipe=self._line_recipe(), loss=loss, heads=heads)
        measure_norms(bar, memory)

    def _line_loss(self, bar: Net, ends: Sequence[Weights], dealt: Sequence[Sequence[Batch]]) -> Loss:
        """The sum of the losses on both lines, from the ends to the weights as they then are; `dealt` is the memory's part."""
        scored = _Scored(bar)

        def loss(net: Net, batch: Batch) -> Tensor:
            old, new = ends
            weights, exact = dict(net.named_parameters()), self.exact_gradient
            parts = [(old, past) for past in dealt[batch.step % len(dealt)]] + [(new, batch)]
            with torch.autocast(batch.x.device.type, enabled=False):
                scores = [(end, scored.on(part, exact)) for end, part in parts]
                lines = [along_line(score, end, weights, self.line_points, exact) for end, score in scores]
            return _as_loss(lines, weights)

        return loss

    def _line_recipe(self) -> Recipe:
        recipe = replace(self.recipe, lr=self.line_lr, batch_size=self.line_batch, epochs=self.line_epochs)
        return replace(recipe, schedule="constant", weight_decay=0.0, augment="no")

    @property
    def num_parameters(self) -> int:
        return super().num_parameters + (self.hat.num_parameters if self.hat is not None else 0)


class _Scored(nn.Module):
    """The loss of a net on a batch as a function of the weights: no units dropped, batch-norm over the batch at hand."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = by_the_batch(deepcopy(net)).eval()

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
    without, a point counts once for itself and once for each that follows, as in the authors' code.
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
                total[name].add_(gradient, alpha=place if exact else points + 1 - number)
    return torch.stack(values).sum(), total


def deal(memory: Memory, rows: int, steps: int, seed: int) -> list[list[Batch]]:
    """The memory in batches of one task and at most `rows`, in random order, for each of the steps of an epoch.

    All are dealt out, and where there are fewer than steps, they come again.
    """
    batches = []
    for batch in memory.by_task():
        sizes = batch_sizes(len(batch.y), rows)
        pieces = zip(torch.split(batch.x, sizes), torch.split(batch.y, sizes), strict=True)
        batches += [Batch(x, y, torch.zeros_like(y), batch.tasks) for x, y in pieces]
    order = torch.randperm(len(batches), generator=generator(derive(seed, "memory batches"))).tolist()
    return [[batches[place] for place in order[step::steps] or [order[step % len(order)]]] for step in range(steps)]


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


def by_the_batch(net: Net) -> Net:
    """The net itself, its batch-norms without statistics of their own: the batch at hand decides, also in answers."""
    for norm in _norms(net):
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None
        net.mixes_rows = True
    return net


def _norms(net: Net) -> list[nn.modules.batchnorm._BatchNorm]:
    return [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
