"""Files compared with the publisher's checksums; nothing is remembered, since a file can change after it was compared."""

import hashlib
from pathlib import Path

from zoolearn.data.datasets.catalog import Layout


def matches(path: Path, checksum: str) -> bool:
    """Whether the file is there and has this checksum, written like "md5:..."."""
    if not path.is_file():
        return False
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return digest.hexdigest() == expected


def altered(layout: Layout, root: Path) -> list[str]:
    """The names of the files that are there but are not the publisher's."""
    names = []
    for file in layout.files:
        path = file.find(root / layout.folder)
        checksum = file.versions(root / layout.folder)[path] if path else ""
        if path and checksum and not matches(path, checksum):
            names.append(path.name)
    return names


def is_whole(layout: Layout, root: Path) -> bool:
    """Whether no file is missing or altered."""
    return not layout.missing(root) and not altered(layout, root)
