"""EWC: elastic weight consolidation (Kirkpatrick et al., 2017)."""

from dataclasses import dataclass

import torch

from zoolearn.data.task import Task
from zoolearn.methods.bases.penalties import JOINS, Join, QuadraticPenalty, Regularised, separate
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import FISHERS, Fisher, exact
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.fit import Work


@dataclass(kw_only=True, eq=False)
class Ewc(Regularised):
    """Holds each weight near where past tasks left it, as firmly as its Fisher information says that they need it.

    "Overcoming catastrophic forgetting in neural networks" (Kirkpatrick et al., 2017), equation 3:
    loss + strength / 2 * sum_i F_i (weight_i - anchor_i)^2, where F is the diagonal of the Fisher information of a past
    task at the weights that it ended with (the anchor). The penalty holds what all tasks share: the backbone, and the
    head where tasks share one; a past task's own head gets no gradient and stays as it is.

    `fisher` says which labels the information is of: "exact" (all, as the net expects them), "sample" (one drawn from
    the net's answer), "true" (those in the data), "batched" (squares of mean gradients over batches). Their scales
    differ, so a strength is good for one of them only. `anchors`: "separate" is the sum over past tasks of the paper,
    "online" keeps the latest anchor and a running sum (Schwarz et al., 2018), "average" a running mean.

    TAG (Malviya et al., 2022) published EWC with another information: `fisher="tag", anchors="tag"`, and twice the
    strength, since its penalty has no half. Its code also holds the heads, which ours never does, and shortens a pull that
    is longer than 100.

    Where we differ: (1) "separate" penalties are joined into one, which is exact and needs no more memory with more tasks;
    (2) with `limited`, no weight is held firmer than 1 / lr, beyond which a step would overshoot the anchor and training
    diverge; (3) the information is taken from a random part of the task, `fisher_samples` examples, not augmented, with
    no units dropped and batch-norm's running statistics; (4) the loss that is reported is without the penalty.

    "exact" costs a gradient per example and class: with 200 examples of 5 classes about three quarters of an epoch over
    2,500 rows; the others are cheaper by the number of classes, "batched" by more.

    Batch-norm statistics are shared, follow the latest task, and are not held.
    """

    tasks_grow = True

    strength: float = setting(100.0, "weight of the penalty, the paper's lambda", least=0)
    fisher: Fisher = setting(exact, "labels of the Fisher information", choices=FISHERS)
    fisher_samples: int = setting(200, "training examples that the information is taken from", least=1)
    fisher_batch: int = setting(20, "rows per mean gradient, for fisher=batched", least=1)
    anchors: Join = setting(separate, "how tasks' penalties are joined", choices=JOINS)
    decay: float = setting(1.0, "what a task leaves of earlier importance, for anchors=online", least=0, most=1)
    limited: bool = setting(True, "hold no weight firmer than 1 / lr, for stability")

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task against the penalty, then makes the penalty hold the new task too."""
        net = self.grow_net(task)
        flat = Flat(self.shared_parameters(net.to(self.recipe.torch_device)))
        penalty = self.scale_penalty(self.strength, self.limited)

        def hold(*_: object) -> None:
            if penalty is not None:
                penalty.pull(flat)

        loss = yield from self.fit(net, [task], adjust=hold)
        self.net, self.penalty = net, self.consolidate(net, flat, task)
        return Episode((task.name,), None, loss)

    def consolidate(self, net: Net, flat: Flat, task: Task) -> QuadraticPenalty:
        """The penalty that holds past tasks and this one."""
        examples = self.draw_examples(task, self.fisher_samples, "fisher")
        seed = self.episode_seed("fisher labels")
        importance = self.fisher(net, task.name, flat, examples, seed, self.fisher_batch)
        new = QuadraticPenalty(flat.data(), importance, importance.new_zeros(()))
        past = new.scale(0.0, torch.inf) if self.penalty is None else self.penalty.to(importance.device)
        return self.anchors(past, new, self.episode, self.decay)
