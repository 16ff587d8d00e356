"""GEM (Lopez-Paz and Ranzato, 2017): no step may raise, to first order, the loss on the memory of any past task."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.with_memory import WithMemory
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.memory import Per
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Work, check_single_rows, cross_entropy

RIDGE = 1e-3  # added to the diagonal of the Gram matrix, as in the authors' code
SWEEPS = 10_000

Vector = NDArray[np.float64]


@dataclass(kw_only=True, eq=False)
class Gem(WithMemory):
    """Replaces a gradient that opposes a memory by the nearest one that opposes none.

    "Gradient Episodic Memory for Continual Learning", algorithm 1 and the dual of its projection: with the gradients g_k
    of the loss on the whole memory of each past task, if some <g_k, g> < 0 the step is g + sum_k v_k g_k, where v minimises
    v' (G G' + ridge I) v / 2 + (G g)' v over v_k >= `memory_strength`. A strength above 0 adds at least that much of
    every g_k to a step in conflict, which favours the past; steps without conflict stay as they are, bit for bit. The
    first task is plain training. Memories pass through the net in training mode, so that batch-norm statistics follow
    them too, as in the authors' code. `stored_samples` is the memory; nothing else is kept.

    Where we differ: the dual is solved by coordinate descent; the memory of a task is drawn uniformly when the task ends,
    from its raw training data, in place of a ring of its last examples. A step in conflict also moves the heads of past
    tasks; they have no gradient in the other steps, so neither momentum nor weight decay moves them then. The guarantee
    is about the gradient: with momentum the step may still oppose a memory (the paper has none). Memory gradients and
    the products of gradients are computed in float32 throughout, the dual in float64.
    """

    tasks_grow = True

    memory_size: int = setting(256, "examples kept of each task or class", least=0)
    memory_per: Per = setting("task", "what memory_size counts for")
    memory_strength: float = setting(
        0.5, "least weight of each memory's gradient in a step in conflict (the paper's gamma)", least=0
    )

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task with projected gradients, then keeps some of it."""
        net, known = self.grow_net(task), [*self.classes, task.name]
        device = self.recipe.torch_device
        flat = Flat(net.trainable(known))
        memories = self.memory.to(device).by_task()
        kept = self.with_some(task, self.memory_size, self.memory_per)
        fewest = min((len(part.y) for part in kept.by_task()), default=0)  # also for the next task
        check_single_rows(net, "the size of a memory batch", fewest)
        gradients = torch.empty(len(memories), len(flat), device=device)

        def spare_the_past(net: Net, _: Batch) -> None:
            for past, row in zip(memories, gradients, strict=True):
                flat.gradient_of(cross_entropy(net, past), out=row)
            gradient = flat.gradient()
            spared = project(gradient, gradients, self.memory_strength)
            if spared is not gradient:
                flat.write_gradient(spared)

        loss = yield from self.fit(net, [task], adjust=spare_the_past if memories else None, heads=known)
        self.net, self.memory = net, kept
        return Episode((task.name,), None, loss)


def project(gradient: Tensor, memories: Tensor, strength: float, ridge: float = RIDGE) -> Tensor:
    """The step for `gradient` that opposes no row of `memories`; the gradient itself if it opposes none.

    Vectors are multiplied in the precision of `memories`; the dual, a few numbers, is solved in float64.
    """
    gradient_there = gradient.to(memories.dtype)
    products = memories @ gradient_there
    if not bool((products < 0).any() and torch.isfinite(products).all()):
        return gradient
    gram = (memories @ memories.T).double().cpu().numpy() + ridge * np.eye(len(memories))
    weights = torch.from_numpy(solve_dual(gram, products.double().cpu().numpy(), strength))
    return (weights.to(memories) @ memories).add_(gradient_there).to(gradient.dtype)


def solve_dual(gram: Vector, products: Vector, least: float, tolerance: float = 1e-12) -> Vector:
    """Minimises v' gram v / 2 + products' v over v >= least.

    Cyclic coordinate descent; after each sweep the equations of the coordinates that left the bound are solved at once,
    and taken if that meets every condition of a minimum. Related tasks have nearly parallel gradients, and there the
    sweeps alone would find those coordinates soon but their values only after thousands of rounds.

    >>> solve_dual(np.eye(2), np.array([-3.0, 1.0]), least=0.5).tolist()
    [3.0, 0.5]
    """
    diagonal = np.diag(gram)
    weights = np.full(len(products), least)
    slopes = gram @ weights + products
    for _ in range(SWEEPS):
        for place, curvature in enumerate(diagonal):
            change = max(least, weights[place] - slopes[place] / curvature) - weights[place]
            weights[place] += change
            slopes += change * gram[place]
        for candidate in (_solve_free(gram, products, least, weights > least), weights):
            slopes = gram @ candidate + products
            excess = np.abs(candidate - np.maximum(least, candidate - slopes / diagonal))
            if not excess.max() > tolerance * max(1.0, np.abs(candidate).max()):
                return candidate
    return weights


def _solve_free(gram: Vector, products: Vector, least: float, free: NDArray[np.bool_]) -> Vector:
    """The point whose free coordinates have no slope, the others at the bound."""
    point = np.where(free, 0.0, least)
    slopes = gram[free] @ point + products[free]
    point[free] = np.linalg.lstsq(gram[np.ix_(free, free)], -slopes, rcond=None)[0]
    return point
