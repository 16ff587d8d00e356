"""LwF: learning without forgetting (Li and Hoiem, 2016)."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode
from zoolearn.nets.net import Net
from zoolearn.training.batches import Batch
from zoolearn.training.fit import OPTIMIZERS, Progress, cross_entropy


@dataclass(kw_only=True, eq=False)
class Lwf(SingleNet):
    """Trains on the new task while, on its inputs, the heads of past tasks go on to say what they said before it.

    "Learning without Forgetting" (Li and Hoiem, 2016), equations 1 to 3: loss + `strength` * sum over past tasks of the
    cross-entropy between what the old net's head says of the new inputs, softened by `temperature`, and what the net
    says now. Nothing of past tasks is stored; the old net is kept while the new task is learned, and no longer. The
    first task is plain training.

    Published: strength 1, temperature 2, SGD with momentum 0.9 and weight decay 5e-4, at a tenth or less of the rate that
    the first task was trained with.

    Where we differ: (1) there is no warm-up, in which the new head trains alone at first: the authors find that it
    matters to fine-tuning more than to their method; (2) the old net is asked again at every step, in evaluation mode,
    so that it sees the very inputs that the new one does, augmented if the recipe augments; (3) where tasks share a
    head, what that one head said is kept.

    Batch-norm statistics are shared and follow the latest task.
    """

    optimizers: ClassVar[Sequence[str]] = tuple(OPTIMIZERS)
    tasks_grow: ClassVar[bool] = True

    strength: float = field(default=1.0, metadata={"help": "weight of what past heads said, the paper's lambda_o"})
    temperature: float = field(default=2.0, metadata={"help": "softens what past heads said, the paper's T"})

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise SettingsError(f"strength is {self.strength}; it must be 0 or more")
        if not 0 < self.temperature < math.inf:
            raise SettingsError(f"temperature is {self.temperature}; it must be above 0")

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task, held to what the old net says of it."""
        net, old = self.grown(task), self.net
        held = () if old is None or not self.strength else old.tasks[:1] if self.shared_head else old.tasks

        def loss(net: Net, batch: Batch) -> Tensor:
            value = cross_entropy(net, batch)
            return value + self.strength * self.kept_apart(net, old, batch.x, held) if old and held else value

        if old is not None:
            old.to(self.recipe.torch_device).eval()
        value = yield from self.fit(net, [task], loss=loss, heads=[*held, task.name])
        self.net = net
        return Episode((task.name,), None, value)

    def kept_apart(self, net: Net, old: Net, x: Tensor, tasks: tuple[str, ...]) -> Tensor:
        """How far what a net says of inputs is from what an old one says, through the heads of these tasks together."""
        with torch.no_grad():
            before = old.embed(x)
        now = net.embed(x)
        pairs = [(net.head(task)(now), old.head(task)(before)) for task in tasks]
        known = [(said[:, : told.shape[1]], told) for said, told in pairs]  # a head may have grown since
        return torch.stack([softened(said, told, self.temperature) for said, told in known]).sum()


def softened(said: Tensor, told: Tensor, temperature: float) -> Tensor:
    """The cross-entropy of logits with the probabilities of others, both divided by a temperature; mean over rows.

    >>> even, sure = torch.zeros(1, 2), torch.tensor([[2.0, 0.0]])
    >>> round(float(softened(even, sure, 1.0)), 4), softened(sure, sure, 2.0) < softened(even, sure, 2.0)
    (0.6931, tensor(True))
    """
    return F.cross_entropy(said / temperature, F.softmax(told / temperature, dim=1))
