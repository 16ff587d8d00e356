"""What the methods share that hold important weights near where past tasks left them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet, part_of
from zoolearn.methods.learner import State, StateFile
from zoolearn.methods.parts.importance import QuadraticPenalty
from zoolearn.nets.backbones import Backbone


@dataclass(kw_only=True, eq=False)
class Regularised(SingleNet):
    """One net, and the spring that holds it."""

    spring: QuadraticPenalty | None = field(init=False, default=None, repr=False)

    def state(self) -> State:
        """The net and the spring."""
        assert self.spring is not None
        own = super().state()
        return replace(own, parts={**own.parts, f"spring/{self.episode:04d}": StateFile(self.spring.tensors())})

    def load_state(self, snapshots: Sequence[State], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the net and the spring."""
        super().load_state(snapshots, tasks, backbones)
        self.spring = QuadraticPenalty(**part_of(snapshots[-1], "spring")[1].tensors)

    @property
    def num_parameters(self) -> int:
        """Weights of the net, and an anchor and an importance for each that tasks share."""
        return super().num_parameters + (self.spring.numbers if self.spring is not None else 0)
