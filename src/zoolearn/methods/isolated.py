"""Isolated: new small nets for every task, nothing shared; the baseline that a continual learner must beat."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.bases.keeps_rows import KeepsRows
from zoolearn.methods.ensemble import Member
from zoolearn.methods.learner import Episode
from zoolearn.seeds import derive
from zoolearn.settings import setting
from zoolearn.training.fit import Work


@dataclass(kw_only=True, eq=False)
class Isolated(KeepsRows):
    """A net for each task: no replay, no transfer, no forgetting.

    With several `networks`, whose answers are averaged, it shows how much of Model Zoo's gain an ensemble alone would give.
    Rows of a task are kept only for its own growth: new nets are trained on the kept and the new rows, and supersede the
    old ones.
    """

    replay: float = setting(
        0.0, "share of each task's data that is kept to let it grow", omit_default=True, least=0, most=1
    )

    networks: int = setting(1, "independent nets a task, which average", omit_default=True, least=1)

    def _train(self, task: Task) -> Work[Episode]:
        self.check_kept({task.name} & self.classes.keys())
        self.count_arrival(task)
        made = []
        for seed in self.independent_trainings(self.episode):
            made.append((yield from self.train_independently(self.with_kept(task), seed)))
        for place, member in enumerate(made):
            vote = self.vote(task, 1.0, newest=place + 1 if task.name in self.classes else 0)
            self.members.append(replace(member, votes={task.name: vote}))
        self.keep(task)
        return Episode((task.name,), {}, sum(member.loss for member in made) / len(made))

    def train_independently(self, task: Task, seed: int) -> Work[Member]:
        """Does one of the `independent_trainings`; with checkpoints, workers can do it ahead and leave it there."""
        net = self.new_net([task], seed)
        loss = yield from self.fit(net, [task], seed)
        self.correct_priors(net, task)
        return Member(net.freeze(), {}, loss, self.episode)

    def check_growth(self, task: str) -> None:
        if not self.replay:
            raise DataError(
                f"task {task!r} was learned already, and isolated nets keep none of its rows, so that new ones cannot be told "
                "from them; set `replay` (--replay 1 keeps all) before it is met, or give the new one another name"
            )

    @property
    def num_parameters(self) -> int:
        """Of the nets that vote: those of a task that grew since are not needed."""
        return sum(net.num_parameters for task in self.classes for net, _ in self.voters(task))

    def independent_trainings(self, episode: int) -> Sequence[int]:
        """The seeds of an episode's trainings, which depend on its task alone."""
        places = [("network", number) for number in range(self.networks)] if self.networks > 1 else [()]
        return [derive(self.seed, "episode", episode, *place) for place in places]
