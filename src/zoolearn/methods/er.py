"""ER: experience replay from a tiny memory (Chaudhry et al., 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from zoolearn.data.task import Examples, Task
from zoolearn.methods.bases.with_memory import WithReservoir
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.heads import HEADS, Heads, as_trained
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import OPTIMIZERS, Work, cross_entropy


@dataclass(kw_only=True, eq=False)
class Er(WithReservoir):
    """Trains every step on the new rows and as many from a uniform sample of everything seen.

    "On Tiny Episodic Memories in Continual Learning" (Chaudhry et al., 2019), algorithm 1 with reservoir sampling: the
    loss is the mean over new and replayed rows together, each through its own task's head, and the memory replays from
    the very first batch, rows of the current task included. Heads of past tasks learn on with their rows.

    Where we differ: (1) the reservoir is exactly uniform, the authors' code slightly favours late rows; (2) with several
    epochs a row is offered to the memory in the first one only, so that no example is kept twice; what is kept is the
    row as it was shown, augmented if the recipe augments; (3) `memory_loss="added"` with `replay_from=2` is the variant
    in the code of TAG (Malviya et al., 2022): new and replayed rows go through the net apart (each batch-normed for
    itself), their mean losses are added, and the first task is learned without replay.

    Batch-norm statistics are those of the mixed batches. With `heads="refit"`, past the paper, all heads are fitted to the
    stored rows after each task, a new task's to all of its rows; the next task trains them on from there.
    """

    optimizers = tuple(OPTIMIZERS)
    tasks_grow = True

    memory_loss: Literal["pooled", "added"] = setting("pooled", "one mean over new and replayed rows, or two, added")
    replay_from: int = setting(1, "number of the first task during which memory is replayed")

    heads: Heads = setting(as_trained, "refit: fitted to stored rows after each task", choices=HEADS, omit_default=True)

    def _train(self, task: Task) -> Work[Episode]:
        net = self.grow_net(task)
        if self.memory_loss == "added":
            self.check_memory_batch(net)
        self.memory = self.memory.to(self.recipe.torch_device)
        replays = self.memory_size > 0 and self.episode + 1 >= self.replay_from
        rehearse, moving = (self.rehearse, net.tasks) if replays else (None, (task.name,))
        loss = yield from self.fit(net, [task], loss=rehearse, adjust=self.keep, heads=moving)
        if self.heads is not as_trained:
            new = {} if self.shared_head or task.name in self.classes else {task.name: task.train}
            self.heads(net, self.stored_examples(net) | new, self.recipe)
        self.net = net
        return Episode((task.name,), None, loss)

    def stored_examples(self, net: Net) -> dict[str, Examples]:
        """The rows of the memory, by the names of their tasks; all under the first one's where tasks share a head."""
        if not self.memory.filled:
            return {}
        x, y, numbers = (self.memory.columns[name][: self.memory.filled] for name in ("x", "y", "task"))
        tasks = net.tasks[:1] if self.shared_head else net.tasks
        rows = {task: slice(None) if self.shared_head else numbers == place for place, task in enumerate(tasks)}
        return {task: Examples(x[here], y[here]) for task, here in rows.items() if len(y[here])}

    def rehearse(self, net: Net, batch: Batch) -> Tensor:
        if not self.memory.filled:
            return cross_entropy(net, batch)
        tasks = batch.tasks if self.shared_head else net.tasks
        x, y, numbers = self.draw(len(batch.y)).values()
        if self.memory_loss == "added":
            return cross_entropy(net, batch) + cross_entropy(net, Batch(x, y, numbers, tasks))
        both = torch.cat([torch.full_like(batch.y, self.task_number(batch)), numbers])
        return cross_entropy(net, Batch(torch.cat([batch.x, x]), torch.cat([batch.y, y]), both, tasks))

    def keep(self, net: Net, batch: Batch) -> None:
        """Offers the new rows to the memory, in the first epoch only."""
        if batch.epoch == 0:
            self.memory.offer(batch.x, batch.y, self.task_number(batch), self.episode_seed("memory"))

    def task_number(self, batch: Batch) -> int:
        """The number of the task under way, from 0: a new one's, or its own where it was met before."""
        met = [*self.classes]
        return met.index(batch.tasks[0]) if batch.tasks[0] in met else len(met)
