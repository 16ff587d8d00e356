"""Tiny data sets in their publishers' own formats, written by hand for the tests."""

import csv
import gzip
import io
import os
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from zoolearn.data.datasets import status

REAL = os.environ.get("ZOOLEARN_REAL_DATA") or os.environ.get("ZOOLEARN_DATA")
AT_HAND = [entry.name for entry in status(REAL, verify=False) if entry.state == "present"] if REAL else []

MNIST_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE_NAMES = [f"fine_{label:02}" for label in range(100)]
COARSE_NAMES = [f"coarse_{label:02}" for label in range(20)]


def with_real(name: str) -> pytest.MarkDecorator:
    """Marks a test that runs only where ZOOLEARN_DATA holds the publisher's files of this data set."""
    return pytest.mark.skipif(name not in AT_HAND, reason=f"ZOOLEARN_DATA does not hold the real {name}")


def pixels(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
    return header + array.tobytes()


def write_mnist(root: Path, *, compressed: bool = True, per_class: int = 3) -> dict[str, np.ndarray]:
    """Digits in turn, 0 to 9; as many test as training images."""
    count = 10 * per_class
    labels = np.arange(count, dtype=np.uint8) % 10
    arrays = dict(zip(MNIST_NAMES, (pixels(count, 28, 28), labels, pixels(count, 28, 28, seed=1), labels), strict=True))
    for name, array in arrays.items():
        content = gzip.compress(idx(array)) if compressed else idx(array)
        write(root / "mnist" / (f"{name}.gz" if compressed else name), content)
    return arrays


def write_cifar10(root: Path, *, version: str, per_class: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Five training batches and a test batch; returns the pixels and labels of all six, one after another."""
    size = 10 * per_class
    x, y = pixels(6 * size, 3072), np.arange(6 * size, dtype=np.uint8) % 10
    for place, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        part = slice(place * size, (place + 1) * size)
        if version == "binary":
            records = np.concatenate([y[part, None], x[part]], axis=1)
            write(root / "cifar-10-batches-bin" / f"{name}.bin", records.tobytes())
        else:
            content = {"data": x[part], "labels": y[part].tolist(), "filenames": ["a.png"] * size}
            write(root / "cifar-10-batches-py" / name, python2_pickle(content))
    if version == "binary":
        write(root / "cifar-10-batches-bin" / "batches.meta.txt", "\n".join([*CIFAR10_NAMES, "", ""]).encode())
    else:
        meta = python2_pickle({"label_names": CIFAR10_NAMES, "num_vis": 3072})
        write(root / "cifar-10-batches-py" / "batches.meta", meta)
    return x, y


def coarse_of(fine: np.ndarray) -> np.ndarray:
    """The superclass of each label: not the consecutive one, so that a mix-up shows."""
    return (fine % 20).astype(np.uint8)


def write_cifar100(root: Path, *, version: str, per_class: int = 2) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    written = {}
    for seed, (split, count) in enumerate((("train", 100 * per_class), ("test", 100))):
        x, fine = pixels(count, 3072, seed=seed), np.random.default_rng(seed).permutation(count).astype(np.uint8) % 100
        written[split] = (x, fine)
        if version == "binary":
            records = np.concatenate([coarse_of(fine)[:, None], fine[:, None], x], axis=1)
            write(root / "cifar-100-binary" / f"{split}.bin", records.tobytes())
        else:
            content = {"data": x, "fine_labels": fine.tolist(), "coarse_labels": coarse_of(fine).tolist()}
            write(root / "cifar-100-python" / split, python2_pickle(content))
    if version == "binary":
        write(root / "cifar-100-binary" / "fine_label_names.txt", "\n".join([*FINE_NAMES, ""]).encode())
        write(root / "cifar-100-binary" / "coarse_label_names.txt", "\n".join([*COARSE_NAMES, ""]).encode())
    else:
        meta = {"fine_label_names": FINE_NAMES, "coarse_label_names": COARSE_NAMES}
        write(root / "cifar-100-python" / "meta", python2_pickle(meta))
    return written


def mini_imagenet_classes(per_list: tuple[int, int, int] = (6, 2, 2)) -> dict[str, list[str]]:
    """Class names of the three lists; the names of later lists sort before those of earlier ones."""
    starts = dict(zip(("train", "val", "test"), (30, 20, 10), strict=True))
    return {
        split: [f"n{start + place:08}" for place in range(count)]
        for (split, start), count in zip(starts.items(), per_list, strict=True)
    }


def mini_imagenet_colour(label: int, image: int) -> tuple[int, int, int]:
    return (label * 20, image * 20, 100)


def write_mini_imagenet_folder(root: Path, per_class: int = 5, side: int = 84) -> None:
    """Plain images whose red tells the class and whose green tells the place in the list."""
    label = 0
    folder = root / "mini-imagenet"
    for split, names in mini_imagenet_classes().items():
        rows = [("filename", "label")]
        for name in names:
            for image in range(per_class):
                rows.append((f"{name}{image:08}.jpg", name))
                content = io.BytesIO()
                picture = Image.new("RGB", (side, side), mini_imagenet_colour(label, image))
                picture.save(content, "PNG")  # readers go by content; PNG keeps the colours exact
                write(folder / "images" / rows[-1][0], content.getvalue())
            label += 1
        with (folder / f"{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def write_mini_imagenet_pickles(root: Path, per_class: int = 5) -> None:
    label = 0
    for split, names in mini_imagenet_classes().items():
        colours = [
            mini_imagenet_colour(label + place, image) for place in range(len(names)) for image in range(per_class)
        ]
        images = np.broadcast_to(np.array(colours, np.uint8)[:, None, None], (len(colours), 84, 84, 3))
        rows = {name: list(range(place * per_class, (place + 1) * per_class)) for place, name in enumerate(names)}
        content = {"image_data": np.ascontiguousarray(images), "class_dict": dict(reversed(rows.items()))}
        write(root / "mini-imagenet" / f"mini-imagenet-cache-{split}.pkl", pickle.dumps(content))
        label += len(names)


class _Python2Pickler(pickle._Pickler):
    """Writes text and bytes as Python 2 wrote its strings."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value: Any) -> None:
        content = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + len(content).to_bytes(4, "little") + content)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def python2_pickle(value: Any) -> bytes:
    file = io.BytesIO()
    _Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
