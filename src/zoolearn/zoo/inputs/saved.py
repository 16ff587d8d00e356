"""Data sets of the Hugging Face `datasets` library that were saved to disk; needs the extra `datasets`."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from zoolearn.errors import DataError, MissingData, unknown_name
from zoolearn.zoo.inputs.cells import read_labels
from zoolearn.zoo.inputs.source import Numbers, Pictures, Source
from zoolearn.zoo.inputs.tables import Columns

MARKS = ("dataset_dict.json", "dataset_info.json")  # what `save_to_disk` leaves at the top of its folder


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((folder / mark).is_file() for mark in MARKS)


def saved_source(folder: Path, columns: Columns, split: str | None = None, *, labelled: bool = True) -> Source:
    """A data set, or the split of that name (by default `train`) where several were saved together."""
    data = _load(folder)
    if isinstance(data, dict):
        split = split or "train"
        if split not in data:
            raise DataError(f"{folder}: {unknown_name('split', split, data)}")
        data = data[split]
    label = columns.label_of(data.column_names)
    if labelled and (label is None or label not in data.column_names):
        raise DataError(f"{folder} has the columns {', '.join(data.column_names)}; say with --label which is the label")
    labels, classes = _labels(folder, data, label) if labelled and label else (None, None)
    pictures = [name for name, feature in data.features.items() if type(feature).__name__ == "Image"]
    if pictures:
        return _pictures(folder, data, pictures[0], labels, classes)
    widths = {name: int(np.size(value)) for name, value in data.with_format(None)[0].items()} if len(data) else {}
    kept = columns.find_features(folder, widths, label, labelled=labelled)
    return _numbers(folder, data, kept, labels, classes)


def splits_of(folder: Path) -> dict[str, int]:
    """The names and the rows of the splits that were saved together; none if it is a single data set."""
    data = _load(folder)
    return {name: len(rows) for name, rows in data.items()} if isinstance(data, dict) else {}


def _load(folder: Path) -> Any:
    try:
        from datasets import load_from_disk
    except ImportError as error:
        raise MissingData(
            f"reading {folder} needs datasets; install it with: pip install 'zoolearn[datasets]'"
        ) from error
    try:
        return load_from_disk(str(folder))
    except Exception as error:  # the library raises what its parts raise
        raise DataError(f"{folder} cannot be read as a saved data set ({error}); save it again") from error


def _labels(folder: Path, data: Any, label: str) -> tuple[list[str], tuple[str, ...] | None]:
    values = np.asarray(data.with_format(None)[label][:])
    names = getattr(data.features[label], "names", None)
    if names is None:
        return read_labels(values, f"{folder}, column {label!r}"), None
    if values.min() < 0:
        raise DataError(f"{folder}, column {label!r}: row {int(values.argmin())} has no label")
    return [names[value] for value in values], tuple(names)


def _pictures(
    folder: Path, data: Any, column: str, labels: Sequence[str] | None, classes: tuple[str, ...] | None
) -> Pictures:
    from datasets import Image

    raw = data.select_columns([column]).cast_column(column, Image(decode=False)).with_format(None)

    def open_row(row: int) -> Path | IO[bytes]:
        cell = raw[row][column]
        return Path(cell["path"]) if cell["bytes"] is None else io.BytesIO(cell["bytes"])

    names = [f"{folder}[{row}]" for row in range(len(raw))]
    return Pictures(str(folder), names, labels, open_row, classes)


def _numbers(
    folder: Path,
    data: Any,
    columns: Sequence[str],
    labels: Sequence[str] | None,
    classes: tuple[str, ...] | None,
) -> Numbers:
    parts = []
    for name in columns:
        try:
            values = np.asarray(data.with_format(None)[name][:], np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"{folder}, column {name!r} holds no numbers; leave it out with --ignore {name}") from error
        parts.append(values.reshape(len(values), -1))
    if not parts:
        raise DataError(f"{folder} has no column beside the label; there is nothing to learn from")
    return Numbers(str(folder), np.concatenate(parts, axis=1), labels, classes, tuple(columns))
