"""LwF: learning without forgetting (Li and Hoiem, 2016)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import OPTIMIZERS, Work, cross_entropy


@dataclass(kw_only=True, eq=False)
class Lwf(SingleNet):
    """Trains on the new task while, on its inputs, the heads of past tasks keep the outputs that they had before it.

    "Learning without Forgetting" (Li and Hoiem, 2016), equations 1 to 3: loss + `strength` * sum over past tasks of the
    cross-entropy between the old net's outputs for the new inputs, softened by `temperature`, and the net's own. Nothing
    of past tasks is stored; the old net is kept while the new task is learned, and no longer. The first task is plain
    training.

    Published: strength 1, temperature 2, SGD with momentum 0.9 and weight decay 5e-4, at a tenth or less of the rate that
    the first task was trained with.

    Where we differ: (1) there is no warm-up, in which the new head trains alone at first: the authors find that it
    matters to fine-tuning more than to their method; (2) the old net is asked again at every step, in evaluation mode,
    so that it sees the very inputs that the new one does, augmented if the recipe augments; (3) where tasks share a
    head, what that one head gave is kept.

    Batch-norm statistics are shared and follow the latest task.
    """

    optimizers = tuple(OPTIMIZERS)
    tasks_grow = True

    strength: float = setting(1.0, "weight of the old outputs, the paper's lambda_o", least=0)
    temperature: float = setting(2.0, "softens the old outputs, the paper's T", above=0)

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task, with the old net's outputs as further targets."""
        net, old = self.grow_net(task), self.net
        held = () if old is None or not self.strength else old.tasks[:1] if self.shared_head else old.tasks

        def loss(net: Net, batch: Batch) -> Tensor:
            value = cross_entropy(net, batch)
            return value + self.strength * self.distil_old_net(net, old, batch.x, held) if old and held else value

        if old is not None:
            old.to(self.recipe.torch_device).eval()
        value = yield from self.fit(net, [task], loss=loss, heads=[*held, task.name])
        self.net = net
        return Episode((task.name,), None, value)

    def distil_old_net(self, net: Net, old: Net, x: Tensor, tasks: tuple[str, ...]) -> Tensor:
        """The distillation loss of a net's outputs against an old net's, summed over the heads of these tasks."""
        with torch.no_grad():
            before = old.embed(x)
        now = net.embed(x)
        pairs = [(net.head(task)(now), old.head(task)(before)) for task in tasks]
        known = [(logits[:, : targets.shape[1]], targets) for logits, targets in pairs]  # a head may have grown since
        return torch.stack([distillation_loss(*pair, self.temperature) for pair in known]).sum()


def distillation_loss(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """The cross-entropy of logits with the probabilities of others, both divided by a temperature; mean over rows.

    >>> even, sure = torch.zeros(1, 2), torch.tensor([[2.0, 0.0]])
    >>> round(float(distillation_loss(even, sure, 1.0)), 4), distillation_loss(sure, sure, 2.0) < distillation_loss(even, sure, 2.0)
    (0.6931, tensor(True))
    """
    return F.cross_entropy(logits / temperature, F.softmax(targets / temperature, dim=1))
