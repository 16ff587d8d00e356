"""Finds copies among rows: a copy of a training row among held-out ones makes an accuracy too high.

Exact copies are found by a digest of a row as the zoo stores it. Similar pictures (the same one in another size or
encoding) are found by a perceptual hash: the signs of differences between neighbouring parts of a small grey copy. Both
are reported, and kept on one side of a split.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.zoo.disk.arrivals import Side, Stored, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import drop_deleted, join_arrivals

SMALLEST_SIDE = 16  # of pictures compared by perceptual hashes: smaller ones show too little
THUMBNAIL = (8, 9)
DIFFERENT_BITS = 8  # of 64, that a perceptual hash may differ by
DIFFERENT_LOOK = 0.08  # root of the mean squared difference of two thumbnails, in units of their contrast
LEAST_CONTRAST = 4.0  # of a thumbnail in grey levels; flatter ones all look alike
NEIGHBOURS = 8  # in the order of their hashes, that a picture is compared with
ROWS_AT_ONCE = 4096

Digests = NDArray[np.uint64]


@dataclass
class Fingerprints:
    """Fingerprints of rows: a digest of each, and thumbnails of pictures."""

    digests: list[Digests] = field(default_factory=list)
    thumbnails: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, x: NDArray[Any], stored: NDArray[Any] | None = None) -> None:
        """Adds fingerprints of some rows; digests are of their `stored` form, if that differs."""
        self.digests.append(row_digests(x if stored is None else stored))
        if x.ndim == 4 and min(x.shape[2:]) >= SMALLEST_SIDE:
            self.thumbnails.append(_thumbnails(x))

    @property
    def all(self) -> Digests:
        """The digests of all rows."""
        return np.concatenate(self.digests) if self.digests else np.empty(0, np.uint64)

    def groups(self) -> NDArray[np.int64]:
        """A group number for each row, shared with its copies."""
        return np.unique(self.all, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def lookalikes(self) -> list[tuple[int, int]]:
        """Pairs of different rows that look alike."""
        if not self.thumbnails:
            return []
        digests, pairs = self.all, _alike(np.concatenate(self.thumbnails))
        return [(first, second) for first, second in pairs if digests[first] != digests[second]]


def row_digests(x: NDArray[Any]) -> Digests:
    """A 64-bit digest of each row, equal for equal rows.

    >>> first, second, third = row_digests(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]], np.float32))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    rows = np.ascontiguousarray(x).reshape(len(x), prod(x.shape[1:]))
    return np.array([int.from_bytes(blake2b(row.data, digest_size=8).digest(), "little") for row in rows], np.uint64)


def read_digests(folder: ZooFolder, entry: TaskEntry, side: Side) -> Digests:
    """The stored digests of a task's rows; no row is read."""
    found = join_arrivals(folder, entry, side, lambda rows: folder.verify_tensor(rows.digests), drop_deleted)
    return found.numpy().view(np.uint64)


def store_digests(folder: ZooFolder, digests: Digests) -> Stored:
    """Stores the digests of stored rows."""
    return folder.store_blocks([digests.view(np.int64)], "int64", ())


def digest_rows(x: Tensor) -> Digests:
    """The digests of rows in memory."""
    return np.concatenate([row_digests(block.numpy()) for block in torch.split(x, ROWS_AT_ONCE)])


def iter_earlier_sides(folder: ZooFolder, index: Index, prints: Digests) -> Iterator[tuple[str, str, Digests]]:
    """For every task with one of these rows: its name, "held" or "train", and the digests of that side."""
    for name in folder.index.tasks_with(index, prints):
        task = index.tasks[name]
        yield name, "held", read_digests(folder, task, "test")
        if task.keeps_rows:
            yield name, "train", read_digests(folder, task, "train")


def join_groups(groups: NDArray[np.int64], pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Merges the groups of each pair of rows.

    >>> join_groups(np.array([0, 1, 2, 1]), [(0, 3)]).tolist()
    [0, 0, 2, 0]
    """
    leader = {group: group for group in groups.tolist()}

    def lead(group: int) -> int:
        while leader[group] != group:
            group = leader[group]
        return group

    for first, second in pairs:
        one, other = sorted((lead(int(groups[first])), lead(int(groups[second]))))
        leader[other] = one
    return np.array([lead(group) for group in groups.tolist()], np.int64)


def join_by_names(groups: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.int64]:
    """Merges groups of rows with equal names."""
    first: dict[str, int] = {}
    return join_groups(groups, [(first.setdefault(name, row), row) for row, name in enumerate(names)])


def _thumbnails(x: NDArray[np.uint8]) -> NDArray[np.float32]:
    blocks = torch.split(torch.from_numpy(np.ascontiguousarray(x)), ROWS_AT_ONCE)
    grey = (block.float().mean(dim=1, keepdim=True) for block in blocks)
    return np.concatenate([F.adaptive_avg_pool2d(block, THUMBNAIL)[:, 0].numpy() for block in grey])


def _alike(thumbnails: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Pairs whose hashes share one of four parts and nearly all bits, and whose thumbnails are nearly equal."""
    rises = thumbnails[:, :, 1:] > thumbnails[:, :, :-1]
    bits = rises.reshape(len(rises), 64)
    packed = np.packbits(bits, axis=1)
    flat = thumbnails.reshape(len(thumbnails), -1)
    contrast = flat.std(axis=1)
    found: set[tuple[int, int]] = set()
    for part in range(4):
        turned = np.roll(packed, -2 * part, axis=1)  # this part first
        order = np.lexsort(turned.T[::-1])
        for distance in range(1, min(NEIGHBOURS, len(order) - 1) + 1):
            one, other = order[:-distance], order[distance:]
            same = (turned[one, :2] == turned[other, :2]).all(axis=1)
            one, other = one[same], other[same]
            close = (bits[one] != bits[other]).sum(axis=1) <= DIFFERENT_BITS
            one, other = one[close], other[close]
            apart = np.sqrt(np.square(flat[one] - flat[other]).mean(axis=1))
            shown = np.minimum(contrast[one], contrast[other])
            near = (shown >= LEAST_CONTRAST) & (apart <= DIFFERENT_LOOK * shown)
            found |= {(min(pair), max(pair)) for pair in zip(one[near].tolist(), other[near].tolist(), strict=True)}
    return sorted(found)
