"""Training without a word on the way."""

from collections.abc import Sequence

from zoolearn.data.task import Task
from zoolearn.nets.net import Net
from zoolearn.training.fit import Adjust, Checkpointing, Loss, MakeOptimizer, iter_fit, run_to_end
from zoolearn.training.recipe import Recipe


def fit(
    net: Net,
    tasks: Sequence[Task],
    recipe: Recipe,
    *,
    seed: int,
    loss: Loss | None = None,
    adjust: Adjust | None = None,
    optimizer: MakeOptimizer | None = None,
    balanced: bool = False,
    heads: Sequence[str] | None = None,
    checkpoints: Checkpointing | None = None,
) -> float:
    """Trains a net on the mixture of some tasks; returns the mean loss of the last epoch. `iter_fit` explains the rest.

    >>> from zoolearn.data.benchmarks import benchmark
    >>> from zoolearn.nets.perceptrons import mlp
    >>> task = benchmark("split-digits")[0]
    >>> net = Net(mlp, task.shape)
    >>> net.add_head(task.name, len(task.classes))
    >>> fit(net, [task], Recipe(epochs=3), seed=0) < 0.3
    True
    """
    work = iter_fit(
        net,
        tasks,
        recipe,
        seed=seed,
        loss=loss,
        adjust=adjust,
        optimizer=optimizer,
        balanced=balanced,
        heads=heads,
        checkpoints=checkpoints,
    )
    return float(run_to_end(work))
