"""Model Zoo (Ramesh and Chaudhari, 2022): every episode adds a small net, trained on the new task and a few hard past ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.data.task import Task
from zoolearn.methods.bases.keeps_rows import KeepsRows
from zoolearn.methods.ensemble import Member, Votes, label_probabilities
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.growth import Statistics, feature_statistics, grow_by_statistics
from zoolearn.methods.state import saved
from zoolearn.names import Named
from zoolearn.settings import setting
from zoolearn.training.fit import Work

Weigh = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # weights of past tasks from their losses
WEIGH: Named[Any] = Named(
    {"boosted": "methods.model_zoo.boosted"}
    | {"released": "methods.parts.weighing.Released", "uniform": "methods.parts.weighing.uniform"}
)
Grow = Callable[["ModelZoo", Sequence[Task], int], Work[Member]]  # from tasks and a seed
GROW: Named[Any] = Named(
    {"from-scratch": "methods.model_zoo.from_scratch", "warm-start": "beyond.warm_start.WarmStart"}
    | {"statistics": "beyond.by_statistics.by_statistics"}
)


def boosted(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's weights, exp(mean negative log-likelihood): tasks that the zoo finds hard come up more often.

    >>> boosted(np.array([0.0, np.log(3.0)])).tolist()
    [0.25, 0.75]
    """
    weights = np.exp(losses - losses.max())
    return np.asarray(weights / weights.sum())


def from_scratch(zoo: "ModelZoo", tasks: Sequence[Task], seed: int) -> Work[Member]:
    """The paper's member: a new net trained on its tasks; a vote weighs as the share of the task's data that it saw."""
    net = zoo.new_net(tasks, seed)
    loss = yield from zoo.fit(net, tasks, seed, balanced=zoo.share_at_hand(tasks[0]) > zoo.replay)
    for task in tasks:
        zoo.correct_priors(net, task)
    votes = {task.name: zoo.vote(task, zoo.share_at_hand(task)) for task in tasks}
    return Member(net.freeze(), votes, loss, zoo.episode)


@dataclass(kw_only=True, eq=False)
class ModelZoo(KeepsRows):
    """Grows by one small net an episode; answers for a task with the average of the members that know it.

    Episode k trains on task k and on up to `tasks_per_episode` - 1 past tasks, drawn without repeats with weights that
    `weigh` makes of the zoo's training losses. A prediction is sum_m share_m p_m(y | x) / sum_m share_m over the members
    m that were trained on the task (equation 3 of the paper, with the weighting of its appendix for limited replay).

    Where we differ from the paper: the new task is always trained on, and past ones are drawn without repeats (as in the
    authors' code, and as the text needs); each member starts from its own seed; limited replay keeps the same share of
    each class; half of each of its batches is of the new task, half of the past tasks together.

    Past the paper, a task can grow: an episode under a known name trains on the kept and the new rows of the task, beside
    others drawn as usual. Older members still vote among the classes that they know (`parts/growth.py`).

    >>> from zoolearn import Recipe, benchmark, mlp
    >>> zoo = ModelZoo(backbone=mlp, recipe=Recipe(epochs=2), tasks_per_episode=2)
    >>> first, second = benchmark("split-digits")[:2]
    >>> zoo.learn(first)
    >>> zoo.learn(second)
    >>> [sorted(member.votes) for member in zoo.members]
    [['0-1'], ['0-1', '2-3']]
    >>> zoo.predict_proba(first.test.x[:3], task="0-1").sum(dim=1).tolist()
    [1.0, 1.0, 1.0]
    """

    tasks_per_episode: int = setting(5, "tasks that a member is trained on, the paper's b", least=1)
    weigh: Weigh = setting(boosted, "weights of past tasks from losses", choices=WEIGH)
    grow: Grow = setting(from_scratch, "how members begin", choices=GROW, omit_default=True)
    keep_statistics: bool = setting(False, "keep feature statistics, to grow tasks by them too", omit_default=True)

    train_votes: dict[str, Votes] = saved(default_factory=dict)  # on the labels of `kept`
    statistics: dict[str, Statistics] = saved(default_factory=dict)  # of features, by task

    def _train(self, task: Task) -> Work[Episode]:
        """One episode of algorithm 1: weigh the past tasks, draw b - 1 of them, train a member, count its votes."""
        looks_back = self.tasks_per_episode > 1 or self.grow is not from_scratch
        self.check_kept(name for name in self.classes if looks_back or name == task.name)
        self.count_arrival(task)
        if task.name in self.classes and (task.name in self.statistics or not self.replay):
            grown = grow_by_statistics(self, self.statistics, task, self.balance, not self.replay)
            if not self.replay:
                return grown
        weights = self.past_weights(without=task.name)
        drawn = self.draw(weights)
        tasks = [self.with_kept(task), *(self.kept[name] for name in drawn)]
        member = yield from self.grow(self, tasks, self.episode_seed())
        self.members.append(member)
        self.keep(task)
        if (self.keep_statistics or not self.replay) and task.name not in self.statistics:
            self.statistics[task.name] = feature_statistics(member.net, tasks[0], self.recipe)
        if task.name in self.train_votes:  # it grew: votes of members that do not know all classes no longer count
            self.train_votes[task.name] = Votes("kept")
        for name in (task.name, *drawn):
            self._count_vote(name, member)
        return Episode((task.name, *drawn), weights, member.loss)

    def past_weights(self, without: str = "") -> dict[str, float]:
        """The weight of every past task in the draw: `weigh` of the zoo's mean negative log-likelihood on what is kept (equation 2)."""
        losses = {name: votes.loss for name, votes in self.train_votes.items() if name != without}
        weights = self.weigh(np.array([*losses.values()])).tolist() if losses else []
        return dict(zip(losses, weights, strict=True))

    def draw(self, weights: Mapping[str, float]) -> list[str]:
        """Up to `tasks_per_episode` - 1 past tasks, without repeats."""
        count = min(self.tasks_per_episode - 1, len(weights))
        p = np.fromiter(weights.values(), float)
        rng = np.random.default_rng(self.episode_seed("draw"))
        drawn = rng.choice(len(p), count, replace=False, p=p / p.sum()) if count else ()
        return [list(weights)[number] for number in drawn]

    def _count_vote(self, name: str, member: Member) -> None:
        """Adds a new member's votes on the labels of a task's kept rows: all that the next weights need."""
        if name in self.kept and self.tasks_per_episode > 1:
            output = label_probabilities(member.net, self.kept[name].train, name, self.recipe)
            votes = self.train_votes.get(name, Votes("kept"))
            self.train_votes[name] = votes.add(output, member.votes[name].weight)
