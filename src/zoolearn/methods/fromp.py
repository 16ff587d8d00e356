"""FROMP: functional regularisation of the memorable past (Pan et al., 2020)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import Diverged, SettingsError
from zoolearn.methods.bases.with_memory import WithMemory
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.methods.parts import gp
from zoolearn.methods.parts.curvature import gauss_newton_diagonal
from zoolearn.methods.parts.flat import Flat, clip_gradients
from zoolearn.methods.parts.pergrad import CHUNK_BYTES, evaluation_mode, sample_gradients
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.seeds import generator
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Loss, Work, cross_entropy
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe

COLUMNS = 1 << 14  # how many columns of a Jacobian are turned to float64 at once
EXPLODED = 1e9  # a variance of outputs that no training wants

Memorable = Callable[[Tensor, int], Tensor]  # (class probabilities, seed) -> how memorable each row is


def uncertain(answers: Tensor, seed: int) -> Tensor:
    """The sum of p (1 - p) over classes, the trace of the loss's Hessian in the logits: most where the net doubts."""
    return (answers * (1 - answers)).sum(dim=1)


def certain(answers: Tensor, seed: int) -> Tensor:
    """The opposite of `uncertain`."""
    return -uncertain(answers, seed)


def any_row(answers: Tensor, seed: int) -> Tensor:
    """A uniform draw."""
    return torch.rand(len(answers), generator=generator(seed))


MEMORABLE: dict[str, Memorable] = {"uncertain": uncertain, "certain": certain, "random": any_row}


