"""The cells of a table: numbers, words, dates or missing values; errors count rows as a spreadsheet does."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError

MISSING = ("", "na", "n/a", "nan", "null", "none")  # how missing values are written
LARGEST = 1e18  # of a feature: squares of larger ones are beyond 32 bits
MOST_LINES = 10  # of one message
MOST_CLASSES = 20  # different numbers in a label column that may be classes, however few rows there are
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
COMMA = re.compile(r"[+-]?\d+,\d+")

Table = Mapping[str, NDArray[Any]]


def read_numbers(where: str, table: Table, rows: Sequence[int]) -> NDArray[np.float32]:
    """Columns as numbers, NaN for empty cells; raises on columns of anything else, naming what they hold."""
    features = np.empty((len(rows), len(table)), np.float32)
    wrong: dict[str, str] = {}
    for place, (name, values) in enumerate(table.items()):
        numbers, strange = _read_numbers(values)
        features[:, place] = numbers
        if strange:
            wrong[name] = _describe_cells(values, strange, rows)
    if wrong:
        ignore = " ".join(map(repr, wrong))
        what = "1 column holds" if len(wrong) == 1 else f"{len(wrong)} columns hold"
        lines = list_lines(f"column {name!r}: {holding}" for name, holding in wrong.items())
        raise DataError(
            f"{where}: {what} more than numbers; make numbers of them, or leave them out with --ignore {ignore}:{lines}"
        )
    return features


def labels_of(where: str, name: str, values: NDArray[Any], rows: Sequence[int]) -> list[str]:
    """A label for each row; raises if some are missing, or if they are a quantity and not classes."""
    missing = [row for row, value in enumerate(values.tolist()) if _is_missing_label(value)]
    if missing:
        count = "1 row has" if len(missing) == 1 else f"{len(missing)} rows have"
        raise DataError(
            f"{where}, column {name!r}: {count} no label ({name_rows(missing, rows)}); fill in or remove them"
        )
    numbers, strange = _read_numbers(values)
    _check_quantity(where, name, numbers if not strange else np.empty(0, np.float32))
    if values.dtype.kind == "O":
        return [compose(str(value)) for value in values.tolist()]
    return read_labels(values, f"{where}, column {name!r}")


def read_labels(values: NDArray[Any], what: str) -> list[str]:
    """Labels as texts: whole numbers, true and false, or names.

    >>> read_labels(np.array([2.0, 10.0]), "labels")
    ['2', '10']
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{what} have shape {values.shape}; give one label per row")
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 1e15)
        if not whole.all():
            row = int((~whole).argmax())
            raise DataError(f"{what}: row {row} is {values[row]}; a label is a whole number or a name")
        values = values.astype(np.int64)
    if values.dtype.kind not in "iubUS":
        raise DataError(f"{what} have dtype {values.dtype}; a label is a whole number or a name")
    if values.dtype.kind == "S":
        return [compose(bytes(value).decode("utf-8", "replace")) for value in values]
    return [compose(str(value)) for value in values.tolist()]


def compose(name: str) -> str:
    """A name in composed Unicode form: some systems write accented letters as two characters.

    >>> len("A\u0308pfel"), len(compose("A\u0308pfel"))
    (6, 5)
    """
    return normalize("NFC", name)


def is_index(name: str, values: NDArray[Any]) -> bool:
    """Whether a column without a name counts the rows, as many programs write it.

    >>> is_index("", np.array(["0", "1", "2"])), is_index("Unnamed: 0", np.array([5, 7, 6])), is_index("a", np.arange(3))
    (True, False, False)
    """
    if name.strip() and not re.fullmatch(r"Unnamed: \d+", name.strip()):
        return False
    numbers, strange = _read_numbers(values)
    return not strange and bool((np.diff(numbers) == 1).all()) and numbers[0] in (0, 1)


