"""OGD: orthogonal gradient descent (Farajtabar et al., 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import logit, sample_gradients
from zoolearn.methods.state import saved
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.fit import Work

Directions = Callable[[Net, str, Flat, Examples], Tensor]


def true_logit(net: Net, task: str, flat: Flat, examples: Examples) -> Tensor:
    """One direction a sample: the gradient of the logit of its own class; the paper's GTL."""
    return torch.cat(list(sample_gradients(net, task, flat, logit, examples.x, examples.y)))


def all_logits(net: Net, task: str, flat: Flat, examples: Examples) -> Tensor:
    """A direction for each class of a sample: the gradients of all its logits; the paper's ALL."""
    classes = net.head(task).out_features
    labels = torch.arange(classes, device=examples.y.device).repeat(len(examples))
    x = examples.x.repeat_interleave(classes, dim=0)
    return torch.cat(list(sample_gradients(net, task, flat, logit, x, labels)))


def average_logit(net: Net, task: str, flat: Flat, examples: Examples) -> Tensor:
    """One direction a sample: the gradient of the mean of its logits; the paper's AVE."""
    mean = sample_gradients(net, task, flat, lambda logits, _: logits.mean(), examples.x, examples.y)
    return torch.cat(list(mean))


DIRECTIONS: dict[str, Directions] = {"true": true_logit, "all": all_logits, "average": average_logit}


