"""TAG (Malviya et al., 2022): RMSProp that remembers the gradients of each task and shrinks steps that would hurt it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.methods.parts.flat import Flat, is_skipped
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Work
from zoolearn.training.recipe import Recipe

EPSILON = 1e-8
TINY = torch.finfo(torch.float32).tiny


@dataclass(kw_only=True, eq=False)
class Tag(SingleNet):
    """Divides each gradient by the root of second moments of all tasks, those of tasks that disagree weighing more.

    "TAG: Task-based Accumulated Gradients for Lifelong Learning", its RMSProp form. For each parameter tensor, with the running means m of its gradients g and v of their squares in this task, and from every past task t its last
    v_t and the direction u_t of its last m_t: the step is lr * g / (sqrt(e^-b v + sum_t exp(-b cos(u_t, m)) v_t) + 1e-8),
    where b is `contrast`; on the first task it is lr * g / (sqrt(v) + 1e-8).

    `num_parameters` counts, beside the net, the directions and second moments of past tasks: 2 per shared weight and task, so
    it grows with the tasks. Nothing is replayed.

    Where we differ: heads are separate, and past heads stay as they are. The head of a new task has no past, but its own v
    counts e^-b from the second task on, like the rows of new classes in the one output matrix of the authors' code: with
    v itself, heads learn e^(b/2) times slower than the rest expects, and Split-CIFAR100 ends ten points lower. (One shared
    head has its past like the rest.) A tensor of the backbone counts a past task only if it had gradients in it; the
    cosine of a gradient that is zero is 0. The step goes through the recipe: its momentum acts on
    the divided gradient, and its weight decay beside it. The paper has neither, and a small constant rate, well
    below that of SGD (2.5e-4 for Split-CIFAR100); so are the defaults, but for the schedule.

    It is made for one pass: over many, gradients and with them v_t fade, so that later steps grow and it may end below
    fine-tuning. On `split-digits` (`--backbone mlp --epochs 30 --seeds 2`) it has 90.36 with a contrast of 5, 95.68 with 1
    and 96.87 with 0, fine-tuning 95.50.

    Batch-norm statistics are shared by all tasks and follow the newest, as in the authors' code.
    """

    tasks_grow = True

    recipe: Recipe = recipe_field(lr=5e-4, momentum=0.0, weight_decay=0.0)
    contrast: float = setting(5.0, "how sharply agreement with a past task's direction counts (the paper's b)", least=0)
    first_decay: float = setting(0.9, "share of the mean gradient kept at each step", least=0, below=1)
    second_decay: float = setting(0.99, "share of the mean squared gradient kept at each step", least=0, below=1)

    directions: Tensor = saved(default_factory=lambda: torch.empty(0))  # past tasks x weights
    seconds: Tensor = saved(default_factory=lambda: torch.empty(0))
    moments: Tensor = saved(default_factory=lambda: torch.empty(0))  # the two of the task that is being learned

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task with divided gradients, then keeps its moments."""
        net, device = self.grow_net(task), self.recipe.torch_device
        shared = Flat(self.shared_parameters(net))
        flat = Flat([*shared.parameters, *(() if self.shared_head else net.head(task.name).parameters())])
        self.moments = torch.zeros(2, len(flat), device=device)
        denominator = self._denominator(shared, len(flat))

        def divide(_: Net, __: Batch) -> None:
            gradient = flat.gradient()
            if is_skipped(gradient, self.recipe):
                return
            first, second = self.moments
            first.lerp_(gradient, 1 - self.first_decay)
            second.mul_(self.second_decay).addcmul_(gradient, gradient, value=1 - self.second_decay)
            flat.write_gradient(gradient.div_(denominator(first, second)))

        loss = yield from self.fit(net, [task], adjust=divide)
        first, second = self.moments[:, : len(shared)].cpu()
        self.net, self.moments = net, torch.empty(0)
        self.directions = torch.cat([self.directions, _directions(torch.split(first, shared.sizes))[None]])
        self.seconds = torch.cat([self.seconds, second[None]])
        return Episode((task.name,), None, loss)

    def _denominator(self, shared: Flat, weights: int) -> Callable[[Tensor, Tensor], Tensor]:
        """What gives the divisor of the gradient from both moments."""
        if not self.classes:
            return lambda _, second: second.sqrt().add_(EPSILON)
        device = self.recipe.torch_device
        directions = torch.split(self.directions.to(device), shared.sizes, dim=1)
        past = [part.t() for part in torch.split(self.seconds.to(device), shared.sizes, dim=1)]
        has_past = torch.stack([part.any() for part in directions]).tolist()
        own = [math.exp(-self.contrast) if has else 1.0 for has in has_past]
        total = torch.empty(weights, device=device)
        totals = torch.split(total[: len(shared)], shared.sizes)

        def weigh(first: Tensor, second: Tensor) -> Tensor:
            means = torch.split(first[: len(shared)], shared.sizes)
            present = torch.split(second[: len(shared)], shared.sizes)
            total[len(shared) :] = second[len(shared) :] * math.exp(-self.contrast)
            for parts in zip(totals, present, past, agreement(directions, means, self.contrast), own, strict=True):
                out, now, before, weights, share = parts
                torch.addmv(now, before, weights, beta=share, out=out)
            return total.sqrt_().add_(EPSILON)

        return weigh

    @property
    def num_parameters(self) -> int:
        return super().num_parameters + self.directions.numel() + self.seconds.numel()


def agreement(directions: Sequence[Tensor], means: Sequence[Tensor], contrast: float) -> Tensor:
    """The weights exp(-contrast * cosine) of past tasks' moments, one row a tensor, computed where the tensors are.

    >>> past = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> agreement([past], [torch.tensor([3.0, 0.0])], contrast=1.0)
    tensor([[0.3679, 1.0000, 2.7183]])
    """
    products = torch.stack([torch.mv(part, mean) for part, mean in zip(directions, means, strict=True)])
    lengths = torch.stack(torch._foreach_norm([*means])).clamp_min_(TINY)
    return products.div_(lengths[:, None]).clamp_(-1.0, 1.0).mul_(-contrast).exp_()


def _directions(means: Sequence[Tensor]) -> Tensor:
    """Each part at length 1, zeros left as they are, as one vector."""
    lengths = torch.stack(torch._foreach_norm([*means])).clamp_min_(TINY)
    return torch.cat([mean / length for mean, length in zip(means, lengths, strict=True)])
