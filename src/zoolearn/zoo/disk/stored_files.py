"""The files of a zoo that are named by the digest of their content: nets, votes, statistics and rows."""

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from zoolearn.errors import StoreError
from zoolearn.files import checksum, read_tensor
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.disk.arrivals import Stored
from zoolearn.zoo.disk.incoming import PLACES
from zoolearn.zoo.disk.plain_files import explain_errors, measure_file

MAPPED = 1 << 16  # bytes from which on a stored tensor is memory-mapped


class StoredFiles:
    """Reads those of one zoo."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, place: str, digest: str) -> Path:
        """The file of this digest; raises if it is not a plain file in the folder."""
        path = self.path / place / f"{digest}{PLACES[place]}"
        if (self.path / place).is_symlink():
            raise StoreError(f"{self.path / place} is a link; a zoo has none, remove it")
        measure_file(path)
        return path

    def tensor(self, stored: Stored) -> Tensor:
        """A stored tensor, a large one memory-mapped; writing to it changes memory only, never the file.

        None keeps a descriptor, as a map of numpy's would: a program that looks at all of a thousand tasks has not as many.
        """
        path = self.file("data", stored.digest)
        if measure_file(path) != stored.bytes:
            raise StoreError(
                f"{path} has {measure_file(path):,} bytes, its tensor {stored.bytes:,}; restore it from a copy"
            )
        with explain_errors(path), open(path, "rb", opener=_open_plain) as file:
            if stored.bytes < MAPPED:
                return torch.from_numpy(np.fromfile(file, stored.dtype)).reshape(stored.shape)
        try:
            flat = torch.from_file(str(path), shared=False, size=prod(stored.shape), dtype=getattr(torch, stored.dtype))
        except RuntimeError as error:  # it was there a moment ago
            raise StoreError(f"{path} cannot be read ({error}); restore it from a copy") from error
        return flat.reshape(stored.shape)

    def verify_tensor(self, stored: Stored) -> Tensor:
        """A stored tensor, read whole and compared with its digest."""
        path = self.file("data", stored.digest)
        with explain_errors(path):
            is_whole = checksum(path) == stored.digest
        if not is_whole:
            raise StoreError(f"{path} was altered: its checksum differs; restore it from a copy")
        return self.tensor(stored)

    def content(self, stored: Stored) -> bytes:
        """The bytes of a stored tensor, compared with its digest."""
        return self.verify_tensor(stored).numpy().tobytes()

    def tensors(
        self, place: str, digest: str, wanted: dict[str, tuple[Shape, torch.dtype]], *, whole: bool = True
    ) -> dict[str, Tensor]:
        """The tensors of a file, compared with its digest and with the names, shapes and types that are wanted.

        The header is compared before any tensor is made, so that nothing large is made for a file that does not fit.
        """
        path = self.file(place, digest)
        with explain_errors(path):
            is_whole = checksum(path) == digest
        if not is_whole:
            raise StoreError(f"{path} is truncated or altered: its checksum differs; restore it from a copy")
        try:
            with safe_open(path, framework="np") as file:
                _check_shapes(path, file, {name: shape for name, (shape, _) in wanted.items()}, whole=whole)
                found = {name: read_tensor(path, file, name) for name in wanted}
        except (SafetensorError, OSError) as error:
            raise StoreError(
                f"{path} is damaged or not a safetensors file ({error}); restore it from a copy"
            ) from error
        for name, (_, dtype) in wanted.items():
            if found[name].dtype != dtype:
                raise StoreError(f"{path}: {name!r} is {found[name].dtype}, not {dtype}; restore it from a copy")
        return found


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _check_shapes(path: Path, file: Any, wanted: dict[str, Shape], *, whole: bool) -> None:
    names = {*file.keys()}
    for name in sorted(wanted.keys() - names) + (sorted(names - wanted.keys()) if whole else []):
        raise StoreError(f"{path} {'lacks' if name in wanted else 'holds a foreign tensor'} {name!r}; restore it")
    for name, shape in wanted.items():
        found = tuple(file.get_slice(name).get_shape())
        if found != shape:
            raise StoreError(f"{path}: {name!r} is {found}, not {shape}; restore it from a copy")
