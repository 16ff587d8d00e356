"""Tables: a CSV or Parquet file with paths of images and labels, or with columns of features and a label."""

import csv
import io
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError, MissingData, unknown_name
from zoolearn.words import some
from zoolearn.zoo.inputs.cells import Table, is_index, labels_of, read_numbers
from zoolearn.zoo.inputs.pictures import SUFFIXES
from zoolearn.zoo.inputs.source import Broken, Numbers, Pictures, Source
from zoolearn.zoo.inputs.texts import TEXT_NAMES, Embed, Texts

LABEL_NAMES = ("label", "labels", "class", "target", "y")
PATH_NAMES = ("path", "file", "filename", "file_name", "image", "image_path")
MOST_NAMED = 10  # columns in one message


@dataclass(frozen=True)
class Columns:
    """Which column is what, if the names do not tell: the label, and columns to leave out.

    `wanted` are the names of the columns that a zoo learned from, in order; empty if unknown. Then `features`, if
    known, is their number: a column named like a label is a feature if the others are too few.
    """

    label: str | None = None
    ignore: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    features: int | None = None
    pictures: bool = False  # the zoo takes images, so a table can only hold their paths
    group: str | None = None  # the column that tells which rows belong together; no feature
    text: str | None = None  # the column of texts, where the name does not tell
    embed: Embed | None = None  # the zoo takes texts, and makes rows of them by this

    def label_of(self, names: Iterable[str]) -> str | None:
        """The column of the label, as given or by its name."""
        likely = (name for name in names if name.strip().lower() in LABEL_NAMES and name not in self.wanted)
        return self.label or next(likely, None)

    def find_features(self, where: Path, widths: Mapping[str, int], label: str | None, *, labelled: bool) -> list[str]:
        """The names of the feature columns in order, out of all columns with their widths.

        >>> Columns(wanted=("x", "z")).find_features(Path("t.csv"), {"z": 1, "y": 1, "x": 1}, "y", labelled=False)
        ['x', 'z']
        >>> Columns(features=2).find_features(Path("t.csv"), {"x": 1, "y": 1}, "y", labelled=False)
        ['x', 'y']
        """
        kept = [name for name in widths if name not in (self.label, self.group, *self.ignore)]
        others = [name for name in kept if name != label]
        if self.wanted:
            self._check_others(where, others, labelled=labelled)
            return list(self.wanted)
        is_short = self.features is not None and sum(widths[name] for name in others) < self.features
        return kept if is_short and not labelled else others

    def _check_others(self, where: Path, names: Sequence[str], *, labelled: bool) -> None:
        """Raises if a column that the zoo learned from is missing or, in learning, if there are others."""
        missing = [name for name in self.wanted if name not in names]
        more = [name for name in names if name not in self.wanted]
        known = some(self.wanted)
        if missing and missing[0] in (self.label, *self.ignore):
            wanted_as = "named as the label" if missing[0] == self.label else "to be left out"
            raise DataError(
                f"{where}: column {missing[0]!r} is {wanted_as}, but it is a feature of this zoo, which takes the columns {known}"
            )
        if missing:
            close = [name for name in more if name.strip().casefold() == missing[0].strip().casefold()]
            guess = f"; it has {close[0]!r}: is that meant, name it {missing[0]!r}" if close else ""
            raise DataError(f"{where} has no column {missing[0]!r}; this zoo takes the columns {known}{guess}")
        if more and labelled:
            which = f"column {more[0]!r} is none" if len(more) == 1 else f"{len(more)} columns are none"
            them, names = "it" if len(more) == 1 else "them", shlex.join(more[:MOST_NAMED])
            raise DataError(f"{where}: {which} that this zoo takes ({known}); leave {them} out with --ignore {names}")


def csv_source(path: Path, columns: Columns, *, labelled: bool = True) -> Source:
    """A text table with a header line; commas, semicolons or tabs."""
    table, rows = read_csv(path, 2 if columns.embed is None else 1)
    return table_source(path, table, rows, columns, labelled=labelled)


