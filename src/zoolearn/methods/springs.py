"""What the methods share that hold important weights near where past tasks left them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoolearn.learner import Part, Snapshot
from zoolearn.methods.single_net import SingleNet, part_of
from zoolearn.nets import Backbone
from zoolearn.parts.importance import Spring
from zoolearn.task import Task


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
