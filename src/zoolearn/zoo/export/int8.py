"""A task of a zoo on features as an 8-bit file, with its loss of accuracy.

The ranges of activations are found on pictures of the task, read again where they were; the file is then compared on
held-out ones.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.features import Extractor
from zoolearn.features.quantizing import quantize
from zoolearn.nets.net import Net
from zoolearn.training.predict import probabilities
from zoolearn.zoo.disk.arrivals import Side, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.stored import drop_deleted, join_arrivals, load_inputs, load_labels, load_row_names
from zoolearn.zoo.export.export import Exported, check_target
from zoolearn.zoo.export.features import EXACT, export_on_features
from zoolearn.zoo.intake.extracting import to_rows
from zoolearn.zoo.intake.originals import check_at_hand, iter_read_again

RANGES_BY = 64  # pictures
MOST_ASKED = 1000  # held-out ones


def export_in_8_bits(
    folder: ZooFolder, content: bytes, extractor: Extractor, net: Net, task: TaskEntry, path: Path, *, overwrite: bool
) -> Exported:
    """Writes the file, checked as any other, and compares it with the zoo on held-out pictures."""
    check_target(path, overwrite=overwrite)
    chosen = {"train": _spread(task.rows_kept, RANGES_BY), "test": _spread(task.rows_held_out, MOST_ASKED)}
    asked = {side: _originals(folder, task, side, places) for side, places in chosen.items()}  # type: ignore[arg-type]
    for names, _ in asked.values():
        check_at_hand(names)
    size = extractor.size or 0
    small = quantize(content, np.concatenate(list(iter_read_again(*asked["train"], size))))
    coarse = Extractor.of_bytes(small, extractor.name)
    made = export_on_features(small, coarse, net, task, path, overwrite=overwrite)
    rows = torch.cat(
        [to_rows(coarse, torch.from_numpy(pictures)) for pictures in iter_read_again(*asked["test"], size)]
    )
    labels = load_labels(folder, task, "test")[chosen["test"]]
    before, after = (
        float((probabilities(net, each, task.name, EXACT).argmax(dim=1) == labels).double().mean())
        for each in (load_inputs(folder, task, "test")[chosen["test"]], rows)
    )
    return replace(made, before=before, after=after, pictures=len(rows))


def _spread(count: int, most: int) -> list[int]:
    """At most `most` positions, evenly spread.

    >>> _spread(10, 4), _spread(3, 4)
    ([0, 3, 6, 9], [0, 1, 2])
    """
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def _originals(
    folder: ZooFolder, task: TaskEntry, side: Side, places: list[int]
) -> tuple[list[str], NDArray[np.uint8] | None]:
    """The files of some rows, and their recorded digests."""
    names = load_row_names(folder, task, side)
    if any(names[place] is None for place in places):
        raise DataError(
            f"task {task.name!r} has rows that were no files; to quantise, its pictures are read again: learn it from files, "
            "or leave --int8 out"
        )
    ids = join_arrivals(
        folder,
        task,
        side,
        lambda rows: folder.tensor(rows.ids) if rows.ids else torch.zeros(rows.count, 32, dtype=torch.uint8),
        drop_deleted,
    ).numpy()
    return [name for place in places if (name := names[place])], ids[places]
