"""Rows that are read when needed: pictures that have to be decoded, or an array."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.nets.backbones import Shape
from zoolearn.words import some
from zoolearn.zoo.inputs.cells import LARGEST, list_lines, list_missing
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.pictures import Size, Undecodable, decode_picture, fit_pixels, picture_size

PICTURES_AT_ONCE = 64  # a block; large ones take a second or two: how often progress is told
MOST_DECODERS = 8  # 12 megapixels that cannot be decoded smaller take 40 to 75 MB each meanwhile, as WebP 200
MOST_LISTED = 1000  # broken rows in one message
CHANNELS = {1, 3, 4}  # of images: grey, in colour, in colour and transparent
LOOKED_AT = 2000  # pictures whose size is asked before all are read


@dataclass(frozen=True)
class Broken:
    """A row that cannot be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Block:
    """Some rows of a source, in the zoo's shape, and those among them that could not be read."""

    rows: list[int]
    x: NDArray[Any]
    broken: tuple[Broken, ...] = ()


class Source(ABC):
    """Rows by number, with a name and, for learning, a label each; `classes` is set only if it fixes an order."""

    where: str
    labels: Sequence[str] | None
    classes: tuple[str, ...] | None = None
    groups: Sequence[str] | None = None  # of rows that belong together, where a column tells
    left_out: tuple[Broken, ...] = ()  # what lay beside the rows and was not taken, and why

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, row: int) -> str:
        """The name of a row: a path, or a place in a file."""

    @abstractmethod
    def look(self) -> Look:
        """What the rows look like, before they are read."""

    @abstractmethod
    def blocks(self, rows: Sequence[int], shape: Shape) -> Iterator[Block]:
        """These rows in the zoo's shape, block by block."""

    def file(self, row: int) -> Path | None:
        """The file of a row, if it has one of its own."""
        return None

    def list_broken(self, broken: Sequence[Broken]) -> str:
        """A line for each unreadable row."""
        return list_lines((f"{row.name}: {row.reason}" for row in broken), MOST_LISTED)


@dataclass(eq=False)
class Pictures(Source):
    """Image files, or the bytes of image files, which `open_row` opens; else names are paths."""

    where: str
    names: Sequence[str]
    labels: Sequence[str] | None
    open_row: Callable[[int], Path | IO[bytes]] | None = None
    classes: tuple[str, ...] | None = None

    def open_row_file(self, row: int) -> Path | IO[bytes]:
        return Path(self.names[row]) if self.open_row is None else self.open_row(row)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, row: int) -> str:
        return self.names[row]

    def file(self, row: int) -> Path | None:
        """The image, where it is a file of its own."""
        opened = self.open_row_file(row)
        return opened if isinstance(opened, Path) else None

    def look(self) -> Look:
        """Sizes and colours of a spread of the images; those that cannot be read are found later."""
        stride = max(1, len(self) // LOOKED_AT)
        looked = [self._size(row) for row in range(0, len(self), stride)]
        sizes = [size for size in looked if isinstance(size, Size)]
        if not sizes:
            raise DataError(
                f"{self.where}: none of the {len(self)} images can be read; the first is {self.name(0)}: {looked[0]}"
            )
        height, width = (int(median(side)) for side in ([s.height for s in sizes], [s.width for s in sizes]))
        uniform = len({(size.height, size.width) for size in sizes}) == 1
        return Look("images", 1 if all(size.is_grey for size in sizes) else 3, height, width, uniform)

    def _size(self, row: int) -> Size | Undecodable:
        try:
            return picture_size(self.open_row_file(row))
        except Undecodable as error:
            return error

    def blocks(self, rows: Sequence[int], shape: Shape) -> Iterator[Block]:
        """Decoded by threads, and always some more than were asked for: what is done with a block need not wait for the next."""
        if len(shape) != 3:
            raise DataError(f"{self.where} holds images, but the zoo takes {shape[0]} features; use another zoo")
        pool = ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_DECODERS))
        parts = (rows[first : first + PICTURES_AT_ONCE] for first in range(0, len(rows), PICTURES_AT_ONCE))
        begun = ((part, pool.map(lambda row: self._decode(row, shape), part)) for part in parts)
        try:
            for (part, decoding), _ in pairwise(chain(begun, [((), iter(()))])):
                decoded = list(decoding)
                good = [row for row, x in zip(part, decoded, strict=True) if not isinstance(x, Broken)]
                pixels = [x for x in decoded if not isinstance(x, Broken)]
                x = np.stack(pixels) if pixels else np.empty((0, *shape), np.uint8)
                yield Block(good, x, tuple(x for x in decoded if isinstance(x, Broken)))
        finally:
            pool.shutdown(cancel_futures=True)

    def _decode(self, row: int, shape: Shape) -> NDArray[np.uint8] | Broken:
        try:
            return decode_picture(self.open_row_file(row), shape)
        except Undecodable as error:
            return Broken(self.name(row), str(error))


