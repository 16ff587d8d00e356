"""Images decoded once into a checksummed file and then memory-mapped, so that later runs start at once and copy nothing.

Two files in `DATA/.cache`: `NAME.bin`, the pixels, and `NAME.json`, what they were made of and their checksum. Opening
compares the sources and the size with the record, and makes the file again if they differ; `damage` compares every byte.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.data.datasets.progress import iter_with_bar
from zoolearn.errors import StoreError
from zoolearn.files import Json, checksum, load_json, replace_file, save_json

FORMAT = 1
ABANDONED = 3600.0  # seconds without a change

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Decoding:
    """Images to be written: their shape (count, channels, height, width), themselves, and notes to keep with them."""

    shape: tuple[int, int, int, int]
    images: Iterable[Image]
    notes: Json


def load_decoded(path: Path, sources: str, decode: Callable[[], Decoding]) -> tuple[Tensor, Json]:
    """The memory-mapped images and the notes on them; `decode` is called only if they are not there yet.

    `sources` is a fingerprint of what the images are made of: when it changes, they are made again. The tensor can be
    written to, but what is written stays in memory.
    """
    record = _record(path, sources) or _write(path, sources, decode())
    pixels = np.memmap(path, np.uint8, mode="c", shape=tuple(record["shape"]))
    return torch.from_numpy(pixels), record["notes"]


def damage(path: Path) -> str | None:
    """What is wrong with a file of decoded images, after reading all of it; None if it is whole or was never made."""
    if not path.exists():
        return None
    try:
        if checksum(path) != load_json(_record_of(path)).get("sha256"):
            return f"{path} was altered; delete it, and it is made again"
    except (StoreError, OSError) as error:
        return f"{path} has no usable record ({error}); delete it, and it is made again"
    return None


def fingerprint(files: Iterable[Path | os.DirEntry[str]]) -> str:
    """Changes when a file's name, size or time of change does."""
    facts = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return sha256(repr(facts).encode()).hexdigest()


def _record_of(path: Path) -> Path:
    return path.with_suffix(".json")


def _record(path: Path, sources: str) -> dict[str, Json] | None:
    """The record of a file that is still good as far as can be told without reading it."""
    try:
        record, size = load_json(_record_of(path)), path.stat().st_size
    except (StoreError, OSError):
        return None
    known = record.get("format") == FORMAT and record["sources"] == sources
    return record if known and size == prod(record["shape"]) else None


def _write(path: Path, sources: str, decoding: Decoding) -> dict[str, Json]:
    record = {
        "format": FORMAT,
        "sources": sources,
        "shape": list(decoding.shape),
        "dtype": "uint8",
        "sha256": _write_pixels(path, decoding),
        "notes": decoding.notes,
    }
    save_json(_record_of(path), record)
    _remove_abandoned(path)
    return record


def _remove_abandoned(path: Path) -> None:
    """Removes what a killed process left half-written; another that is still decoding touched its file just now."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        if part.stat().st_mtime < time.time() - ABANDONED:
            part.unlink(missing_ok=True)


def _write_pixels(path: Path, decoding: Decoding) -> str:
    """Writes the images one after another and returns the checksum of the file."""
    digest = sha256()
    with replace_file(path) as part:
        with part.open("wb") as file:
            for image in iter_with_bar(decoding.images, f"decoding {path.stem}", total=decoding.shape[0]):
                block = image.tobytes()
                digest.update(block)
                file.write(block)
        _record_of(path).unlink(missing_ok=True)  # an old record must never stand beside new pixels
    return digest.hexdigest()
