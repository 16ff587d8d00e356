"""The base of methods with one growing net, and fine-tuning, the plainest of them."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn

from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.learner import Episode, Learner
from zoolearn.methods.state import saved
from zoolearn.nets.backbones import backbone_name
from zoolearn.nets.net import Net
from zoolearn.seeds import generator
from zoolearn.settings import setting
from zoolearn.training.fit import OPTIMIZERS, Work


@dataclass(kw_only=True, eq=False)
class SingleNet(Learner):
    """One net for all tasks, with a new head for each."""

    shared_head: bool = setting(False, "one head for all tasks, for streams whose tasks have the same labels")

    net: Net | None = saved(default=None)

    def grow_net(self, task: Task) -> Net:
        """A copy of the net with a head for the task and all its classes; assign it to `net` at the end of the episode."""
        if self.net is None:
            return self.new_net([task], self.seed)
        net = deepcopy(self.net)
        if task.name in self.classes:
            self._widen(net, task)
        elif self.shared_head:
            first, classes = next(iter(self.classes.items()))
            if len(task.classes) != len(classes):
                raise DataError(
                    f"task {task.name!r} has {len(task.classes)} classes, the shared head of {first!r} has {len(classes)}; "
                    "tasks that share a head have the same labels"
                )
            net.share_head(task.name, first)
        else:
            net.add_head(task.name, len(task.classes))
        return net

    def _widen(self, net: Net, task: Task) -> None:
        """Widens the head of a task by its new classes."""
        new = task.classes[len(self.classes[task.name]) :]
        if new and self.shared_head:
            raise DataError(
                f"task {task.name!r} brings the new class {new[0]!r}, but all tasks share one head; leave shared_head False"
            )
        if new:
            net.widen_head(task.name, len(task.classes))

    def voters(self, task: str) -> list[tuple[Net, float]]:
        assert self.net is not None
        return [(self.net, 1.0)]

    def shared_parameters(self, net: Net) -> list[nn.Parameter]:
        """The parameters that every task uses: the backbone's, and the head's where all tasks share one."""
        module = net if self.shared_head else net.backbone
        found = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not found:
            raise SettingsError(
                f"{type(self).__name__} works on weights that tasks share, and backbone "
                f"{backbone_name(net.backbone_fn)!r} has none; take mlp"
            )
        return found

    def draw_examples(self, task: Task, count: int, purpose: str) -> Examples:
        """Up to `count` random training examples of a task, on the device."""
        order = torch.randperm(len(task.train), generator=generator(self.episode_seed(purpose)))
        some, device = task.train.select(order[:count]), self.recipe.torch_device
        return Examples(some.x.to(device), some.y.to(device))

    @property
    def stored_samples(self) -> int:
        return 0

    @property
    def num_parameters(self) -> int:
        return self.net.num_parameters if self.net is not None else 0


@dataclass(kw_only=True, eq=False)
class FineTune(SingleNet):
    """Trains on each new task from the weights that the last one left, and nothing else: the lower reference.

    Old heads are not in the optimizer, so neither momentum nor weight decay changes them.
    """

    smooths_labels = True
    optimizers = tuple(OPTIMIZERS)
    tasks_grow = True

    def _train(self, task: Task) -> Work[Episode]:
        net = self.grow_net(task)
        loss = yield from self.fit(net, [task])
        self.net = net
        return Episode((task.name,), None, loss)
