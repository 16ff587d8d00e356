"""Which rows are held out: copies, and rows of one group, are always on one side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError, SettingsError


@dataclass(frozen=True)
class Holdout:
    """How rows are held out: a random share, the last rows (of each class, if sorted by class), or whole groups.

    `group` names the column of a table whose equal values belong together.
    """

    share: float = 0.2
    last: float | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("holdout", self.share), ("last", self.last)):
            if value is not None and not 0 < value < 1:
                raise DataError(f"{name} is {value}; it is the share of rows to test on, above 0 and below 1")
        if self.last is not None and self.group is not None:
            raise SettingsError("both the last rows and a group were asked for; hold out by one of them")


@dataclass(frozen=True)
class Split:
    """Row numbers of both sides; `torn` are classes with copies that had to be on both sides."""

    train: list[int]
    held: list[int]
    torn: tuple[int, ...] = ()


def last_rows(labels: NDArray[np.int64], share: float) -> Split:
    """Holds out the last rows; if rows are sorted by class, the last ones of each class.

    >>> last_rows(np.array([0, 1, 0, 1, 1]), 0.4).held, last_rows(np.array([0, 0, 0, 1, 1]), 0.4).held
    ([3, 4], [2, 4])
    """
    runs = 1 + int((labels[1:] != labels[:-1]).sum())
    by_class = runs == len(np.unique(labels))
    parts = [np.flatnonzero(labels == label) for label in np.unique(labels)] if by_class else [np.arange(len(labels))]
    held = {int(row) for rows in parts for row in rows[len(rows) - _count(len(rows), share) :]}
    return Split([row for row in range(len(labels)) if row not in held], sorted(held))


def random_rows(
    labels: NDArray[np.int64],
    groups: NDArray[np.int64],
    share: float,
    seed: int,
    fixed: Mapping[int, str] | None = None,
) -> Split:
    """Holds out about this share of each class, whole groups at a time; none of a class of one row.

    `fixed` are groups whose side, "held" or "train", is given by an earlier task with the same rows.

    >>> labels, groups = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 2, 3, 4, 5, 5])
    >>> split = random_rows(labels, groups, 0.5, seed=0, fixed={2: "held"})
    >>> 3 in split.held, (0 in split.held) == (1 in split.held), (6 in split.held) == (7 in split.held)
    (True, True, True)
    """
    rng = np.random.default_rng(seed)
    side = dict(fixed or {})
    held: set[int] = set()
    torn, torn_apart = [], []
    found, counts = np.unique(labels, return_counts=True)
    for label in found[counts == 1].tolist():  # it is trained on, whatever else its group holds
        group = int(groups[labels == label][0])
        torn_apart += [label] if side.get(group) == "held" else []
        side[group] = "train"
    for label in found[counts > 1].tolist():
        rows = np.flatnonzero(labels == label)
        of_class, sizes = np.unique(groups[rows], return_counts=True)
        wanted = _count(len(rows), share)
        if len(of_class) == 1 and of_class[0] not in side:  # copies of one another: they cannot be on one side
            torn.append(label)
            held.update(rng.choice(rows, wanted, replace=False).tolist())
            continue
        if not _fill(side, of_class.tolist(), sizes.tolist(), wanted, rng):
            torn_apart.append(label)
    torn_rows = {int(row) for label in torn for row in np.flatnonzero(labels == label)}
    held |= {row for row in range(len(labels)) if row not in torn_rows and side.get(int(groups[row])) == "held"}
    return Split([row for row in range(len(labels)) if row not in held], sorted(held), tuple(torn + torn_apart))


def _fill(
    side: dict[int, str], groups: Sequence[int], sizes: Sequence[int], wanted: int, rng: np.random.Generator
) -> bool:
    """Assigns the groups of a class to sides, so that about `wanted` rows are held out, and never none or all.

    Returns False if a group had to leave its fixed side.
    """
    size = dict(zip(groups, sizes, strict=True))
    missing = wanted - sum(size[group] for group in groups if side.get(group) == "held")
    free = [groups[place] for place in rng.permutation(len(groups)) if groups[place] not in side]
    none_held = all(side.get(group) != "held" for group in groups)
    none_trained = all(side.get(group) != "train" for group in groups)
    if none_trained and len(free) > (1 if none_held else 0):
        side[free.pop(int(np.argmax([size[group] for group in free])))] = "train"
    if none_held and free:
        smallest = free.pop(int(np.argmin([size[group] for group in free])))
        side[smallest] = "held"
        missing -= size[smallest]
    for group in free:
        takes = size[group] / 2 < missing
        side[group] = "held" if takes else "train"
        missing -= size[group] if takes else 0
    sides = {side[group] for group in groups}
    if len(sides) == 1:
        fewest = min(groups, key=lambda group: size[group])
        side[fewest] = "held" if sides == {"train"} else "train"
    return len(sides) == 2


def _count(rows: int, share: float) -> int:
    return min(rows - 1, max(1, round(share * rows)))
