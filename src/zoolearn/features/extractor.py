"""An extractor: a frozen net or function that turns pictures or texts into vectors, and how these are stored."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError, StoreError
from zoolearn.features.graph import MOST_BYTES, check_graph
from zoolearn.features.probe import TEXT, probe_picture
from zoolearn.features.session import open_session
from zoolearn.features.trial import check_by_trial, what_is_wrong

Function = Callable[[Any], Any]
STEP = 2.0**-15  # of a stored feature; sums of products of such numbers are exact in float64
LARGEST = 2**15 - 1
AT_ONCE = 256  # inputs that a function is given together
NEAR = 32  # steps that the probe may differ by: other processors round otherwise, by a step or two as measured


@dataclass(frozen=True, eq=False)
class Extractor:
    """Turns inputs into vectors; identified by its checksum and its features of a probe.

    `size` is the side of its pictures in pixels; None if it takes texts. A file runs one picture at a time: the
    bits of a picture's features never depend on its neighbours, and onnxruntime is as fast.
    """

    name: str
    sha256: str
    size: int | None
    num_features: int
    function: Function
    at_once: int

    @classmethod
    def of_file(cls, path: Path | str) -> "Extractor":
        """From a file, checked and tried."""
        return cls.of_bytes(read_file(Path(path)), Path(path).name)

    @classmethod
    def of_bytes(cls, content: bytes, name: str = "", record: Mapping[str, Any] | None = None) -> "Extractor":
        """From the bytes of an ONNX file: checked and tried, or compared with a `record`."""
        digest = sha256(content).hexdigest()
        if record is not None:
            if digest != record["sha256"]:
                raise StoreError(
                    f"the extractor {record['name']!r} was altered: its checksum differs; restore the file"
                )
            extractor = cls(
                record["name"], digest, record["size"], record["num_features"], open_session(content), at_once=1
            )
            extractor.check(record)
            return extractor
        declared = check_graph(content)
        check_by_trial(content, declared.size, declared.num_features)
        return cls(name, digest, declared.size, declared.num_features, open_session(content), at_once=1)

    @classmethod
    def of_function(
        cls, function: Function, name: str = "", size: int | None = None, record: Mapping[str, Any] | None = None
    ) -> "Extractor":
        """From a function of a batch to one vector each: of pictures (any, 3, size, size) in uint8, or of texts.

        It is identified by its name and its features of the probe, and must be given again to open what it
        made. It is called with up to 256 inputs; whether their number changes the last bits is up to it.

        >>> def lengths(texts):
        ...     return [[len(text), text.count(" ") + 1.0] for text in texts]
        >>> Extractor.of_function(lengths).extract(["a b", "abc"]).tolist()
        [[3.0, 2.0], [3.0, 1.0]]
        """
        called = name or getattr(function, "__name__", type(function).__name__)
        probe = [TEXT] if size is None else probe_picture(size)
        found = _vectors(function(probe), len(probe), called)
        extractor = cls(called, _digest(called, function), size, found.shape[1], function, AT_ONCE)
        if record is not None:
            extractor.check(record)
        elif size is not None and (wrong := what_is_wrong(extractor._batch, size, found.shape[1])):
            raise DataError(f"the extractor {called!r} {wrong}")
        return extractor

    def extract(self, inputs: Any) -> NDArray[np.float32]:
        """The features (count, num_features) of pictures in uint8 (count, 3, size, size), or of texts."""
        self._check_inputs(inputs)
        blocks = [self._batch(inputs[start : start + self.at_once]) for start in range(0, len(inputs), self.at_once)]
        return np.concatenate([np.empty((0, self.num_features), np.float32), *blocks])

    def record(self) -> dict[str, Any]:
        """Its record, compared whenever it is opened."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "size": self.size,
            "num_features": self.num_features,
            "inputs": "texts" if self.size is None else "RGB, cut to a centred square, bicubic",
            "views": 1 if self.size is None else 2,
            "step": STEP,
            "versions": self.versions,
            "probe": embed_inputs(self, self._probe())[0].tolist(),
        }

    def check(self, record: Mapping[str, Any]) -> None:
        """Raises if it is not the recorded extractor, or gives other features here than there."""
        for word in ("name", "size", "num_features"):
            if getattr(self, word) != record[word]:
                raise StoreError(
                    f"the extractor {self.name!r} has {word} {getattr(self, word)!r}, {record[word]!r} was recorded; give that one"
                )
        here, there = embed_inputs(self, self._probe())[0].astype(np.int64), np.array(record["probe"], np.int64)
        apart = int(np.abs(here - there).max())
        if apart > NEAR:
            raise StoreError(
                f"the extractor {self.name!r} gives other features than when it was recorded: a probe differs by {apart} of "
                f"{LARGEST + 1}, more than {NEAR}; it was changed, or other versions of its libraries "
                f"({_list_versions(record['versions'])}; here {_list_versions(self.versions)}) or another processor compute it otherwise"
            )

    @property
    def versions(self) -> dict[str, str]:
        """The installed libraries that its features depend on."""
        return _versions()

    def _probe(self) -> Any:
        return [TEXT] if self.size is None else probe_picture(self.size)

    def _batch(self, inputs: Any) -> NDArray[np.float32]:
        found = _vectors(self.function(inputs), len(inputs), self.name)
        if found.shape[1] != self.num_features:
            raise DataError(
                f"the extractor {self.name!r} gives {found.shape[1]} features, and gave {self.num_features} before"
            )
        if not np.isfinite(found).all():
            raise DataError(f"the extractor {self.name!r} gives features that are not finite; leave those inputs out")
        return found

    def _check_inputs(self, inputs: Any) -> None:
        if self.size is None:
            if isinstance(inputs, str) or not all(isinstance(text, str) for text in inputs):
                raise DataError(f"the extractor {self.name!r} takes texts; give a list of them")
            return
        shape, kind = getattr(inputs, "shape", None), getattr(inputs, "dtype", type(inputs).__name__)
        if shape is None or tuple(shape[1:]) != (3, self.size, self.size) or kind != np.uint8:
            given = f"{kind} {tuple(shape) if shape is not None else ''}".rstrip()
            raise DataError(
                f"the extractor {self.name!r} takes pictures in uint8 (count, 3, {self.size}, {self.size}), not {given}"
            )