@dataclass(kw_only=True, eq=False)
class Fromp(WithMemory):
    """Holds the net's probabilities at a few memorable inputs, related inputs together, through a kernel.

    "Continual Deep Learning by Functional Regularisation of Memorable Past" (Pan et al., 2020), equation 8 and algorithm
    1. Before a new task, for every past task and class c the probabilities p*_c at its memorable inputs are noted, and
    K_c = J_c diag(1 / (F + delta)) J_c' with J_c their Jacobian in the weights: the covariance that the Laplace
    approximation of the net gives them. The loss is cross-entropy / tau + sum over past tasks and classes of
    1/2 (p_c - p*_c)' (K_c + jitter I)^-1 (p_c - p*_c). Heads of past tasks move with it. After the task, its memorable
    inputs are those of each class about which the net is least sure, and F, the diagonal of the generalised Gauss-Newton
    matrix summed (not averaged) over all of the task's examples, is added up.

    The authors train by Adam at rates from 1e-4 to 1e-3, and so do we by default; the recipe's weight decay acts with
    `optimizer="sgd"` alone. Training is in float32, kernels in float64. Probabilities at memorable inputs are with no
    units dropped, and with batch-norm's running statistics, which follow the newest task and are not held.

    `stored_samples` are the memorable inputs; `num_parameters` counts the net and F, two numbers for each weight. Kernels are
    made again before every task and not kept.

    Where we differ: (1) the kernel's gradient is that of the whole expression by automatic differentiation, which is the
    authors' J' K^-1 (p - p*); (2) with fewer than `memory_size` / classes examples of a class, all are kept, and at
    least one of each class is.
    """

    optimizers = ("sgd", "adam")

    recipe: Recipe = recipe_field(optimizer="adam", lr=1e-3)
    memory_size: int = setting(40, "memorable inputs kept of each task, equally of its classes", least=0)
    memorable: Memorable = setting(uncertain, "which inputs are memorable", choices=MEMORABLE)
    tau: float = setting(10.0, "cross-entropy is divided by this; more of it holds the past more", above=0)
    delta: float = setting(1e-3, "precision of the weights' prior", above=0)
    jitter: float = setting(1e-6, "added to the diagonal of kernels", above=0)
    kernel: Literal["laplace", "identity"] = setting(
        "laplace", "identity: all probabilities are held alike, each by itself"
    )
    max_grad_norm: float = setting(0.1, "longer gradients are clipped to this length; 0: none are", least=0)

    fisher: dict[str, Tensor] = saved(default_factory=dict)  # of every parameter, by its name

    def _train(self, task: Task) -> Work[Episode]:
        """Notes what is to be held, trains on the new task, and adds what is memorable of it."""
        net = self.grow_net(task).to(self.recipe.torch_device)
        decay = self.recipe.weight_decay if self.recipe.optimizer == "sgd" else 0.0
        loss = yield from self.fit(
            net,
            [task],
            recipe=replace(self.recipe, weight_decay=decay, precision="float32"),
            loss=self.objective(self.hold_functions(net)),
            adjust=clip_gradients(net.trainable(net.tasks), self.max_grad_norm),
            heads=net.tasks,
        )
        memory = self.memory.add(task.name, self.most_memorable(net, task)) if self.memory_size else self.memory
        self.net, self.memory, self.fisher = net, memory, self.added_fisher(net, task)
        return Episode((task.name,), None, loss)

    def objective(self, held: "HeldFunctions | None") -> Loss:
        """Cross-entropy / tau and the price of moving what is held."""

        def loss(net: Net, batch: Batch) -> Tensor:
            missed = cross_entropy(net, batch) / self.tau
            return missed if held is None else missed + held.price(net).to(missed.dtype)

        return loss

    def hold_functions(self, net: Net) -> "HeldFunctions | None":
        """The probabilities at all memorable inputs as they are now, with what ties them together."""
        if not len(self.memory):
            return None
        batches = self.memory.to(self.recipe.torch_device).by_task()
        return HeldFunctions(batches, net, [self.precisions(net, batch) for batch in batches])

    def precisions(self, net: Net, batch: Batch) -> Tensor:
        """The inverse kernels of a task's memorable inputs, (classes, inputs, inputs)."""
        task, count = batch.tasks[0], len(batch.y)
        classes = net.head(task).out_features
        if self.kernel == "identity":
            return torch.eye(count, dtype=torch.float64, device=batch.x.device).expand(classes, -1, -1)
        flat, deviations = self.deviations(net, task)
        noise = self.jitter * torch.eye(count, dtype=torch.float64, device=batch.x.device)
        kernels = [covariance(net, task, flat, deviations, batch.x, label) + noise for label in range(classes)]
        inverses = torch.stack([gp.inverse(kernel) for kernel in kernels])
        if not bool(torch.isfinite(inverses).all()):
            largest = float(torch.stack(kernels).abs().max())
            if not largest < EXPLODED:
                raise Diverged(
                    f"training on task {task!r} diverged: its outputs vary by up to {largest:.1e}; what was saved before is "
                    "kept. Try a smaller learning rate (--lr)"
                )
            raise SettingsError(
                f"the kernel of task {task!r} cannot be inverted with jitter {self.jitter:g}; give a larger one"
            )
        return inverses

    def deviations(self, net: Net, task: str) -> tuple[Flat, Tensor]:
        """The parameters that answer for a task and how far each is believed to be off: 1 / sqrt(F + delta)."""
        parameters = dict(net.named_parameters())
        names = {id(parameter): name for name, parameter in parameters.items()}
        flat = Flat(net.trainable([task]))
        fisher = torch.cat([self.fisher[names[id(parameter)]].reshape(-1) for parameter in flat.parameters])
        return flat, (fisher.to(flat.parameters[0].device) + self.delta).rsqrt()

    def most_memorable(self, net: Net, task: Task) -> Examples:
        """The examples of a task that are to be kept, as many of each class."""
        answers = probabilities(net, task.train.x, task.name, self.recipe)
        scores = self.memorable(answers, self.episode_seed("memory"))
        each = max(1, self.memory_size // len(task.classes))
        return task.train.select(find_highest(scores, task.train.y, each))

    def added_fisher(self, net: Net, task: Task) -> dict[str, Tensor]:
        """F of all tasks, the newest included; zeros where a parameter has had no part in any."""
        device = self.recipe.torch_device
        flat = Flat(net.trainable([task.name]))
        new = gauss_newton_diagonal(net, task.name, flat, task.train.x.to(device))
        parts = dict(zip(map(id, flat.parameters), torch.split(new, flat.sizes), strict=True))
        fisher = {}
        for name, parameter in net.named_parameters():
            past = self.fisher.get(name)
            total = torch.zeros_like(parameter) if past is None else past.to(device)
            if id(parameter) in parts:
                total = total + parts[id(parameter)].view_as(parameter)
            fisher[name] = total.detach()
        return fisher

    @property
    def num_parameters(self) -> int:
        return super().num_parameters + sum(part.numel() for part in self.fisher.values())


class HeldFunctions:
    """The probabilities of past tasks at their memorable inputs, and the price of moving them."""

    def __init__(self, batches: Sequence[Batch], net: Net, precisions: Sequence[Tensor]) -> None:
        self.tasks = [batch.tasks[0] for batch in batches]
        self.x = torch.cat([batch.x for batch in batches])
        self.sizes = [len(batch.y) for batch in batches]
        self.precisions = precisions
        with torch.no_grad():
            self.targets = self.answers(net)

    def answers(self, net: Net) -> list[Tensor]:
        """The probabilities, (inputs, classes) for each task, in evaluation mode; one pass through the backbone."""
        with evaluation_mode(net):
            features = torch.split(net.embed(self.x), self.sizes)
        pairs = zip(self.tasks, features, strict=True)
        return [torch.softmax(net.head(task)(part).double(), dim=1) for task, part in pairs]

    def price(self, net: Net) -> Tensor:
        """The sum over tasks and classes of 1/2 d' K^-1 d with d how far probabilities have moved."""
        terms = []
        for now, target, precision in zip(self.answers(net), self.targets, self.precisions, strict=True):
            moved = (now - target).T[:, :, None]
            terms.append(0.5 * (moved * (precision @ moved)).sum())
        return torch.stack(terms).sum()


def covariance(
    net: Net, task: str, flat: Flat, deviations: Tensor, x: Tensor, label: int, chunk_bytes: int = CHUNK_BYTES
) -> Tensor:
    """J diag(deviations^2) J' with J the Jacobian of one class's probability at some inputs, in float64.

    Jacobians are held two chunks of rows at a time: those that do not fit are computed again for every pair of chunks.
    """
    rows = max(1, chunk_bytes // (4 * len(flat)))
    starts = [*range(0, len(x), rows), len(x)]
    whole = torch.zeros(len(x), len(x), dtype=torch.float64, device=x.device)

    def jacobian(first: int, last: int) -> Tensor:
        labels = torch.full((last - first,), label, device=x.device)
        parts = sample_gradients(net, task, flat, probability, x[first:last], labels, chunk_bytes)
        return torch.cat(list(parts)).mul_(deviations)

    for place, (top, bottom) in enumerate(pairwise(starts)):
        here = jacobian(top, bottom)
        for left, right in pairwise(starts[: place + 2]):
            block = product(here, here if left == top else jacobian(left, right))
            whole[top:bottom, left:right], whole[left:right, top:bottom] = block, block.T
    return whole.tril() + whole.tril(-1).T  # on some CPUs A @ A.T is not symmetric to the last bit


def probability(logits: Tensor, label: Tensor) -> Tensor:
    """The probability of a label."""
    return torch.softmax(logits, dim=0).gather(0, label[None])[0]


def product(first: Tensor, second: Tensor) -> Tensor:
    """first second' in float64, a few columns at a time: in float32 a Gram matrix need not be positive definite."""
    pairs = zip(torch.split(first, COLUMNS, dim=1), torch.split(second, COLUMNS, dim=1), strict=True)
    return torch.stack([left.double() @ right.double().T for left, right in pairs]).sum(dim=0)


def find_highest(scores: Tensor, labels: Tensor, each: int) -> Tensor:
    """The positions of the `each` highest scores of every label, in the order of the data; of equals, the first.

    >>> find_highest(torch.tensor([0.1, 0.9, 0.5, 0.7]), torch.tensor([0, 1, 0, 1]), each=1).tolist()
    [1, 2]
    """
    order = torch.argsort(scores, descending=True, stable=True)
    chosen = [order[labels[order] == label][:each] for label in range(int(labels.max()) + 1)]
    return torch.cat(chosen).sort().values
