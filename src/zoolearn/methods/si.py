"""SI: synaptic intelligence (Zenke, Poole and Ganguli, 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.bases.penalties import QuadraticPenalty, Regularised
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.flat import Flat, is_skipped
from zoolearn.methods.state import saved
from zoolearn.settings import setting
from zoolearn.training.fit import Work


@dataclass(kw_only=True, eq=False)
class Si(Regularised):
    """Holds each weight as firmly as it helped, on its way through training, to lower the loss of past tasks.

    "Continual Learning Through Synaptic Intelligence" (Zenke et al., 2017), equations 3 to 5. While a task is learned,
    each weight's share of the fall of the loss is summed over the steps, -gradient * displacement, where the gradient is
    that of the task's loss alone and the displacement the whole of what the optimiser did. At its end the share over the
    squared way, plus `damping`, adds to the weight's importance (which is kept at 0 or more), and the next tasks pay
    strength * sum_i importance_i (weight_i - anchor_i)^2 with the latest weights as anchor.

    Where we differ: (1) SGD unless the recipe says Adam, as theirs is (`optimizer="adam"`, rate 1e-3, strength 1);
    (2) only what all tasks share is held: the backbone, and the head where tasks share one; (3) with `limited`, no weight
    is held firmer than 1 / lr, beyond which a step would overshoot the anchor; (4) the loss that is reported is without
    the penalty.

    Batch-norm statistics are shared, follow the latest task, and are not held.
    """

    optimizers = ("sgd", "adam")
    tasks_grow = True

    strength: float = setting(1.0, "weight of the penalty, the paper's c", least=0)
    damping: float = setting(1e-3, "added to squared ways so that short ones count, their xi", above=0)
    limited: bool = setting(True, "hold no weight firmer than 1 / lr, for stability")

    path: "Path | None" = saved(default=None)  # of the task that is being learned

    def _train(self, task: Task) -> Work[Episode]:
        """Trains on the new task against the penalty, watching the way of every weight."""
        net = self.grow_net(task)
        flat = Flat(self.shared_parameters(net.to(self.recipe.torch_device)))
        start = flat.data()
        self.path = Path.begin(start)
        penalty = self.scale_penalty(2 * self.strength, self.limited)

        def watch_and_hold(*_: object) -> None:
            weights, gradient = flat.data(), flat.gradient()
            if self.path is None or is_skipped(gradient, self.recipe):
                return
            self.path.step(weights, gradient)
            if penalty is not None:
                flat.write_gradient(gradient.add_(penalty.gradient(weights)))

        loss = yield from self.fit(net, [task], adjust=watch_and_hold)
        end = flat.data()
        self.path.step(end, torch.zeros_like(end))
        self.net, self.penalty, self.path = net, self.consolidate(self.path.shares, end, end - start), None
        return Episode((task.name,), None, loss)

    def consolidate(self, shares: Tensor, anchor: Tensor, way: Tensor) -> QuadraticPenalty:
        """The penalty that holds past tasks and this one, with anchor at the weights as they are now."""
        new = shares / (way.square() + self.damping)
        past = self.penalty.importance.to(new.device) if self.penalty is not None else 0.0
        return QuadraticPenalty(anchor, torch.relu(past + new), new.new_zeros(()))


@dataclass(eq=False)
class Path:
    """The way of the weights through one training, and each weight's share of the fall of the loss along it.

    A displacement shows only when the next step begins, so the last weights and their gradient are kept until then.
    """

    shares: Tensor
    weights: Tensor
    gradient: Tensor

    @classmethod
    def begin(cls, weights: Tensor) -> "Path":
        return cls(torch.zeros_like(weights), weights.clone(), torch.zeros_like(weights))

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """The weights have come here, where the loss has this gradient."""
        self.shares.addcmul_(self.gradient, self.weights.sub_(weights))
        self.weights.copy_(weights)
        self.gradient.copy_(gradient)
