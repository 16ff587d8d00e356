"""The extractor of a zoo on features: stored once, verified whenever it is opened; and ids of what rows were made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.data.task import Examples
from zoolearn.errors import SettingsError, StoreError, unknown_name
from zoolearn.features import Extractor, embed_inputs
from zoolearn.features.extractor import read_file
from zoolearn.features.named import is_name, load_extractor, load_function
from zoolearn.features.resize import resize
from zoolearn.files import Json
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.inputs.tables import Columns
from zoolearn.zoo.intake.naming import check_odd_name
from zoolearn.zoo.settings import Names, ZooSettings

Features = (
    Path | str | Callable[[Any], Any]
)  # an ONNX file, a name, or a function of pictures (with a `size`) or of texts


@dataclass(frozen=True, eq=False)
class Given:
    """An extractor as the caller gives it, checked, and the bytes of its file."""

    extractor: Extractor
    content: bytes | None

    def __post_init__(self) -> None:
        check_odd_name("file or function of features", self.extractor.name)

    @classmethod
    def of(cls, features: Features, size: int | None = None) -> "Given":
        """From a file, the name of a library's extractor, or a function of pictures (count, 3, size, size) or of texts."""
        if callable(features):
            return cls(Extractor.of_function(features, size=size), None)
        if is_name(str(features)):
            return cls(load_extractor(str(features)), None)
        path = Path(features)
        content = read_file(path)
        return cls(Extractor.of_bytes(content, path.name), content)

    def settings(self, **given: Any) -> ZooSettings:
        return ZooSettings.on_features({"file": self.content is not None, **self.extractor.record()}, **given)

    @property
    def columns(self) -> Columns:
        """How tables of texts become rows."""
        return Columns(embed=partial(embed_inputs, self.extractor) if self.extractor.size is None else None)

    @property
    def kept(self) -> "Kept":
        """The extractor in a form that can be pickled."""
        return Kept(self.extractor.record(), self.content, None if self.content else self.extractor.function)

    @property
    def names(self) -> dict[str, Callable[..., Any]]:
        """A function under the name that settings record."""
        return {} if self.content is not None else {self.extractor.name: self.extractor.function}


@dataclass(frozen=True)
class Kept:
    """An extractor that can be pickled; it is opened when used, and compared with its record."""

    record: dict[str, Any]
    content: bytes | None
    function: Callable[[Any], Any] | None

    def rows(self, pictures: NDArray[Any]) -> Tensor:
        """The stored form of pictures of any size."""
        if pictures.dtype != np.uint8:
            raise ValueError(f"X has dtype {pictures.dtype}; with features it holds pictures in uint8, 0 to 255")
        extractor = _open(self)
        x = Examples.of(pictures, np.zeros(len(pictures), np.int64)).x.numpy()
        return torch.from_numpy(embed_inputs(extractor, resize(x, extractor.size or 0)))

    def __hash__(self) -> int:
        return hash(self.record["sha256"])


@lru_cache(maxsize=2)
def _open(kept: Kept) -> Extractor:
    if kept.content is not None:
        return Extractor.of_bytes(kept.content, record=kept.record)
    assert kept.function is not None
    return Extractor.of_function(kept.function, kept.record["name"], kept.record["size"], kept.record)


def open_extractor(folder: ZooFolder, record: Mapping[str, Json], names: Names | None) -> Extractor:
    """The extractor of a zoo; raises if it is another one, or gives other features than it did."""
    if record["file"]:
        return Extractor.of_bytes(extractor_file(folder, record), record=record)
    name = record["name"]
    if is_name(name):
        return Extractor.of_function(load_function(name), name, record["size"], record)
    if name not in (names or {}):
        raise SettingsError(unknown_name("extractor", name, names or {}) + "; pass yours as names={name: function}")
    return Extractor.of_function((names or {})[name], name, record["size"], record)


def extractor_file(folder: ZooFolder, record: Mapping[str, Json]) -> bytes:
    """The bytes of an extractor's file."""
    path = folder.file("extractors", record["sha256"])
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); restore it from a copy") from error


def to_rows(extractor: Extractor, pictures: Tensor) -> Tensor:
    """The stored form of pictures."""
    return torch.from_numpy(embed_inputs(extractor, pictures.numpy()))


def row_ids(x: NDArray[Any], files: Sequence[Path | None] | None = None) -> NDArray[np.uint8]:
    """The sha256 of each row's file, or of its own bytes if it has none."""
    sources = files or [None] * len(x)
    contents = (
        values.tobytes() if file is None else file.read_bytes() for values, file in zip(x, sources, strict=True)
    )
    digests = b"".join(sha256(content).digest() for content in contents)
    return np.frombuffer(digests, np.uint8).reshape(-1, 32)
