"""What the methods share whose one net holds something of its own for every task: gates, maps or corrections."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.parts.taskweight import begin_task, end_task
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net


@dataclass(kw_only=True, eq=False)
class TaskNet(SingleNet):
    """One net, converted so that its layers differ from task to task."""

    def __post_init__(self) -> None:
        if self.shared_head:
            method = type(self).__name__.lower()
            raise SettingsError(f"shared_head is True, but {method} keeps a head for every task; leave it False")

    @abstractmethod
    def convert(self, net: Net) -> Net:
        """A plain net with the parts that differ from task to task."""

    def new_net(self, tasks: Iterable[Task], seed: int, backbone: Backbone | None = None) -> Net:
        return self.convert(super().new_net(tasks, seed, backbone))

    def grow_net(self, task: Task) -> Net:
        """A copy of the net with a head for the task, and what else it is to own."""
        net = super().grow_net(task)
        begin_task(net, task.name)
        return net

    def rebuild_net(self, spec: Mapping[str, Json], seed: int) -> Net:
        """A converted net with untrained parts for all of its tasks."""
        net = self.convert(super().rebuild_net(spec, seed))
        for task in net.head_index:
            begin_task(net, task)
            end_task(net)
        return net
