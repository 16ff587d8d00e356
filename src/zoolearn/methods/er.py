"""ER: experience replay from a tiny memory (Chaudhry et al., 2019)."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import SingleNet, part_of
from zoolearn.methods.learner import Episode, State, StateFile
from zoolearn.methods.parts.memory import check_single_rows
from zoolearn.methods.parts.reservoir import Reservoir
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Progress, cross_entropy, iter_fit


@dataclass(kw_only=True, eq=False)
class Er(SingleNet):
    """Trains every step on the new rows and as many from a uniform sample of everything seen.

    "On Tiny Episodic Memories in Continual Learning" (Chaudhry et al., 2019), algorithm 1 with reservoir sampling: the
    loss is the mean over new and replayed rows together, each through its own task's head, and the memory replays from
    the very first batch, rows of the current task included. Heads of past tasks learn on with their rows.

    Where we differ: (1) the reservoir is exactly uniform, the authors' code slightly favours late rows; (2) with several
    epochs a row is offered to the memory in the first one only, so that no example is kept twice; what is kept is the
    row as it was shown, augmented if the recipe augments; (3) `memory_loss="added"` with `replay_from=2` is the variant
    in the code of TAG (Malviya et al., 2022): new and replayed rows go through the net apart (each batch-normed for
    itself), their mean losses are added, and the first task is learned without replay.

    Batch-norm statistics are those of the mixed batches.
    """

    memory_size: int = field(default=500, metadata={"help": "samples kept in all"})
    memory_batch: int = field(default=0, metadata={"help": "rows replayed per step; 0: as many as are new"})
    memory_loss: Literal["pooled", "added"] = field(
        default="pooled", metadata={"help": "one mean over new and replayed rows, or the sum of their two means"}
    )
    replay_from: int = field(default=1, metadata={"help": "number of the first task during which memory is replayed"})

    memory: Reservoir | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if self.memory_size < 0:
            raise SettingsError(f"memory_size is {self.memory_size}; it counts samples, so 0 or more")
        if self.memory_batch < 0:
            raise SettingsError(f"memory_batch is {self.memory_batch}; it counts rows, 0 for as many as are new")

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on the new task and the memory, which fills on the way."""
        net = self.grown(task)
        if self.memory_loss == "added":
            check_single_rows(net, min(self.memory_size, self.memory_batch or self.memory_size))
        memory = self.reserved(task)
        replays = self.memory_size > 0 and self.episode + 1 >= self.replay_from
        rehearsal = Rehearsal(self, memory, net.tasks, task, self.episode_seed("memory"))
        loss = yield from iter_fit(
            net,
            [task],
            self.recipe,
            seed=self.episode_seed(),
            loss=rehearsal.loss if replays else cross_entropy,
            adjust=rehearsal.keep,
            heads=net.tasks if replays else [task.name],
            checkpoints=self.checkpoints,
            carried=memory.tensors(),
        )
        self.net, self.memory = net, memory
        return Episode((task.name,), None, loss)

    def reserved(self, task: Task) -> Reservoir:
        """A copy of the memory to go on with; it becomes `memory` when the episode is over."""
        device = self.recipe.torch_device
        if self.memory is None:
            return Reservoir.empty(self.memory_size, task.shape, task.train.x.dtype, device)
        return self.memory.copy().to(device)

    def state(self) -> State:
        """The net and the memory."""
        assert self.memory is not None
        own = super().state()
        return replace(own, parts={**own.parts, f"memory/{self.episode:04d}": StateFile(self.memory.tensors())})

    def load_state(self, snapshots: Sequence[State], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the net and the memory."""
        super().load_state(snapshots, tasks, backbones)
        _, part = part_of(snapshots[-1], "memory")
        self.memory = Reservoir(**part.tensors)

    @property
    def stored_samples(self) -> int:
        """The samples in the memory."""
        return self.memory.filled if self.memory is not None else 0


class Rehearsal:
    """The two slots of one episode: the loss with replay, and the new rows' way into the memory."""

    def __init__(self, learner: Er, memory: Reservoir, tasks: tuple[str, ...], task: Task, seed: int) -> None:
        self.memory, self.seed, self.number = memory, seed, learner.episode
        self.tasks = (task.name,) if learner.shared_head else tasks
        self.rows = learner.memory_batch
        self.pooled = learner.memory_loss == "pooled"
        self.end = memory.seen + len(task.train)

    def loss(self, net: Net, batch: Batch) -> Tensor:
        """The loss of new and replayed rows."""
        if not self.memory.filled:
            return cross_entropy(net, batch)
        replayed = Batch(*self.memory.draw(self.rows or len(batch.y), self.seed), self.tasks)
        if not self.pooled:
            return cross_entropy(net, batch) + cross_entropy(net, replayed)
        return cross_entropy(net, self.together(batch, replayed))

    def together(self, batch: Batch, replayed: Batch) -> Batch:
        """New and replayed rows as one batch."""
        x, y = torch.cat([batch.x, replayed.x]), torch.cat([batch.y, replayed.y])
        return Batch(x, y, torch.cat([torch.full_like(batch.y, self.number), replayed.task_index]), self.tasks)

    def keep(self, net: Net, batch: Batch) -> None:
        """Offers the new rows to the memory, in the first epoch only."""
        if self.memory.seen < self.end:
            self.memory.offer(batch.x, batch.y, self.number, self.seed)
