"""What the methods share that hold important weights near where past tasks left them."""

from dataclasses import dataclass

from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.parts.importance import QuadraticPenalty
from zoolearn.methods.state import saved


@dataclass(kw_only=True, eq=False)
class Regularised(SingleNet):
    """One net, and the spring that holds it."""

    spring: QuadraticPenalty | None = saved(default=None)

    @property
    def num_parameters(self) -> int:
        """Weights of the net, and an anchor and an importance for each that tasks share."""
        return super().num_parameters + (self.spring.numbers if self.spring is not None else 0)
