"""A cache of features by extractor and picture: no picture is passed through a net twice.

A folder for each extractor and versions of its libraries holds files of rows: digests of pictures, and their stored
form (`embed_inputs`). Files are only added, each whole and with a checksum; damaged ones are deleted and computed
again.
"""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.data.datasets.progress import iter_with_bar
from zoolearn.data.datasets.root import data_root
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, StoreError
from zoolearn.features.extractor import Extractor, embed_inputs
from zoolearn.features.resize import resize
from zoolearn.files import load_tensors, save_tensors

ROWS = 2048  # of a file: what a process that is killed loses at most
DIGEST = 16  # bytes

Rows = dict[bytes, NDArray[np.int16]]


class FeatureCache:
    """The features of pictures of any size, by one extractor, cached below the data root.

    Pictures are first resized to the extractor's size.
    """

    def __init__(self, extractor: Extractor, data: Path | str | None = None) -> None:
        if extractor.size is None:
            raise DataError(
                f"the extractor {extractor.name!r} takes texts, and these are pictures; give one for pictures"
            )
        self.extractor = extractor
        key = blake2b(f"{extractor.sha256} {extractor.versions}".encode(), digest_size=DIGEST)
        self.folder = data_root(data) / ".cache" / "features" / key.hexdigest()
        self.known: Rows = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            self.known |= self._read(path)

    def rows(self, pictures: Tensor, title: str = "features") -> NDArray[np.int16]:
        """The stored form of each picture; unknown ones are computed and cached."""
        digests = [blake2b(picture.numpy().tobytes(), digest_size=DIGEST).digest() for picture in pictures]
        missing = [row for row, digest in enumerate(digests) if digest not in self.known]
        made: Rows = {}
        for row in iter_with_bar(missing, f"{self.extractor.name}: {title}", total=len(missing)):
            one = resize(pictures[row : row + 1].numpy(), self.extractor.size or 0)
            made[digests[row]] = embed_inputs(self.extractor, one)[0]
            if len(made) == ROWS:
                self._keep(made)
                made = {}
        self._keep(made)
        rows = np.array([self.known[digest] for digest in digests], np.int16)
        return rows.reshape(len(digests), self.extractor.num_features)  # of no pictures, too

    def examples(self, examples: Examples, title: str = "features", *, steps: bool = False) -> Examples:
        """Examples with features in place of pictures: stored rows (`steps`), or scaled to a mean square of one."""
        if len(examples.shape) != 3 or examples.x.dtype != torch.uint8:
            raise DataError(f"{examples!r} are no pictures in uint8; an extractor takes those")
        rows = torch.from_numpy(self.rows(examples.x, title))
        if steps:
            return Examples(rows, examples.y)
        return Examples(rows.to(torch.float32) * (2.0**-15 * self.extractor.num_features**0.5), examples.y)

    def _keep(self, made: Rows) -> None:
        if not made:
            return
        digests = torch.frombuffer(bytearray(b"".join(made)), dtype=torch.uint8).view(len(made), DIGEST)
        rows = torch.from_numpy(np.stack(list(made.values())))
        name = blake2b(b"".join(made), digest_size=DIGEST).hexdigest()
        save_tensors(self.folder / f"{name}.safetensors", {"digests": digests, "rows": rows})
        self.known |= made

    def _read(self, path: Path) -> Rows:
        try:
            tensors, _ = load_tensors(path)
            digests, rows = tensors["digests"].numpy(), tensors["rows"].numpy()
            if rows.dtype != np.int16 or rows.shape != (len(digests), self.extractor.num_features):
                raise StoreError(f"{path} holds other rows")
        except (StoreError, KeyError):
            path.unlink(missing_ok=True)
            return {}
        return {digest.tobytes(): row for digest, row in zip(digests, rows, strict=True)}
