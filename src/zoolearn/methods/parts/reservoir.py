"""A memory that is, at every moment, a uniform sample of all rows ever offered to it."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.errors import SettingsError
from zoolearn.seeds import derive


@dataclass(eq=False)
class Reservoir:
    """At most `size` rows, each of all rows offered so far with the same chance (Vitter, 1985, algorithm R).

    A row has an input x, a label y, the number of its task, and columns of one's own, such as its logits. The draws depend
    on how many rows and draws came before and on the seed given, on nothing else: a memory that is saved and taken up
    goes on as if nothing had happened. It is changed in place, so it has a `copy` for who keeps one in a saved field.

    >>> memory = Reservoir(2)
    >>> memory.offer(torch.eye(3), torch.arange(3), task=0, seed=0, logits=torch.ones(3, 5)).tolist()
    [0, 1]
    >>> memory.seen, memory.filled, [*memory.draw(1, seed=0)]
    (3, 2, ['x', 'y', 'task', 'logits'])
    """

    size: int
    columns: dict[str, Tensor] = field(default_factory=dict)  # `size` rows each, the first `filled` in use
    seen: int = 0  # rows offered so far
    draws: int = 0

    @property
    def filled(self) -> int:
        return min(self.seen, self.size)

    def copy(self) -> "Reservoir":
        """A memory with the same rows that goes its own way."""
        return Reservoir(self.size, {name: part.clone() for name, part in self.columns.items()}, self.seen, self.draws)

    def to(self, device: torch.device) -> "Reservoir":
        columns = {name: part.to(device) for name, part in self.columns.items()}
        return Reservoir(self.size, columns, self.seen, self.draws)

    def offer(self, x: Tensor, y: Tensor, task: int, seed: int, **own: Tensor) -> Tensor:
        """Lets each row in turn take a slot: row number n (from 0) the n-th, or when all are taken slot j of 0..n, if there is one.

        `own` are more columns, the same at every offer; rows of one that are narrower than others end in zeros. Gives the
        slots that were taken.
        """
        numbers = np.arange(self.seen, self.seen + len(y))
        drawn = np.random.default_rng(derive(seed, "offer", self.seen)).integers(0, numbers + 1)
        slots = np.where(numbers < self.size, numbers, drawn)
        inside = np.flatnonzero(slots < self.size)
        taken = dict(zip(slots[inside].tolist(), inside.tolist(), strict=True))  # a later row overwrites an earlier one
        places = torch.tensor([*taken], dtype=torch.int64, device=y.device)
        rows = torch.tensor([*taken.values()], dtype=torch.int64, device=y.device)
        offered = {"x": x, "y": y, "task": torch.full_like(y, task), **own}
        if self.columns and self.columns.keys() != offered.keys():
            raise SettingsError(
                f"the memory has columns {', '.join(self.columns)}, the rows offered {', '.join(offered)}"
            )
        for name, part in offered.items():
            column = self._column(name, part)
            chosen = part.detach().index_select(0, rows)
            if part.shape[1:] != column.shape[1:]:
                chosen = F.pad(chosen, (0, column.shape[1] - part.shape[1]))
            column.index_copy_(0, places, chosen)
        self.seen += len(y)
        return places

    def _column(self, name: str, rows: Tensor) -> Tensor:
        """The column of this name, made or widened to take these rows."""
        column = self.columns.get(name)
        if column is None:
            self.columns[name] = rows.new_zeros((self.size, *rows.shape[1:]))
        elif rows.ndim == 2 and rows.shape[1] > column.shape[1]:
            self.columns[name] = F.pad(column, (0, rows.shape[1] - column.shape[1]))
        return self.columns[name]

    def draw(self, count: int, seed: int) -> dict[str, Tensor]:
        """Every column of `count` different rows at random (of all, if there are fewer)."""
        rng = np.random.default_rng(derive(seed, "draw", self.draws))
        self.draws += 1
        slots = rng.choice(self.filled, min(count, self.filled), replace=False)
        return {
            name: part.index_select(0, torch.from_numpy(slots).to(part.device)) for name, part in self.columns.items()
        }