@dataclass(eq=False)
class Numbers(Source):
    """An array, in memory or memory-mapped: uint8 images (N,H,W), (N,H,W,C), (N,C,H,W), or features (N,D)."""

    where: str
    x: NDArray[Any]
    labels: Sequence[str] | None
    classes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    numbered: Sequence[int] | None = None  # the rows' numbers, as a spreadsheet counts them

    def __post_init__(self) -> None:
        where, x, labels = self.where, self.x, self.labels
        if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
            raise DataError(f"{where} has shape {x.shape}; give images (N,H,W), (N,H,W,C), (N,C,H,W) or features (N,D)")
        if x.ndim > 2 and x.dtype != np.uint8:
            raise DataError(f"{where} holds images of dtype {x.dtype}; give uint8, 0 to 255")
        if x.ndim == 4 and not {x.shape[1], x.shape[3]} & CHANNELS:
            raise DataError(f"{where} has shape {x.shape}; images have 1, 3 or 4 channels, first or last")
        if x.dtype.kind not in "uifb":
            raise DataError(f"{where} has dtype {x.dtype}; give numbers")
        if labels is not None and len(labels) != len(x):
            raise DataError(f"{where} has {len(x)} rows but {len(labels)} labels; give one label per row")

    def __len__(self) -> int:
        return len(self.x)

    def name(self, row: int) -> str:
        return f"{self.where}[{row}]" if self.numbered is None else f"{self.where}, row {self.numbered[row]}"

    def list_broken(self, broken: Sequence[Broken]) -> str:
        """Of a table, the columns that have missing cells, and how many."""
        if self.numbered is None or not broken:
            return super().list_broken(broken)
        return list_lines(list_missing(self.x, self.columns, self.numbered))

    @property
    def _channels_last(self) -> bool:
        return self.x.ndim == 4 and self.x.shape[1] not in CHANNELS

    def look(self) -> Look:
        if self.x.ndim == 2:
            return Look("features", width=self.x.shape[1], uniform=True, dtype=str(self.x.dtype), columns=self.columns)
        if self.x.ndim == 3:
            channels, (height, width) = 1, self.x.shape[1:]
        elif self._channels_last:
            height, width, channels = self.x.shape[1:]
        else:
            channels, height, width = self.x.shape[1:]
        return Look("images", 1 if channels == 1 else 3, height, width, uniform=True)

    def blocks(self, rows: Sequence[int], shape: Shape) -> Iterator[Block]:
        """A few megabytes of rows at a time."""
        self._check_other_kind(shape)
        at_once = max(1, (1 << 22) // (self.x[0].nbytes if len(self.x) else 1))
        for first in range(0, len(rows), at_once):
            some = list(rows[first : first + at_once])
            chosen = np.asarray(self.x[np.asarray(some)])
            if self.x.ndim == 2:
                yield self._features(some, chosen)
            else:
                yield Block(some, self._images(chosen, shape))

    def _check_other_kind(self, shape: Shape) -> None:
        if (self.x.ndim == 2) != (len(shape) == 1):
            kinds = ("features", "images") if self.x.ndim == 2 else ("images", "features")
            raise DataError(f"{self.where} holds {kinds[0]}, but the zoo takes {kinds[1]} of shape {shape}")
        if self.x.ndim == 2 and self.x.shape[1:] != shape:
            raise DataError(f"{self.where} has {self.x.shape[1]} columns of features, but the zoo takes {shape[0]}")

    def _features(self, rows: list[int], chosen: NDArray[Any]) -> Block:
        with np.errstate(over="ignore"):
            x = chosen.astype(np.float32)
        fine: NDArray[np.bool_] = np.asarray((np.abs(x) <= LARGEST).all(axis=1))  # False for NaN too
        broken = tuple(Broken(self.name(rows[place]), self._why(x[place])) for place in np.flatnonzero(~fine))
        return Block([row for row, good in zip(rows, fine, strict=True) if good], x[fine], broken)

    def _why(self, row: NDArray[np.float32]) -> str:
        why = (
            "missing or not finite"
            if np.isnan(row).any()
            else f"infinite or beyond {LARGEST:g}; bring such values to another unit"
        )
        if not self.columns or len(self.columns) != len(row):
            return f"holds a value that is {why}"
        odd = [repr(name) for name, value in zip(self.columns, row, strict=True) if not abs(value) <= LARGEST]
        shown = some(odd, 3)
        return f"column {shown} is {why}" if len(odd) == 1 else f"columns {shown} are {why}"

    def _images(self, chosen: NDArray[Any], shape: Shape) -> NDArray[np.uint8]:
        if chosen.ndim == 3:
            chosen = chosen[:, None]
        elif self._channels_last:
            chosen = chosen.transpose(0, 3, 1, 2)
        if chosen.shape[1:] == shape:
            return np.ascontiguousarray(chosen)
        return np.stack([fit_pixels(image, shape) for image in chosen])