def list_missing(features: NDArray[np.float32], columns: Sequence[str], rows: Sequence[int]) -> list[str]:
    """A line for each column with missing or too large values."""
    lines = []
    for place, name in enumerate(columns):
        values = features[:, place]
        odd = {
            "missing or not finite": np.isnan(values),
            f"infinite or beyond {LARGEST:g} (bring the column to another unit)": np.abs(values) > LARGEST,
        }
        for what, cells in odd.items():
            if cells.any():
                named = name_rows(np.flatnonzero(cells).tolist(), rows)
                lines.append(f"column {name!r}: {cells.sum()} of {len(features)} {what} ({named})")
    return lines


def name_rows(places: Sequence[int], rows: Sequence[int]) -> str:
    """The first of some rows, as a spreadsheet counts them.

    >>> name_rows([0, 4], range(2, 9)), name_rows([3], range(2, 9))
    ('rows 2, 6', 'row 5')
    """
    shown = ", ".join(str(rows[place]) for place in places[:5])
    return f"row{'s' if len(places) > 1 else ''} {shown}{', ...' if len(places) > 5 else ''}"


def list_lines(lines: Iterable[str], most: int = MOST_LINES) -> str:
    """Lines of a message, at most `most`.

    >>> list_lines(["a", "b", "c"], most=2)
    '\\n  a\\n  and 2 more'
    """
    every = list(lines)
    more = [f"and {len(every) - most + 1:,} more"] if len(every) > most else []
    return "".join(f"\n  {line}" for line in [*every[: most - len(more)], *more])


@np.errstate(over="ignore")  # what is too large is told later, as not finite
def _read_numbers(values: NDArray[Any]) -> tuple[NDArray[np.float32], list[int]]:
    """A column as numbers, NaN where a cell is empty, and the places of cells that are neither."""
    if values.dtype.kind in "uifb":
        return values.astype(np.float32), []
    numbers, strange = np.full(len(values), np.nan, np.float32), []
    for place, value in enumerate(values.tolist()):
        if value is None or str(value).strip().lower() in MISSING:
            continue
        try:
            numbers[place] = float(value)
        except (TypeError, ValueError):
            strange.append(place)
    return numbers, strange


def _describe_cells(values: NDArray[Any], strange: Sequence[int], rows: Sequence[int]) -> str:
    """What non-numeric cells hold, in words."""
    cells = [str(values[place]).strip() for place in strange]
    first = f"as {cells[0][:40]!r} in row {rows[strange[0]]}"
    if values.dtype.kind == "M" or all(DATE.match(cell) for cell in cells):
        return f"dates, {first}"
    if all(COMMA.fullmatch(cell) for cell in cells):
        return f"numbers with a decimal comma in {len(cells)} of {len(values)} rows, {first}"
    if len(cells) < len(values) / 2:
        return f"{len(cells)} of {len(values)} cells are no numbers, {first}"
    kinds = sorted(set(cells))
    shown = ", ".join(kind[:20] for kind in kinds[:5]) + (", ..." if len(kinds) > 5 else "")
    return f"categories, {len(kinds)} different ({shown}), {first}"


def _is_missing_label(value: Any) -> bool:
    return value is None or str(value).strip() == "" or (isinstance(value, float) and math.isnan(value))


def _check_quantity(where: str, name: str, numbers: NDArray[np.float32]) -> None:
    different = np.unique(numbers)
    broken = bool((different != np.floor(different)).any())
    share = (
        1 / 2 if len(different) <= 5 * MOST_CLASSES else 1 / 4
    )  # of different numbers, from which they are no classes
    if len(different) > MOST_CLASSES and (broken or len(different) > share * len(numbers)):
        raise DataError(
            f"{where}, column {name!r} holds {len(different)} different numbers in {len(numbers)} rows, from "
            f"{different[0]:g} to {different[-1]:g}: a quantity (a regression target) and no classes; cut it into ranges "
            "that have names, or say with --label which column holds the class"
        )
