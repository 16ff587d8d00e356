"""CIFAR-10 and CIFAR-100 from the publisher's binary or python version (Krizhevsky, 2009)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoolearn.data.datasets import near_duplicates
from zoolearn.data.datasets.catalog import CIFAR10, CIFAR100
from zoolearn.data.datasets.dataset import DataSet
from zoolearn.data.datasets.root import data_root
from zoolearn.data.datasets.safe_pickle import Plain, load_pickle
from zoolearn.data.task import Examples
from zoolearn.errors import DataError

PIXELS = 3 * 32 * 32
TEST_ROWS = 10_000  # of the whole test set, whose rows are known by number
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

Bytes = NDArray[np.uint8]


def cifar10(data: Path | str | None = None) -> DataSet:
    """50,000 training and 10,000 test images of 32x32 colour pixels in ten classes."""
    root = data_root(data)
    layout = CIFAR10.locate(root)
    folder = root / layout.folder
    if layout.folder.endswith("-bin"):
        parts = [_records(folder / f"{name}.bin", labels=1) for name in (*BATCHES, "test_batch")]
        names = _names(folder / "batches.meta.txt", 10)
    else:
        parts = [_read_pickle(folder / name, ("labels",)) for name in (*BATCHES, "test_batch")]
        names = _read_pickled_names(folder / "batches.meta", "label_names", 10)
    labels = np.concatenate([labels for labels, _ in parts[:-1]])
    pixels = np.concatenate([pixels for _, pixels in parts[:-1]])
    return DataSet(_examples(labels[:, 0], pixels), _examples(parts[-1][0][:, 0], parts[-1][1]), names)


def cifar100(data: Path | str | None = None) -> DataSet:
    """50,000 training and 10,000 test images of 32x32 colour pixels in a hundred classes, five to a superclass.

    The binary version is memory-mapped: nothing is copied until rows are selected.
    """
    root = data_root(data)
    layout = CIFAR100.locate(root)
    folder = root / layout.folder
    if layout.folder.endswith("-binary"):
        train, test = (_records(folder / f"{split}.bin", labels=2) for split in ("train", "test"))
        fine = _names(folder / "fine_label_names.txt", 100)
        coarse = _names(folder / "coarse_label_names.txt", 20)
    else:
        train, test = (_read_pickle(folder / split, ("coarse_labels", "fine_labels")) for split in ("train", "test"))
        fine = _read_pickled_names(folder / "meta", "fine_label_names", 100)
        coarse = _read_pickled_names(folder / "meta", "coarse_label_names", 20)
    superclasses = _superclasses(train[0], fine, coarse)
    copies = near_duplicates.CIFAR100 if len(test[1]) == TEST_ROWS else ()
    return DataSet(_examples(train[0][:, 1], train[1]), _examples(test[0][:, 1], test[1]), fine, superclasses, copies)


def _records(path: Path, labels: int) -> tuple[Bytes, Bytes]:
    """The label columns and the pixels of a binary file: records of `labels` bytes and 3072 pixels."""
    size, length = path.stat().st_size, labels + PIXELS
    if size == 0 or size % length:
        raise DataError(f"{path} has {size} bytes, not a whole number of records of {length}; fetch it again")
    records = np.memmap(path, np.uint8, mode="c", shape=(size // length, length))
    columns = np.array(records[:, :labels])
    _check_labels(path, columns)
    return columns, records[:, labels:]


def _read_pickle(path: Path, keys: Sequence[str]) -> tuple[Bytes, Bytes]:
    """The label columns and the pixels of a python file."""
    content = _entries(path, ("data", *keys))
    pixels = content["data"]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise DataError(f"{path}: 'data' is not an array of bytes with {PIXELS} columns; fetch the file again")
    columns = [content[key] for key in keys]
    for key, column in zip(keys, columns, strict=True):
        if not isinstance(column, list) or len(column) != len(pixels):
            raise DataError(f"{path}: {key!r} is not a list of {len(pixels)} labels; fetch the file again")
    labels = np.array(columns).T
    if labels.dtype.kind != "i" or labels.size == 0 or labels.min() < 0:
        raise DataError(f"{path} holds labels that are not whole numbers from 0; fetch it again")
    _check_labels(path, labels)
    return labels.astype(np.uint8), np.require(pixels, requirements=["C", "W"])


def _check_labels(path: Path, columns: NDArray[Any]) -> None:
    limits = (10,) if columns.shape[1] == 1 else (20, 100)
    for column, limit in zip(columns.T, limits, strict=True):
        if column.max() >= limit:
            raise DataError(f"{path} holds the label {column.max()}, its labels end at {limit - 1}; fetch it again")


def _entries(path: Path, keys: Sequence[str]) -> dict[str, Plain]:
    content = load_pickle(path)
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            raise DataError(f"{path} has no entry {key!r}; it is another file or damaged")
    return dict(content)


def _names(path: Path, count: int) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return _check_names(path, [line.strip() for line in lines if line.strip()], count)


def _read_pickled_names(path: Path, key: str, count: int) -> tuple[str, ...]:
    return _check_names(path, _entries(path, (key,))[key], count)


def _check_names(path: Path, names: Plain, count: int) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) != count:
        raise DataError(f"{path} does not hold the names of {count} labels; fetch it again")
    return tuple(names)


def _superclasses(labels: Bytes, fine: Sequence[str], coarse: Sequence[str]) -> dict[str, tuple[int, ...]]:
    pairs = sorted({(int(above), int(below)) for above, below in np.unique(labels, axis=0)})
    for number in range(len(fine)):
        above = [coarse[pair[0]] for pair in pairs if pair[1] == number]
        if len(above) > 1:
            raise DataError(f"CIFAR-100 puts class {fine[number]!r} into {above}; the training file is damaged")
    return {name: tuple(below for above, below in pairs if above == place) for place, name in enumerate(coarse)}


def _examples(labels: Bytes, pixels: Bytes) -> Examples:
    x = torch.from_numpy(pixels.reshape(-1, 3, 32, 32))
    return Examples(x, torch.from_numpy(labels).to(torch.int64))
