"""What the methods share that hold important weights near where past tasks left them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet, part_of
from zoolearn.methods.learner import Part, Snapshot
from zoolearn.methods.parts.importance import Spring
from zoolearn.nets.backbones import Backbone


@dataclass(kw_only=True, eq=False)
class Sprung(SingleNet):
    """One net, and the spring that holds it."""

    spring: Spring | None = field(init=False, default=None, repr=False)

    def knowledge(self) -> Snapshot:
        """The net and the spring."""
        assert self.spring is not None
        own = super().knowledge()
        return replace(own, parts={**own.parts, f"spring/{self.episode:04d}": Part(self.spring.tensors())})

    def recall(self, snapshots: Sequence[Snapshot], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the net and the spring."""
        super().recall(snapshots, tasks, backbones)
        self.spring = Spring(**part_of(snapshots[-1], "spring")[1].tensors)

    @property
    def weights(self) -> int:
        """Weights of the net, and an anchor and an importance for each that tasks share."""
        return super().weights + (self.spring.numbers if self.spring is not None else 0)
