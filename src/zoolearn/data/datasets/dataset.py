"""What every reader returns: the publisher's training and test examples under one set of labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoolearn.data.task import Examples


@dataclass(frozen=True, eq=False)
class DataSet:
    """Examples as the publisher split them, and the name of each label; `superclasses` maps a name to its labels."""

    train: Examples
    test: Examples
    classes: tuple[str, ...]
    superclasses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