def parquet_source(path: Path, columns: Columns, *, labelled: bool = True) -> Source:
    """A Parquet file; needs the extra `tables`."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingData(f"reading {path} needs pyarrow; install it with: pip install 'zoolearn[tables]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except (ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({error}); write it again") from error
    read = {name: table.column(name).to_numpy() for name in table.column_names}
    return table_source(path, read, range(2, table.num_rows + 2), columns, labelled=labelled)


def table_source(path: Path, table: Table, rows: Sequence[int], columns: Columns, *, labelled: bool) -> Source:
    """The rows of a table whose columns were read: images if one column holds their paths, else features.

    `rows` are their numbers, as a spreadsheet counts them.
    """
    where = str(path)
    for name in (*columns.ignore, *filter(None, (columns.label, columns.group, columns.text))):
        if name not in table:
            raise DataError(f"{path}: {unknown_name('column', name, table)}")
    index = [name for name, values in table.items() if name not in columns.wanted and is_index(name, values)]
    table = {name: values for name, values in table.items() if name not in index}
    label = columns.label_of(table)
    if labelled and label is None:
        raise DataError(f"{path} has the columns {', '.join(table)}; say with --label which one holds the label")
    of_texts = columns.embed is not None or columns.text is not None
    kept = [] if of_texts else columns.find_features(path, dict.fromkeys(table, 1), label, labelled=labelled)
    labels = labels_of(where, label, table[label], rows) if labelled and label else None
    if of_texts:
        source = _open_texts(path, table, rows, labels, columns)
    else:
        source = _open_rows(path, {name: table[name] for name in kept}, rows, labels, columns)
    source.groups = [str(value) for value in table[columns.group].tolist()] if columns.group else None
    source.left_out = tuple(
        Broken(f"{path}, column {name or 'without a name'}", "it counts the rows, so it is no feature")
        for name in index
    )
    return source


def _open_rows(path: Path, table: Table, rows: Sequence[int], labels: list[str] | None, columns: Columns) -> Source:
    paths = _find_column(table, PATH_NAMES, _holds_images)
    if paths is not None:
        return Pictures(str(path), [str(path.parent / str(name)) for name in table[paths].tolist()], labels)
    if columns.pictures:
        raise DataError(
            f"{path} has no column of paths of images (named {', '.join(PATH_NAMES)}), but the zoo takes images; use another zoo"
        )
    if not table:
        raise DataError(f"{path} has no column beside the label; there is nothing to learn from")
    return Numbers(str(path), read_numbers(str(path), table, rows), labels, columns=tuple(table), numbered=rows)


def _open_texts(path: Path, table: Table, rows: Sequence[int], labels: list[str] | None, columns: Columns) -> Source:
    if columns.embed is None:
        raise DataError(
            f"{path}: column {columns.text!r} is to be read as texts, but the zoo has no extractor for them; begin a new one "
            "(zoo learn NEW NAME DATA --text COLUMN --features wordllama:)"
        )
    taught = next((name for name in columns.wanted if name in table), None)
    column = columns.text or taught or _find_column(table, TEXT_NAMES)
    if column is None:
        raise DataError(f"{path} has the columns {', '.join(table)}; say with --text which one holds the texts")
    texts = ["" if value is None else str(value) for value in table[column].tolist()]
    return Texts(str(path), texts, labels, columns.embed, rows, column)


def _find_column(
    table: Mapping[str, NDArray[Any]], names: Sequence[str], holds: Callable[[NDArray[Any]], bool] = lambda _: True
) -> str | None:
    return next((name for name in table if name.strip().lower() in names and holds(table[name])), None)


def _holds_images(values: NDArray[Any]) -> bool:
    return bool(len(values)) and Path(str(values[0])).suffix.lower() in SUFFIXES


def read_csv(path: Path, fewest: int) -> tuple[Table, list[int]]:
    """The columns of a text table, at least the `fewest`, and the number of each row: empty ones are left out, and count.

    Commas, semicolons or tabs, in UTF-8, or in UTF-16 with its mark as spreadsheets write it.
    """
    try:
        with path.open("rb") as file:
            encoding = "utf-16" if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        with path.open(newline="", encoding=encoding) as file:
            first = file.readline()
            delimiter = max(",;\t", key=first.count)
            header = next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
            reader = csv.reader(file, delimiter=delimiter)
            read = [(place, reader.line_num + 1, row) for place, row in enumerate(reader, start=2)]
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text in UTF-8 from byte {error.start:,} on; save it as CSV in UTF-8") from error
    except (csv.Error, OSError) as error:
        raise DataError(f"{path} is not a text table ({error}); save it as CSV in UTF-8") from error
    if not first.strip():
        raise DataError(
            f"{path} {'has an empty first line' if read else 'is empty'}; a table begins with the names of its columns"
        )
    if len(header) < fewest or len(set(header)) < len(header):
        raise DataError(
            f"{path} starts with {first[:80].rstrip()!r}; its first line must name {fewest} or more columns, each once"
        )
    rows = [(place, line, row) for place, line, row in read if row]
    for _, line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} values for {len(header)} columns")
    if not rows:
        raise DataError(f"{path} has a header but no rows")
    cells = zip(*(row for _, _, row in rows), strict=True)
    columns = zip(header, cells, strict=True)
    table = {name: np.array(values, object) for name, values in columns}  # else each cell takes as much as the longest
    return table, [place for place, _, _ in rows]
