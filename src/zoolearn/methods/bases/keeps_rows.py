"""The base of ensembles that keep a share of every task's training rows: for replay, and to let tasks grow."""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass

from zoolearn.data.task import Task, merge_classes
from zoolearn.errors import DataError
from zoolearn.methods.ensemble import Ensemble
from zoolearn.methods.parts.growth import correct_class_priors
from zoolearn.methods.state import derived
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.settings import setting


@dataclass(kw_only=True, eq=False)
class KeepsRows(Ensemble):
    """Members, and a share of the training data of every task met."""

    replay: float = setting(1.0, "share of each past task's training data that is kept", least=0, most=1)
    balance: float = setting(0.0, "how far classes count as equally frequent", least=0, most=1, omit_default=True)

    kept: MutableMapping[str, Task] = derived(default_factory=dict)

    def check_kept(self, tasks: Iterable[str]) -> None:
        """Raises unless the kept rows of these tasks are in memory; a learner loaded only to predict has none."""
        missing = [name for name in tasks if name not in self.kept]
        if missing and self.replay:
            raise DataError(
                f"the data of task {missing[0]!r} is not at hand, so the zoo can answer but not learn on; "
                "continue it with the benchmark it was grown on"
            )

    def with_kept(self, task: Task) -> Task:
        """The rows to train on: a new task as it is; of a known one, its kept rows and the new ones."""
        return self.kept[task.name].join_part(task) if task.name in self.kept else task

    def share_at_hand(self, task: Task) -> float:
        """The share of a task's training data that is available: all of a new one, what is kept of a past one."""
        if task.name not in self.kept:
            return 1.0
        grows = len(task.train) != len(self.kept[task.name].train)
        return len(task.train) / sum(self.arrived[task.name].rows) if grows else self.replay

    def correct_priors(self, net: Net, task: Task) -> None:
        """Corrects the class priors of a head trained on all rows of new classes but only a share of the older ones."""
        if self.balance or self.replay < self.share_at_hand(task) < 1.0:
            correct_class_priors(net, task, self.arrived[task.name].rows, self.balance)

    def keep(self, task: Task) -> None:
        """Keeps a share of a task, or of a part of one."""
        if self.replay:
            self.kept[task.name] = self.with_kept(task.subsample(self.replay, derive(self.seed, "replay")))

    def rebuild(self, tasks: Sequence[Task]) -> None:
        self.kept = {}
        for task in tasks:
            known = self.kept[task.name].classes if task.name in self.kept else ()
            self.keep(task.relabel(merge_classes(known, task.classes)))

    @property
    def stored_samples(self) -> int:
        return sum(len(task.train) for task in self.kept.values())