def read_file(path: Path) -> bytes:
    """The bytes of a file that may be an extractor; too large ones are not read."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)  # one more than `check_graph` lets pass
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give an ONNX file") from error


def embed_inputs(extractor: Extractor, inputs: Any) -> NDArray[np.int16]:
    """The stored form of inputs, (count, num_features): features of unit length, in steps of 2**-15.

    The features of a picture and of its mirror image are added first. A feature of exactly 1 would be 2**15, one
    more than 16 bits hold; it is stored as 32767.
    """
    found = extractor.extract(inputs).astype(np.float64)
    if extractor.size is not None:
        found += extractor.extract(inputs[..., ::-1])
    lengths = np.sqrt((found * found).sum(axis=1, keepdims=True))
    if len(empty := np.flatnonzero(lengths == 0)):
        raise DataError(
            f"input {int(empty[0])} has no features: the extractor {extractor.name!r} gives zeros for {len(empty)} input(s); "
            "leave them out"
        )
    steps: NDArray[np.float64] = np.rint(found / lengths / STEP)
    return np.clip(steps, -LARGEST, LARGEST).astype(np.int16)


def _vectors(found: Any, count: int, name: str) -> NDArray[np.float32]:
    """The output of a function, checked: one vector for each input."""
    try:
        vectors = np.asarray(found, np.float32)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"the extractor {name!r} gives a {type(found).__name__} that is no array of numbers") from error
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise DataError(
            f"the extractor {name!r} gives an array of {vectors.shape} for {count} inputs; it must give one vector for each"
        )
    return vectors


def _digest(name: str, function: Function) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # made by a program, or an object; the probe tells it from others
        source = ""
    return sha256(f"{name}\n{source}".encode()).hexdigest()


def _versions() -> dict[str, str]:
    """The installed libraries that features depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for library in ("onnxruntime", "pillow"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _list_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
