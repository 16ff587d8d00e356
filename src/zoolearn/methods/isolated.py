"""Isolated: a new small net for every task, nothing shared; what a continual learner must beat."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Literal

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.learner import Episode
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.inherit import Inherit, nobody
from zoolearn.methods.parts.partners import Measure, loss
from zoolearn.methods.weighing import Weigh, uniform
from zoolearn.seeds import derive
from zoolearn.training.fit import Progress


@dataclass(kw_only=True, eq=False)
class Isolated(ModelZoo):
    """Model Zoo with one task per episode: no replay, no transfer, no forgetting."""

    tasks_per_episode: int = field(init=False, default=1)
    replay: float = field(init=False, default=0.0)
    weigh: Weigh = field(init=False, default=uniform)
    inherit: Inherit = field(init=False, default_factory=lambda: nobody)
    partners: Measure = field(init=False, default_factory=lambda: loss)
    shrink: float = field(init=False, default=1.0)
    perturb: float = field(init=False, default=0.0)
    heir_lr: float = field(init=False, default=1.0)
    fit_heads: Literal["no", "before", "after", "both"] = field(init=False, default="no")
    adoption: bool = field(init=False, default=False)
    elders: bool = field(init=False, default=True)
    trust: float = field(init=False, default=0.0)
    held_out: float = field(init=False, default=0.0)

    def seeds(self, episode: int) -> list[int]:
        """The seeds of an episode's trainings (counted from 0); each needs its task and nothing else."""
        return [derive(self.seed, "episode", episode)]


@dataclass(kw_only=True, eq=False)
class IsolatedEnsemble(Isolated):
    """Several independent nets for every task, averaged: how much of Model Zoo's gain an ensemble alone would give."""

    networks: int = field(default=5, metadata={"help": "independent nets per task"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.networks < 1:
            raise SettingsError(f"networks is {self.networks}; an ensemble has 1 or more")

    def absorb(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains `networks` nets on the new task alone, each from its own seed."""
        self.members = [member for member in self.members if task.name not in member.share]  # of an abandoned episode
        losses = []
        for seed in self.seeds(self.episode):
            losses.append((yield from self.grow([task], seed)))
        return Episode((task.name,), {}, sum(losses) / len(losses))

    def seeds(self, episode: int) -> list[int]:
        """A seed for each of the nets."""
        return [derive(self.seed, "episode", episode, "network", number) for number in range(self.networks)]

    @property
    def members_per_episode(self) -> int:
        """How many members an episode adds."""
        return self.networks
