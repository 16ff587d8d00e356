"""What every reader returns: the publisher's training and test examples under one set of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from zoolearn.data.task import Examples


@dataclass(frozen=True, eq=False)
class DataSet:
    """Examples as the publisher split them, and the name of each label; `superclasses` maps a name to its labels.

    `near_duplicates` are the test rows of which a picture to train on is nearly a copy, where they are known.
    """

    train: Examples
    test: Examples
    classes: tuple[str, ...]
    superclasses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    near_duplicates: tuple[int, ...] = ()


def near_duplicates(dataset: DataSet, groups: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """By the name of a group of labels, the places among its test rows of those that have a near-duplicate."""
    copies, found = {*dataset.near_duplicates}, dict[str, tuple[int, ...]]()
    for name, labels in groups.items() if copies else ():
        rows = torch.isin(dataset.test.y, torch.tensor(labels)).nonzero()[:, 0].tolist()
        found[name] = tuple(place for place, row in enumerate(rows) if row in copies)
    return found
