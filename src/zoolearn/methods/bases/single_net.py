"""What the methods with one growing net share, and the plainest of them."""

from collections.abc import Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.files import load_state
from zoolearn.methods.learner import Episode, Learner, State, StateFile
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.training.fit import Progress, iter_fit
from zoolearn.training.predict import probabilities


@dataclass(kw_only=True, eq=False)
class SingleNet(Learner):
    """One net for all tasks, with a new head for each."""

    shared_head: bool = field(
        default=False, metadata={"help": "one head for all tasks, for streams whose tasks have the same labels"}
    )

    net: Net | None = field(init=False, default=None)

    def grown(self, task: Task) -> Net:
        """A copy of the net with a head for the task; it becomes `net` when the episode is over."""
        if self.net is None:
            return self.new_net([task], self.seed)
        net = deepcopy(self.net)
        if self.shared_head:
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

    def answer(self, x: Tensor, task: str) -> Tensor:
        """The net's answer through the task's head."""
        assert self.net is not None
        return probabilities(self.net, x, task, self.recipe)

    def state(self) -> State:
        """The net as it is now."""
        assert self.net is not None
        return State({}, {f"net/{self.episode:04d}": StateFile(self.net.state_dict(), {"net": self.net.spec()})})

    def load_state(self, snapshots: Sequence[State], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the net."""
        name, part = part_of(snapshots[-1], "net")
        self.net = Net.from_spec(part.info["net"], backbones)
        self.net.seed = self.seed
        load_state(self.net, part.tensors, name)

    def shared(self, net: Net) -> list[nn.Parameter]:
        """The parameters that every task uses: the backbone's, and the head's where all tasks share one."""
        module = net if self.shared_head else net.backbone
        return [parameter for parameter in module.parameters() if parameter.requires_grad]

    @property
    def stored_samples(self) -> int:
        """None: nothing is replayed."""
        return 0

    @property
    def num_parameters(self) -> int:
        """Weights of the net."""
        return self.net.num_parameters if self.net is not None else 0


def part_of(snapshot: State, folder: str) -> tuple[str, StateFile]:
    """The name and content of the one part that a snapshot has in a folder."""
    return next((name, part) for name, part in snapshot.parts.items() if name.startswith(f"{folder}/"))


@dataclass(kw_only=True, eq=False)
class FineTune(SingleNet):
    """Trains on each new task from the weights that the last one left, and nothing else: the reference from below.

    Old heads stay out of the optimiser, so neither momentum nor weight decay moves them.
    """

    smooths_labels: ClassVar[bool] = True

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Plain SGD on the new task."""
        net = self.grown(task)
        loss = yield from iter_fit(net, [task], self.recipe, seed=self.episode_seed(), checkpoints=self.checkpoints)
        self.net = net
        return Episode((task.name,), None, loss)
