"""Reads the files again that rows on features were made of: for another extractor, or to measure one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.words import plural, some
from zoolearn.zoo.inputs.source import Pictures
from zoolearn.zoo.intake.extracting import row_ids


def check_at_hand(names: Sequence[str]) -> None:
    """Raises if a file is gone."""
    missing = [name for name in names if not Path(name).is_file()]
    if missing:
        raise DataError(
            f"{plural(len(missing), 'file is', 'files are')} gone that rows were learned from: {some(missing)}; put back what is missing "
            "(paths that are not whole begin at the current folder), or learn from others"
        )


def iter_read_again(names: Sequence[str], ids: NDArray[np.uint8] | None, size: int) -> Iterator[NDArray[np.uint8]]:
    """The pictures in files at an extractor's size, in blocks; raises if one has changed.

    `ids` are the recorded digests of the files.
    """
    for block in Pictures("the files of the zoo", names, None).blocks(range(len(names)), (3, size, size)):
        for broken in block.broken:
            raise DataError(f"{broken.name}: {broken.reason}; it could be read when it was learned from")
        found = row_ids(block.x, [Path(names[row]) for row in block.rows])
        if ids is not None:
            same = (found == ids[block.rows]).all(axis=1)
            for place in np.flatnonzero(~same):
                other = names[block.rows[place]]
                raise DataError(f"{other} is no longer the file that was learned from; put that one back")
        yield np.asarray(block.x, np.uint8)
