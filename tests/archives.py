"""Archives of small images, as people send them to be learned from."""

import io
import tarfile
import zipfile
from collections.abc import Mapping

import numpy as np

from servers import png


def files(classes: int = 2, count: int = 6, top: str = "") -> dict[str, bytes]:
    """Images of classes that differ in brightness."""
    rng = np.random.default_rng(0)
    return {
        f"{top}kind {place}/{number}.png": png(rng.integers(120 * place, 120 * place + 60, (1, 8, 8)))
        for place in range(classes)
        for number in range(count)
    }


def zipped(content: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(content: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in content.items():
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
            else:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()
