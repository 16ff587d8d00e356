"""DER++: dark experience replay, with labels (Buzzega et al., 2020)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.with_memory import WithReservoir
from zoolearn.methods.learner import Episode
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import OPTIMIZERS, Work, cross_entropy


@dataclass(kw_only=True, eq=False)
class DerPlusPlus(WithReservoir):
    """Replays a uniform sample of everything seen, and holds the net to the logits that it gave its rows when they came.

    "Dark Experience for General Continual Learning: a Strong, Simple Baseline" (Buzzega et al., 2020), equation 6 and
    algorithm 2: each step's loss is the cross-entropy of the new rows, plus `logit_weight` times the mean squared
    distance of the logits of one batch from the memory to those kept with it, plus `label_weight` times the
    cross-entropy of another one. Rows enter the memory by reservoir sampling, with the logits of the step that trains on
    them. With `label_weight` 0 it is DER, with `logit_weight` 0 a form of experience replay. The three batches pass
    through the net one by one, so that batch-norm is over each.

    Published, for Split-CIFAR10 with a memory of 500: logit weight 0.2, label weight 0.5, SGD at 0.03 without momentum,
    batches of 32, 50 epochs.

    Where we differ: (1) heads are separate, and the logits of a row are those of its own task's head; (2) with several
    epochs a row is offered to the memory in the last one only, when its logits are worth keeping, so that no example is
    kept twice (the authors offer it in every one); (3) what is kept is the row as it was shown, and it is not augmented
    again when it is replayed.
    """

    optimizers = tuple(OPTIMIZERS)

    logit_weight: float = setting(0.2, "weight of the distance to kept logits (alpha)", least=0)
    label_weight: float = setting(0.5, "weight of the loss of replayed rows (beta)", least=0)

    def _train(self, task: Task) -> Work[Episode]:
        net = self.grow_net(task)
        self.check_memory_batch(net)
        self.memory = self.memory.to(self.recipe.torch_device)
        value = yield from self.fit(net, [task], loss=self.replay_loss, heads=net.tasks if self.memory_size else None)
        self.net = net
        return Episode((task.name,), None, value)

    def replay_loss(self, net: Net, batch: Batch) -> Tensor:
        """The loss of new rows and of two batches from the memory, which is then offered the new rows."""
        tasks, number = (batch.tasks, 0) if self.shared_head else (net.tasks, self.episode)
        logits = net(batch.x, batch.tasks[0])
        value = F.cross_entropy(logits, batch.y)
        if self.memory.filled:
            kept = self.draw(len(batch.y))
            value = value + self.logit_weight * self.logit_distance(net, tasks, kept)
            kept = self.draw(len(batch.y))
            value = value + self.label_weight * cross_entropy(net, Batch(kept["x"], kept["y"], kept["task"], tasks))
        if batch.epoch == self.recipe.epochs - 1:
            self.memory.offer(batch.x, batch.y, number, self.episode_seed("memory"), logits=logits.float())
        return value

    def logit_distance(self, net: Net, tasks: tuple[str, ...], kept: dict[str, Tensor]) -> Tensor:
        """The mean squared distance of logits from those that were kept, each row's through its own head."""
        logits, first = net.forward_mixed(kept["x"], tasks, kept["task"])
        places = first[:, None] + torch.arange(kept["logits"].shape[1], device=first.device)
        inside = places < logits.shape[1]
        own = logits.gather(1, places.clamp_max(logits.shape[1] - 1))
        is_own = inside & own.isfinite()  # a task of fewer classes than others has fewer logits
        return (own[is_own] - kept["logits"][is_own]).square().mean()