@dataclass(kw_only=True, eq=False)
class Ogd(SingleNet):
    """Takes only steps that leave the logits of past samples as they are, to first order.

    "Orthogonal Gradient Descent for Continual Learning" (Farajtabar et al., 2020), algorithm 1 with gradients of the
    true class's logit. After a task such gradients of some of its samples join an orthonormal basis; every later gradient
    is stripped of its part in the span of the basis. Only what tasks share is stripped: the backbone, and the head where
    tasks share one; a new head is free. No sample is kept, only directions.

    Where we differ: (1) the basis has at most `basis_size` directions; where more come together, every task keeps an
    equal number of its strongest (with more tasks than that, the first ones one each); (2) new gradients are made
    orthogonal to the basis twice and then replaced by their singular vectors, which span the same; those that add nothing
    are dropped; (3) the recipe's weight decay is part of what is stripped, and its momentum sums stripped gradients, so
    the whole step is orthogonal to the basis.

    Gradients are taken with no units dropped and batch-norm's running statistics, which drift with later tasks: with
    batch-norm past logits do change.
    """

    tasks_grow = True

    samples_per_task: int = setting(100, "samples whose gradients are kept of each task", least=0)
    basis_size: int = setting(1000, "directions kept in all, at most", least=0)
    directions: Directions = setting(true_logit, "logits of a sample that are kept constant", choices=DIRECTIONS)
    memory_limit: float = setting(4.0, "refuse to start if the basis may need more gigabytes")

    basis: Tensor | None = saved(default=None)  # one orthonormal direction a row
    owners: Tensor | None = saved(default=None)  # the number of the task of each direction

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task with stripped gradients, then adds its directions to the basis."""
        net = self.grow_net(task)
        device = self.recipe.torch_device
        flat = Flat(self.shared_parameters(net.to(device)))
        self.check_beyond_memory(len(flat), len(task.classes))
        basis = self.basis.to(device) if self.basis is not None and len(self.basis) else None

        def strip(*_: object) -> None:
            if basis is not None:
                flat.write_gradient(strip_gradient(flat, basis, self.recipe.weight_decay))

        loss = yield from self.fit(net, [task], adjust=strip)
        self.basis, self.owners = self.extend_basis(net, flat, task)
        self.net = net
        return Episode((task.name,), None, loss)

    def check_beyond_memory(self, weights: int, classes: int) -> None:
        """Refuses to start when the basis, once full, would need more memory than is allowed."""
        new = self.samples_per_task * (classes if self.directions is all_logits else 1)
        needed = 8 * weights * (self.basis_size + 4 * min(new, self.basis_size)) / 1e9
        if needed > self.memory_limit:
            raise SettingsError(
                f"ogd will need up to {needed:.1f} GB for {self.basis_size} directions of {weights:,} weights, memory_limit is "
                f"{self.memory_limit:g}; lower basis_size, raise memory_limit or take a smaller backbone"
            )

    def extend_basis(self, net: Net, flat: Flat, task: Task) -> tuple[Tensor, Tensor]:
        """The basis with the directions of a task that was just learned, and whose each direction is."""
        new = self.chosen_directions(net, flat, task)
        basis = self.basis.to(new.device) if self.basis is not None else new[:0]
        owners = self.owners if self.owners is not None else torch.zeros(0, dtype=torch.int64)
        new = orthonormal(new, basis)
        owners = torch.cat([owners, torch.full((len(new),), self.episode)])
        kept = equal_shares(owners, self.basis_size)
        return torch.cat([basis, new])[kept.to(new.device)], owners[kept]

    def chosen_directions(self, net: Net, flat: Flat, task: Task) -> Tensor:
        """The gradients of some random samples of a task."""
        count = min(self.samples_per_task, self.basis_size)
        if not count:
            return flat.data()[None][:0]
        examples = self.draw_examples(task, count, "directions")
        return self.directions(net, task.name, flat, examples)[: self.basis_size]

    @property
    def num_parameters(self) -> int:
        """Weights of the net, and the numbers of the basis: as many for each direction as there are shared weights."""
        return super().num_parameters + (self.basis.numel() if self.basis is not None else 0)


def strip(vector: Tensor, basis: Tensor) -> Tensor:
    """A vector without its part in the span of an orthonormal basis (its rows).

    >>> strip(torch.tensor([3.0, 4.0]), torch.tensor([[1.0, 0.0]])).tolist()
    [0.0, 4.0]
    """
    return torch.addmv(vector, basis.T, basis @ vector, alpha=-1)


def strip_gradient(flat: Flat, basis: Tensor, weight_decay: float) -> Tensor:
    """The gradient that, once the optimiser adds its weight decay, has no part in the span of the basis."""
    gradient = flat.gradient()
    if not weight_decay:
        return strip(gradient, basis)
    decay = weight_decay * flat.data()
    return strip(gradient.add_(decay), basis).sub_(decay)


def orthonormal(vectors: Tensor, basis: Tensor) -> Tensor:
    """What the vectors (rows) add to the span of a basis, as orthonormal rows, the strongest first.

    A direction in which they reach less than a 1e-5th of the longest vector adds nothing: float32 noise reaches as far.
    """
    if not len(vectors):
        return vectors
    longest = vectors.norm(dim=1).max()
    for _ in range(2):  # once leaves errors in proportion to what was removed, twice is enough
        vectors = torch.addmm(vectors, vectors @ basis.T, basis, alpha=-1)
    _, reach, directions = torch.linalg.svd(vectors.double(), full_matrices=False)
    return cast(Tensor, directions[reach > 1e-5 * longest].to(vectors.dtype))


def equal_shares(owners: Tensor, size: int) -> Tensor:
    """Which of the directions to keep so that there are at most `size`, as many of each task; all, if they fit.

    Where there are more tasks than that, the first ones keep one each.

    >>> equal_shares(torch.tensor([0, 0, 0, 1, 1]), 4).tolist()
    [True, True, False, True, True]
    >>> equal_shares(torch.tensor([0, 1, 2, 2]), 2).tolist()
    [True, True, False, False]
    """
    if len(owners) <= size:
        return torch.ones(len(owners), dtype=torch.bool)
    before = (owners[:, None] == owners[None, :]).tril(-1).sum(dim=1)  # directions of the same task that come earlier
    share = size // (int(owners.max()) + 1)
    if share:
        return before < share
    strongest = before == 0
    return strongest & (strongest.cumsum(0) <= size)
