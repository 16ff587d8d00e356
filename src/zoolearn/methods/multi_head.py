"""Multi-Head: one net on all tasks at once; not a continual learner, but the reference from above."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zoolearn.data.arrivals import join_parts
from zoolearn.data.task import Task
from zoolearn.errors import DataError, UnknownTask
from zoolearn.methods.learner import Episode, Learner
from zoolearn.methods.parts.heads import HEADS, Heads, as_trained
from zoolearn.methods.state import derived, saved
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.fit import OPTIMIZERS, Work


@dataclass(kw_only=True, eq=False)
class MultiHead(Learner):
    """Keeps all data and trains one shared backbone with a head per task on the mixture, from scratch.

    By default it trains once, when the last task has been met (`iter_finish`), and has no answers before; with
    `every_episode` it trains again on all tasks so far each time.
    """

    smooths_labels = True
    optimizers = tuple(OPTIMIZERS)
    tasks_grow = True

    every_episode: bool = setting(False, "train again after every task, not once at the end")

    heads: Heads = setting(as_trained, "refit: fitted to all rows in the end", choices=HEADS, omit_default=True)

    kept: dict[str, Task] = derived(default_factory=dict)
    net: Net | None = saved(default=None)

    @property
    def answers_at_once(self) -> bool:
        return self.every_episode

    def _train(self, task: Task) -> Work[Episode]:
        """Keeps the task's data and, with `every_episode`, trains on everything kept."""
        missing = [name for name in self.classes if name not in self.kept]
        if missing:
            raise DataError(f"the data of task {missing[0]!r} is not at hand; continue with the benchmark of this run")
        kept = {**self.kept, task.name: self.kept[task.name].join_part(task) if task.name in self.kept else task}
        loss = None
        if self.every_episode:
            loss = yield from self._fit(kept)
        self.kept = kept
        return Episode(tuple(kept) if self.every_episode else (), None, loss)

    def iter_finish(self) -> Work[None]:
        """Trains on all tasks, unless that was done episode by episode."""
        if not self.every_episode:
            loss = yield from self._fit(self.kept)
            self.latest = Episode(tuple(self.kept), None, loss)

    def _fit(self, kept: Mapping[str, Task]) -> Work[float]:
        tasks = list(kept.values())
        seed = self.episode_seed(len(tasks))
        net = self.new_net(tasks, seed)
        loss = yield from self.fit(net, tasks, seed)
        self.heads(net, {task.name: task.train for task in tasks}, self.recipe)
        self.net = net.freeze()
        return loss

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of all tasks; nothing before the net is trained."""
        return super().evaluate(tasks) if self.net is not None else {}

    def voters(self, task: str) -> list[tuple[Net, float]]:
        if self.net is None:
            raise UnknownTask("multi-head has not trained yet; it does when all tasks are met (`iter_finish`)")
        return [(self.net, 1.0)]

    def rebuild(self, tasks: Sequence[Task]) -> None:
        self.kept = join_parts(tasks)

    @property
    def stored_samples(self) -> int:
        return sum(len(task.train) for task in self.kept.values())

    @property
    def num_parameters(self) -> int:
        return self.net.num_parameters if self.net is not None else 0
