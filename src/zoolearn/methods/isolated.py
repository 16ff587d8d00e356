"""Isolated: new small nets for every task, nothing shared; what a continual learner must beat."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Ensemble, Member, Vote
from zoolearn.methods.learner import Episode
from zoolearn.seeds import derive
from zoolearn.training.fit import Progress


@dataclass(kw_only=True, eq=False)
class Isolated(Ensemble):
    """A net for each task: no replay, no transfer, no forgetting.

    With several networks a task, which average, it tells how much of Model Zoo's gain an ensemble alone would give.
    """

    networks: int = field(default=1, metadata={"help": "independent nets a task, which average", "later": True})

    def __post_init__(self) -> None:
        if self.networks < 1:
            raise SettingsError(f"networks is {self.networks}; a task needs 1 or more")

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task alone."""
        made = []
        for seed in self.independent_trainings(self.episode):
            made.append((yield from self.train_independently(task, seed)))
        self.members += made
        return Episode((task.name,), {}, sum(member.loss for member in made) / len(made))

    def train_independently(self, task: Task, seed: int) -> Generator[Progress, None, Member]:
        """One net of a task."""
        net = self.new_net([task], seed)
        loss = yield from self.fit_member(net, [task], seed)
        return Member(net.freeze(), {task.name: Vote(1.0, task.classes)}, loss, self.episode)

    def independent_trainings(self, episode: int) -> Sequence[int]:
        """A seed for each of a task's nets."""
        places = [("network", number) for number in range(self.networks)] if self.networks > 1 else [()]
        return [derive(self.seed, "episode", episode, *place) for place in places]

    @property
    def stored_samples(self) -> int:
        """None."""
        return 0
