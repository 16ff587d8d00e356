"""NumPy files: an `.npz` with inputs and labels, or an `.npy` of inputs with an `.npy` of labels beside it.

Nothing is unpickled, and the size of an archive is checked before it is unpacked: a few kilobytes can claim to hold
terabytes.
"""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.zoo.inputs.cells import read_labels
from zoolearn.zoo.inputs.source import Numbers

INPUTS = ("x", "X", "data", "images", "features")
LABELS = ("y", "Y", "labels", "label", "targets", "target")
LARGEST_ARCHIVE = 8 << 30  # bytes, unpacked
SUSPICIOUS = 200  # how many times larger than packed an array may be, once it is large
LARGE = 1 << 28


def npz_source(path: Path, *, labelled: bool = True) -> Numbers:
    """The inputs of an archive and, if asked, its labels; an array `classes` may give the labels names."""
    arrays = _unpack(path)
    x = _pick(path, arrays, INPUTS, "inputs")
    if not labelled:
        return Numbers(str(path), x, None)
    y = _pick(path, arrays, LABELS, "labels")
    classes = _names(path, arrays["classes"]) if "classes" in arrays else None
    labels = read_labels(y, f"the labels of {path}")
    if classes is not None:
        labels = [_name_label(path, label, classes) for label in labels]
    return Numbers(str(path), x, labels, classes)


def npy_source(path: Path, labels: Path | None = None, *, labelled: bool = True) -> Numbers:
    """A memory-mapped array of inputs; its labels are in the file given, or in one named like it with y for x."""
    x = map_npy(path)
    if not labelled:
        return Numbers(str(path), x, None)
    beside = labels or _find_labels(path)
    if not beside.exists():
        raise DataError(f"the labels of {path} are not at {beside}; put them there, or name their file (--labels)")
    return Numbers(str(path), x, read_labels(map_npy(beside), f"the labels in {beside}"))


def map_npy(path: Path) -> NDArray[Any]:
    """An `.npy` file, memory-mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except Exception as error:  # damaged headers fail in many ways, and numpy advises to unpickle them
        raise DataError(
            f"{path} is not a whole .npy file of numbers: it is cut, damaged, or holds Python objects; save it again with "
            "numpy.save"
        ) from error


def _find_labels(path: Path) -> Path:
    for inputs, labels in (("images", "labels"), ("features", "labels"), ("data", "labels")):
        if inputs in path.stem:
            return path.with_name(path.name.replace(inputs, labels))
    name = re.sub(r"(?<![a-zA-Z])[xX](?![a-zA-Z])", "y", path.stem)
    if name == path.stem:
        raise DataError(f"{path} holds inputs; say with --labels which .npy file holds their labels")
    return path.with_name(name + path.suffix)


def _pick(path: Path, arrays: dict[str, NDArray[Any]], names: Sequence[str], what: str) -> NDArray[Any]:
    found = [name for name in names if name in arrays]
    if len(found) != 1:
        has = ", ".join(arrays) or "no array of a known name"
        raise DataError(f"{path} holds {has}; it needs one array of {what}, named {' or '.join(names)}")
    return arrays[found[0]]


def _names(path: Path, values: NDArray[Any]) -> tuple[str, ...]:
    return tuple(read_labels(values, f"the classes of {path}"))


def _name_label(path: Path, label: str, classes: tuple[str, ...]) -> str:
    if not label.isdecimal() or int(label) >= len(classes):
        raise DataError(f"{path} has label {label} but {len(classes)} classes; with `classes`, labels count from 0")
    return classes[int(label)]


def _unpack(path: Path) -> dict[str, NDArray[Any]]:
    wanted = {*INPUTS, *LABELS, "classes"}
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.removesuffix(".npy") in wanted]
            _check_bomb(path, entries)
            return {entry.filename.removesuffix(".npy"): _read_array(archive, entry) for entry in entries}
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except Exception as error:  # damaged archives fail in many ways
        raise DataError(
            f"{path} is not a whole .npz archive of numbers ({error}); save it again with numpy.savez"
        ) from error


def _check_bomb(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    unpacked, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if unpacked > LARGEST_ARCHIVE:
        raise DataError(f"{path} unpacks to {unpacked:,} bytes, more than {LARGEST_ARCHIVE:,}; save .npy files instead")
    if unpacked > LARGE and unpacked > SUSPICIOUS * max(1, packed):
        raise DataError(f"{path} unpacks from {packed:,} to {unpacked:,} bytes, as no real data does; save .npy files")


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read:
            raise DataError(f"{entry.filename} has .npy version {version}, which is not read here")
        shape, fortran, dtype = read[version](file)
        if dtype.hasobject:
            raise DataError(f"{entry.filename} holds Python objects, which are not unpickled")
        size = int(np.prod([*shape, dtype.itemsize], dtype=object))
        if size > entry.file_size:
            raise DataError(f"{entry.filename} claims {size:,} bytes but has {entry.file_size:,}")
        values = np.frombuffer(file.read(size), dtype)
    return values.reshape(shape, order="F" if fortran else "C")
