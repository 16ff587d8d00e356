"""MNIST from the publisher's four idx files, compressed or not (LeCun et al., 1998)."""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from zoolearn.data.datasets.catalog import MNIST
from zoolearn.data.datasets.dataset import DataSet
from zoolearn.data.datasets.root import data_root
from zoolearn.data.task import Examples
from zoolearn.errors import DataError


def mnist(data: Path | str | None = None) -> DataSet:
    """60,000 training and 10,000 test digits of 28x28 grey pixels."""
    root = data_root(data)
    layout = MNIST.locate(root)
    found = [file.find(root / layout.folder) for file in layout.files]
    train_images, train_labels, test_images, test_labels = (path for path in found if path is not None)
    train = _examples(train_images, train_labels)
    return DataSet(train, _examples(test_images, test_labels), tuple(map(str, range(10))))


def _examples(images: Path, labels: Path) -> Examples:
    x, y = read_idx(images, dimensions=3), read_idx(labels, dimensions=1)
    if len(x) != len(y):
        raise DataError(f"{images} holds {len(x)} images but {labels} {len(y)} labels; they do not belong together")
    if len(y) and y.max() > 9:
        raise DataError(f"{labels} holds the label {y.max()}; MNIST's labels are 0 to 9, fetch the file again")
    return Examples(torch.from_numpy(x)[:, None], torch.from_numpy(y).to(torch.int64))


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The unsigned bytes of an idx file, in the shape its header gives."""
    content = _content(path)
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise DataError(
            f"{path} does not start as an idx file of bytes in {dimensions} dimension(s); it is another file or damaged"
        )
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4))
    if len(content) - start != prod(shape):
        raise DataError(
            f"{path} holds {len(content) - start} bytes but its header announces {prod(shape)}; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _content(path: Path) -> bytes:
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is truncated or damaged ({error}); fetch it again") from error
