"""Warm starts: members that begin where the last one ended, refit their heads, and vote on every stored task.

Past the paper, whose members begin from scratch: `ModelZoo(grow=WarmStart())`.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import torch
from torch import Tensor

from zoolearn.beyond.held_out import is_held_out
from zoolearn.beyond.linear_head import FittedHead, feature_rows, fit_head, set_head
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.methods.learner import check_share
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.fit import Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import check_types

LEAST = -60.0  # logarithm of a vote's weight: sums of such votes are far from the smallest number there is


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """How a zoo grows a member out of its last one. Each field is one idea; all False and 0 is a bare warm start.

    A vote counts exp(`vote_sharpness` x mean log-likelihood of rows). All members of a task are judged by the same rows,
    the `held_out` ones, which no net is ever trained on, new or not; only heads are fitted to them, and judged by
    leave-one-out.

    >>> from zoolearn import Recipe, benchmark, mlp
    >>> zoo = ModelZoo(backbone=mlp, recipe=Recipe(epochs=2), tasks_per_episode=1, grow=WarmStart())
    >>> for task in benchmark("split-digits")[:2]:
    ...     zoo.learn(task)
    >>> [sorted(member.votes) for member in zoo.members]
    [['0-1'], ['0-1', '2-3']]
    """

    refit_heads: bool = field(
        default=True, metadata={"help": "fit the heads of tasks seen in full once more at the end"}
    )
    all_tasks: bool = field(default=True, metadata={"help": "fit a head for every stored task that was not drawn, too"})
    vote_sharpness: float = field(
        default=16.0, metadata={"help": "how much more a vote counts that explains rows better; 0: as in the paper"}
    )
    held_out: float = field(
        default=0.1, metadata={"help": "share of a task's rows that no net is trained on, to weigh votes by"}
    )

    def __post_init__(self) -> None:
        check_types(WarmStart, vars(self))
        check_share("held_out", self.held_out)
        if self.held_out == 1:
            raise SettingsError("held_out is 1; leave some rows to train on")
        if not 0 <= self.vote_sharpness < inf:
            raise SettingsError(f"vote_sharpness is {self.vote_sharpness}; give 0 (all votes alike) or more")

    def __call__(self, zoo: ModelZoo, tasks: Sequence[Task], seed: int) -> Generator[Progress, None, Member]:
        """The member of an episode that trains on these tasks."""
        seen = [self._seen(zoo, task) for task in tasks]
        net = zoo.new_net(seen, seed)
        if zoo.members:
            net.backbone.load_state_dict(zoo.members[-1].net.backbone.state_dict())
        loss = yield from zoo.fit_member(net, seen, seed, balanced=zoo.share(tasks[0]) > zoo.replay)
        net.freeze()
        votes = {task.name: self._trained_vote(zoo, net, task) for task in tasks}
        others = [task for name, task in zoo.kept.items() if name not in votes] if self.all_tasks else []
        votes |= {task.name: self._fitted_vote(zoo, net, task) for task in others}
        return Member(net.freeze(), votes, loss, zoo.episode)

    def held_out_mask(self, zoo: ModelZoo, task: Task) -> Tensor | None:
        """Which rows of a task are never trained on; None if none are, as where nothing is kept to judge later members by."""
        if not self.held_out or not zoo.replay:
            return None
        held = is_held_out(task.train, self.held_out, derive(zoo.seed, "held out"))
        return held if bool(held.any()) else None

    def _seen(self, zoo: ModelZoo, task: Task) -> Task:
        held = self.held_out_mask(zoo, task)
        return task if held is None else replace(task, train=_rows(task, ~held))

    def _trained_vote(self, zoo: ModelZoo, net: Net, task: Task) -> Vote:
        """The vote on a task that the net was trained on; a head of one that it saw in full is refitted."""
        share = zoo.share(task)
        if self.refit_heads and share == 1.0:
            return self._fitted_vote(zoo, net, task)
        if not self.vote_sharpness:
            return Vote(share, task.classes)
        held = self.held_out_mask(zoo, task)
        rows = task.train if held is None else _rows(task, held)
        answers = probabilities(net, rows.x, task.name, zoo.recipe)
        return Vote(self._weight(float(label_logs(answers, rows.y).mean())), task.classes)

    def _fitted_vote(self, zoo: ModelZoo, net: Net, task: Task) -> Vote:
        """The vote on a task whose head is fitted to the finished features."""
        if task.name not in net.tasks:
            net.add_head(task.name, len(task.classes), task.train.x)
        head = self._fitted(zoo, net, task)
        set_head(net, task.name, head)
        return Vote(self._weight(head.likelihood) if self.vote_sharpness else zoo.share(task), task.classes)

    def _fitted(self, zoo: ModelZoo, net: Net, task: Task) -> FittedHead:
        features = feature_rows(net, net.standardized(task.train.x, task.name), zoo.recipe)
        return fit_head(features, task.train.y, len(task.classes), self.held_out_mask(zoo, task))

    def _weight(self, likelihood: float) -> float:
        return float(np.exp(max(self.vote_sharpness * likelihood, LEAST)))


def _rows(task: Task, mask: Tensor) -> Examples:
    return task.train.select(mask.nonzero()[:, 0])


def label_logs(answers: Tensor, labels: Tensor) -> Tensor:
    """The logarithm of the probability of each row's label."""
    return answers.gather(1, labels[:, None])[:, 0].double().clamp_min(torch.finfo(torch.float32).tiny).log()
