"""What a learner is shown: examples, and tasks made of them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.errors import DataError
from zoolearn.seeds import derive

STEP = 2.0**-15  # of features in 16 bits
Array = Tensor | NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and labels, in memory or memory-mapped: `x` raw (images N,C,H,W or float features N,D), `y` from 0.

    Images are uint8, scaled by nets, or float32, used as they are. Features are float32, or int16 in steps of 2**-15.

    >>> Examples(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))
    Examples(4 of 1x8x8 uint8)
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name, given in (("x", self.x), ("y", self.y)):
            if not isinstance(given, Tensor):
                raise DataError(
                    f"{name} is a {type(given).__name__}, not a tensor; Examples.of(x, y) takes arrays and lists"
                )
        if self.x.ndim not in (2, 4):
            raise DataError(
                f"x has shape {tuple(self.x.shape)}; give images as (count, channels, height, width) "
                "or features as (count, features)"
            )
        known = (torch.uint8, torch.float32) if self.x.ndim == 4 else (torch.float32, torch.int16)
        if self.x.dtype not in known:
            kind = "images are uint8, 0 to 255, or float32" if self.x.ndim == 4 else "features must be float32"
            raise DataError(f"x of shape {tuple(self.x.shape)} has dtype {_dtype(self.x)}; {kind}")
        if 0 in self.x.shape[1:]:
            raise DataError(f"x has shape {tuple(self.x.shape)}: an input without values cannot be learned from")
        if self.y.ndim != 1 or self.y.dtype != torch.int64:
            raise DataError(
                f"y has shape {tuple(self.y.shape)} and dtype {_dtype(self.y)}; give one int64 label per row"
            )
        if len(self.x) != len(self.y):
            raise DataError(f"{len(self.x)} inputs but {len(self.y)} labels; give one label per input")
        if len(self.y) and int(self.y.min()) < 0:
            raise DataError(f"label {int(self.y.min())} is negative; labels are per task and start at 0")
        if self.x.is_floating_point():
            _check_finite(self.x)

    @classmethod
    def of(cls, x: Array, y: Array | Sequence[int]) -> "Examples":
        """Examples from arrays: images (N,H,W), (N,H,W,C) or (N,C,H,W) in uint8 or floats, or features of any dtype.

        >>> Examples.of(np.zeros((2, 28, 28), np.uint8), [0, 1])
        Examples(2 of 1x28x28 uint8)
        """
        labels = torch.as_tensor(y)
        if labels.is_floating_point() or labels.dtype == torch.bool or labels.is_complex():
            raise DataError(f"labels have dtype {_dtype(labels)}; give whole numbers from 0")
        inputs = torch.as_tensor(x)
        if inputs.ndim == 2 or inputs.is_floating_point():
            inputs = inputs.to(torch.float32)
        if inputs.ndim == 3:
            inputs = inputs[:, None]
        elif inputs.ndim == 4 and inputs.shape[1] not in (1, 3, 4) and inputs.shape[3] in (1, 3, 4):
            inputs = inputs.permute(0, 3, 1, 2).contiguous()
        return cls(inputs, labels.to(torch.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as arrays, so that processes of a machine can share one copy in memory."""
        return _from_arrays, (self.x.numpy(), self.y.numpy())

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Examples({len(self)} of {'x'.join(map(str, self.shape))} {_dtype(self.x)})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input: (channels, height, width) or (features,)."""
        return tuple(self.x.shape[1:])

    def select(self, rows: Tensor) -> "Examples":
        return Examples(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class Task:
    """A classification problem with its own labels: training and test examples.

    `augment` lists how training images may be augmented: "crop" (pad by 4 and crop), "flip" (left-right). A `part` adds to
    a known task: it may have a single class, lack rows of other classes, and have no test rows.
    """

    name: str
    train: Examples
    test: Examples
    classes: tuple[str, ...] = ()
    augment: tuple[str, ...] = ()
    part: bool = False

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DataError(f"a task is named {self.name!r}; give it a name that can be typed")
        for split, examples in (("train", self.train), ("test", self.test)):
            if not len(examples) and not (self.part and split == "test"):
                raise DataError(f"task {self.name!r} has no {split} examples; a task needs both")
        if self.train.shape != self.test.shape or self.train.x.dtype != self.test.x.dtype:
            raise DataError(
                f"task {self.name!r} trains on {self.train!r} but tests on {self.test!r}; give both one shape"
            )
        highest = max(int(examples.y.max()) for examples in (self.train, self.test) if len(examples))
        named = tuple(self.classes) or tuple(str(label) for label in range(highest + 1))
        object.__setattr__(self, "classes", named)
        object.__setattr__(self, "augment", tuple(self.augment))
        if highest >= len(self.classes):
            raise DataError(
                f"task {self.name!r} has label {highest} but {len(self.classes)} classes; labels are per task and start at 0"
            )
        if len(self.classes) < 2 and not self.part:
            raise DataError(f"task {self.name!r} has one class, {self.classes[0]!r}; there is nothing to tell apart")
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise DataError(f"task {self.name!r} has two classes named {twice!r}; give each its own name")
        counts = torch.bincount(self.train.y, minlength=len(self.classes))
        if int(counts.min()) == 0 and not self.part:
            empty = self.classes[int(counts.argmin())]
            raise DataError(
                f"task {self.name!r} has no training example of class {empty!r}; add some or drop the class"
            )
        if unknown := set(self.augment) - {"crop", "flip"}:
            raise DataError(f"task {self.name!r} asks for augmentation {sorted(unknown)}; known are 'crop' and 'flip'")
        if self.augment and len(self.train.shape) != 3:
            raise DataError(f"task {self.name!r} has features, not images; they cannot be augmented by {self.augment}")

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {len(self.classes)} classes, train={len(self.train)}, test={len(self.test)})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.train.shape

    def subsample(self, fraction: float, seed: int) -> "Task":
        """This task with a fixed random fraction of its training data, the same of every class (at least one each)."""
        return self if fraction == 1.0 else replace(self, train=self.train.select(self.subsample_rows(fraction, seed)))

    def subsample_rows(self, fraction: float, seed: int) -> Tensor:
        counts = torch.bincount(self.train.y, minlength=len(self.classes))
        sizes = [max(1, round(fraction * int(count))) if count else 0 for count in counts]
        return self.draw_rows(sizes, seed)

    def relabel(self, classes: Sequence[str]) -> "Task":
        """This part of a task with its labels counted within all `classes` of the task."""
        if tuple(classes) == self.classes:
            return self
        places = torch.tensor([list(classes).index(name) for name in self.classes])
        train, test = (Examples(part.x, places[part.y]) for part in (self.train, self.test))
        return replace(self, train=train, test=test, classes=tuple(classes), part=True)

    def join_part(self, part: "Task") -> "Task":
        """This task and a later part of it: more rows of its classes, and new classes after them, by their names.

        >>> rows = Examples(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
        >>> animals = Task("animals", rows, rows, ("cat", "dog"))
        >>> grown = animals.join_part(Task("animals", rows, rows, ("fox", "cat"), part=True))
        >>> grown.classes, grown.train.y.tolist()
        (('cat', 'dog', 'fox'), [0, 1, 1, 2, 0, 0])
        """
        classes = merge_classes(self.classes, part.classes)
        new = part.relabel(classes)
        pairs = ((self.train, new.train), (self.test, new.test))
        train, test = (Examples(torch.cat([a.x, b.x]), torch.cat([a.y, b.y])) for a, b in pairs)
        return replace(self, train=train, test=test, classes=classes)

    def draw_rows(self, sizes: Sequence[int], seed: int) -> Tensor:
        """Random training rows, `sizes` of each class, in their order."""
        rng = np.random.default_rng(derive(seed, "keep", self.name))
        labels = self.train.y.numpy()
        rows = [rng.choice(np.flatnonzero(labels == c), size, replace=False) for c, size in enumerate(sizes)]
        return torch.from_numpy(np.sort(np.concatenate(rows)))


def merge_classes(known: Sequence[str], part: Sequence[str]) -> tuple[str, ...]:
    """The classes of a task after a further part, in the order of their arrival."""
    return tuple(dict.fromkeys((*known, *part)))


def _from_arrays(x: NDArray[np.generic], y: NDArray[np.int64]) -> Examples:
    with warnings.catch_warnings():  # shared memory is read-only, and examples are never written to
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return Examples(torch.from_numpy(x), torch.from_numpy(y))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check_finite(x: Tensor) -> None:
    blocks = torch.split(x, max(1, (1 << 20) // prod(x.shape[1:])))  # a memory-mapped x may be larger than memory
    bad = torch.cat([(~torch.isfinite(block)).flatten(1).any(dim=1) for block in blocks]).nonzero()
    if len(bad):
        row = int(bad[0])
        value = x[row][~torch.isfinite(x[row])][0].item()
        raise DataError(f"row {row} of x holds {value}; {len(bad)} row(s) are not finite, clean them first")
