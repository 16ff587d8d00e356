"""The learner of owned zoos: Model Zoo whose epochs are chosen by the number of rows, unless given."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch

from zoolearn.beyond.warm_start import refit_head
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.ensemble import Member, Votes
from zoolearn.methods.learner import Episode
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.growth import feature_statistics
from zoolearn.methods.state import derived
from zoolearn.nets.net import Net
from zoolearn.training.batches import steps_per_epoch
from zoolearn.training.fit import Progress, iter_fit, run_to_end
from zoolearn.training.recipe import Recipe

STEPS = {"images": 4_000, "features": 16_000}  # of an episode, unless given: minutes, and seconds, on a CPU
FEWEST_EPOCHS, MOST_EPOCHS = 3, 50
TIMED_ROWS = 128  # that the length of a step is measured by


def epochs_for(tasks: Sequence[Task], batch_size: int, *, balanced: bool = False) -> int:
    """Epochs over these tasks for about the same number of steps whatever the number of rows, from 3 to 50.

    >>> from zoolearn import benchmark
    >>> digits = benchmark("split-digits")[0]
    >>> len(digits.train), epochs_for([digits], batch_size=16), epochs_for([digits], batch_size=1)
    (251, 50, 16)
    """
    rows = rows_per_epoch([len(task.train) for task in tasks], balanced=balanced)
    steps = STEPS["images" if len(tasks[0].shape) == 3 else "features"]
    return max(FEWEST_EPOCHS, min(MOST_EPOCHS, round(steps / steps_per_epoch(rows, batch_size))))


def rows_per_epoch(sizes: Sequence[int], *, balanced: bool) -> int:
    """The rows of an epoch over tasks of these sizes, the new one first.

    >>> rows_per_epoch([100, 7, 8], balanced=False), rows_per_epoch([100, 7, 8], balanced=True)
    (115, 200)
    """
    return 2 * sizes[0] if balanced and len(sizes) > 1 else sum(sizes)


def check_epochs(epochs: int | None, *, trains: bool = True, heads_only: bool = False) -> None:
    """Raises on fewer than 1 epoch, and on any if nothing is trained."""
    if epochs is not None and heads_only:
        raise SettingsError(f"epochs is {epochs}, but with heads_only (--heads-only) nothing is trained; leave one out")
    if epochs is not None and not trains:
        raise SettingsError(f"epochs is {epochs}, but nothing is trained in a zoo on features; leave it out")
    if epochs is not None and epochs < 1:
        raise SettingsError(f"epochs is {epochs}; give 1 or more, or nothing: as many as the rows need")


@dataclass(frozen=True)
class EpisodePlan:
    """The plan of an episode: its tasks, epochs and approximate seconds.

    0 epochs if nothing is trained: a head is fitted on the features of the member `refits`, or else made of statistics.
    """

    tasks: tuple[str, ...]
    rows: int  # in an epoch
    epochs: int
    seconds: float
    refits: int | None = None


@dataclass(kw_only=True, eq=False)
class OwnedZoo(ModelZoo):
    """Model Zoo whose epochs are chosen for each episode where `epochs` is None."""

    epochs: int | None = derived(default=None)
    seeing: dict[str, Member] = derived(default_factory=dict)  # by task, the member whose features statistics are of

    def first_member(self, task: str) -> Member:
        """The member, with one head, whose features the statistics of a task are of."""
        return self.seeing[task]

    def fit(
        self, net: Net, tasks: Sequence[Task], seed: int | None = None, *, balanced: bool = False, **slots: Any
    ) -> Generator[Progress, None, float]:
        """Trains the net of a member for as many epochs as its rows need."""
        recipe = self.recipe_for(tasks, balanced=balanced)
        return super().fit(net, tasks, seed, recipe=recipe, balanced=balanced, **slots)

    def recipe_for(self, tasks: Sequence[Task], *, balanced: bool = False) -> Recipe:
        epochs = self.epochs or epochs_for(tasks, self.recipe.batch_size, balanced=balanced)
        return replace(self.recipe, epochs=epochs)

    def iter_learn_again(self, task: str) -> Generator[Progress, None, None]:
        """An episode on the kept rows of a task, after they were corrected; no new rows arrive."""
        with self.begin_episode():
            weights = self.past_weights(without=task)
            names = [task, *self.draw(weights)]
            member = yield from self.grow(self, [self.kept[name] for name in names], self.episode_seed())
            self._end(names, weights, member)

    def refit(self, part: Task, source: Member) -> None:
        """An episode without training: fits a head to the kept and new rows of a task, on the features of a member."""
        with self.begin_episode():
            self.count_arrival(part)
            member = refit_head(self, source, self.with_kept(part))
            self._count_features(part, source)
            self.keep(part)
            self._end([part.name], {}, member)
        self.classes[part.name] = part.classes

    def _count_features(self, part: Task, source: Member) -> None:
        """Adds a part to the statistics of its task; if there are none, starts them with the features of `source`."""
        if part.name in self.statistics:
            more = feature_statistics(self.seeing[part.name].net, part, self.recipe)
            self.statistics[part.name] = self.statistics[part.name].merge(more)
        elif self.keep_statistics:
            self.statistics[part.name] = feature_statistics(source.net, self.with_kept(part), self.recipe)

    def _end(self, names: Sequence[str], weights: Mapping[str, float], member: Member) -> None:
        self.members.append(member)
        self.train_votes[names[0]] = Votes("kept")  # earlier votes were on other rows
        for name in names:
            self._count_vote(name, member)
        self.latest = Episode(tuple(names), weights, member.loss)
        self.episode += 1

    def plan(self, task: Task) -> EpisodePlan:
        """The plan of learning this task; its duration is estimated by timing some steps."""
        if task.part and not self.replay:
            return EpisodePlan((task.name,), sum(self.arrived[task.name].rows) + len(task.train), 0, 0.0)
        whole = self.with_kept(task) if task.part else task
        if whole.train.x.dtype == torch.int16:
            return EpisodePlan((task.name,), len(whole.train), 0, 0.0)
        tasks = [whole, *(self.kept[name] for name in self.draw(self.past_weights(without=task.name)))]
        balanced = self.replay < 1
        recipe = self.recipe_for(tasks, balanced=balanced)
        rows = rows_per_epoch([len(part.train) for part in tasks], balanced=balanced)
        steps = (recipe.epochs + 1) * steps_per_epoch(rows, recipe.batch_size)  # one more: it is asked about all rows
        return EpisodePlan(
            tuple(part.name for part in tasks), rows, recipe.epochs, steps * self._seconds_per_step(tasks)
        )

    def plan_refit(self, part: Task, source: int) -> EpisodePlan:
        """The plan of fitting a head to the kept and new rows of a task, on the features of member `source`."""
        return EpisodePlan((part.name,), len(self.with_kept(part).train), 0, 0.0, source)

    def _seconds_per_step(self, tasks: Sequence[Task]) -> float:
        share = TIMED_ROWS / sum(len(task.train) for task in tasks)
        few = [task.subsample(share, seed=0) if share < 1 else task for task in tasks]
        recipe = replace(self.recipe_for(tasks), epochs=1)
        net = self.new_net(few, seed=0)
        run_to_end(iter_fit(net, few, recipe, seed=0))  # the first steps of a process are slower
        started = perf_counter()
        run_to_end(iter_fit(net, few, recipe, seed=0))
        return (perf_counter() - started) / steps_per_epoch(sum(len(task.train) for task in few), recipe.batch_size)
