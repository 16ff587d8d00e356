"""Tables for people: rounded numbers; for a terminal, in Markdown and in LaTeX."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from zoolearn.errors import SettingsError, unknown_name

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MISSING = "-"
UNFOLDED = 10_000  # characters: wider than any table


@dataclass(frozen=True)
class Table:
    """Cells as text: the first `labels` columns say what was run, the others what came out; then notes."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()  # cells in bold: row, column


def choose(table: Table, columns: Sequence[str]) -> Table:
    """The table with these columns in this order.

    >>> choose(Table(("method", "seeds", "forgetting"), (("er", "3", "1.00"),), labels=2), ["forgetting", "method"]).rows
    (('1.00', 'er'),)
    """
    for name in columns:
        if name not in table.header:
            raise SettingsError(unknown_name("column", name, table.header))
    places = [table.header.index(name) for name in columns]
    labels = next((count for count, place in enumerate(places) if place >= table.labels), len(places))
    best = frozenset((row, places.index(place)) for row, place in table.best if place in places)
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, header=tuple(columns), rows=rows, labels=labels, best=best)


def rename(table: Table, names: Mapping[str, str]) -> Table:
    """The table with other words for columns and for what rows are called.

    >>> rename(Table(("method", "seeds"), (("model-zoo", "3"),), labels=1), {"model-zoo": "Zoo", "3": "three"}).rows
    (('Zoo', '3'),)
    """
    rows = (
        tuple(names.get(cell, cell) if place < table.labels else cell for place, cell in enumerate(row))
        for row in table.rows
    )
    return replace(table, header=tuple(names.get(name, name) for name in table.header), rows=tuple(rows))


def percent(fractions: Sequence[float | None]) -> str:
    """Mean and sample standard deviation in percent; a single value has no deviation, a missing one no mean.

    >>> percent([0.25, 0.75]), percent([0.25]), percent([0.25, None])
    ('50.00 ± 35.36', '25.00', '-')
    """
    values = [100 * fraction for fraction in fractions if fraction is not None]
    if not values or len(values) < len(fractions):
        return MISSING
    middle = f"{fmean(values):z.2f}"
    return middle if len(values) == 1 else f"{middle} ± {stdev(values):.2f}"


def mean(values: Sequence[float | None], show: Callable[[float], str] = "{:,.0f}".format, unit: float = 1) -> str:
    """The mean in a unit, formatted; empty without values, or if one is missing.

    >>> mean([1000, 2000]), mean([90, 150], "{:.1f}".format, unit=60), mean([1, None])
    ('1,500', '2.0', '-')
    """
    known = [value for value in values if value is not None]
    return show(fmean(known) / unit) if known and len(known) == len(values) else MISSING


def human(number: float) -> str:
    """A count in three digits.

    >>> human(119_445), human(2_400_000), human(80)
    ('119k', '2.4M', '80')
    """
    rounded = float(f"{number:.3g}")
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded >= size:
            return f"{rounded / size:.3g}{letter}"
    return f"{rounded:.3g}"


def seconds(duration: float) -> str:
    """Seconds, with a decimal only where it matters.

    >>> seconds(612.4), seconds(2.25)
    ('612', '2.2')
    """
    return f"{duration:,.0f}" if duration >= 10 else f"{duration:.1f}"


def spent(duration: float) -> str:
    """A time in two digits with a suitable unit.

    >>> spent(0.42), spent(41), spent(95), spent(5400), spent(200_000)
    ('0.4 s', '41 s', '1.6 min', '1.5 h', '56 h')
    """
    for size, unit in ((3600, "h"), (60, "min")):
        if duration >= size:
            return f"{duration / size:.{1 if duration < 10 * size else 0}f} {unit}"
    return f"{duration:.{1 if duration < 10 else 0}f} s"


def text(table: Table, width: int | None = None) -> str:
    """The table for a terminal, folded to `width` if given; labels that all rows share are written once, above.

    >>> print(text(Table(("method", "seeds", "average accuracy"), (("model-zoo", "3", "73.67"),), labels=2)))
    seeds 3
                average
    method     accuracy
    ───────────────────
    model-zoo     73.67
    """
    from rich.console import Console

    shared = [place for place in range(1, table.labels) if len({row[place] for row in table.rows}) == 1]
    heading = ", ".join(f"{table.header[place]} {table.rows[0][place]}" for place in shared)
    kept = [place for place in range(len(table.header)) if place not in shared]
    drawing = io.StringIO()
    console = Console(
        file=drawing, width=width or UNFOLDED, color_system=None, force_terminal=False, force_jupyter=False
    )
    console.print(_draw(table, kept))
    lines = [line.rstrip() for line in drawing.getvalue().splitlines()]
    return "\n".join([*([heading] if heading else []), *lines, *table.notes])


def _draw(table: Table, places: Sequence[int]) -> "RichTable":
    """These columns of the table, the words of a header stacked; `Text` keeps brackets from being read as markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place in places:
        side: Literal["left", "right"] = "left" if place < table.labels else "right"
        drawn.add_column(Text(table.header[place].replace(" ", "\n")), justify=side, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(row[place]) for place in places))
    return drawn


def markdown(table: Table) -> str:
    """The table in Markdown, its columns padded so that the source reads well too; the best in bold.

    By hand, as LaTeX below: tabulate pads but escapes neither `|` nor `±`, and would save 20 lines for a dependency.

    >>> print(markdown(Table(("method", "seeds"), (("model-zoo", "3"),), labels=1)))
    | method    | seeds |
    |:----------|------:|
    | model-zoo |     3 |
    """
    columns = []
    for place, column in enumerate(zip(table.header, *table.rows, strict=True)):
        cells = [_markdown_escape(cell) for cell in column]
        marked = [f"**{cell}**" if (row, place) in table.best else cell for row, cell in enumerate(cells, -1)]
        columns.append(_markdown_column(marked, is_label=place < table.labels))
    lines = [f"|{'|'.join(cells)}|" for cells in zip(*columns, strict=True)]
    notes = ["", *map(_markdown_escape, table.notes)] if table.notes else []
    return "\n".join([*lines, *notes])


def _markdown_column(cells: Sequence[str], is_label: bool) -> list[str]:
    width = max(3, *map(len, cells))
    rule = ":" + "-" * (width + 1) if is_label else "-" * (width + 1) + ":"
    header, *rest = [f" {cell.ljust(width) if is_label else cell.rjust(width)} " for cell in cells]
    return [header, rule, *rest]


MARKDOWN_ESCAPES = str.maketrans({**{mark: f"\\{mark}" for mark in "\\|*`<["}, "\n": " "})


def _markdown_escape(cell: str) -> str:
    return cell.translate(MARKDOWN_ESCAPES)


def latex(table: Table) -> str:
    r"""The table as a LaTeX tabular, the best in bold; needs the package booktabs.

    >>> print(latex(Table(("method", "change"), (("model-zoo", "-1.50"),), labels=1)))
    \begin{tabular}{lr}
    \toprule
    method & change \\
    \midrule
    model-zoo & $-$1.50 \\
    \bottomrule
    \end{tabular}
    """
    alignment = "l" * table.labels + "r" * (len(table.header) - table.labels)
    lines = []
    for row, line in enumerate((table.header, *table.rows), -1):
        cells = [_latex_cell(cell, n < table.labels, (row, n) in table.best) for n, cell in enumerate(line)]
        lines.append(" & ".join(cells) + r" \\")
    begin, end = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule"], [r"\bottomrule", r"\end{tabular}"]
    notes = [f"% {note}" for note in table.notes]
    return "\n".join([*begin, lines[0], r"\midrule", *lines[1:], *end, *notes])


LATEX_ESCAPES = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "…": r"\ldots{}",
        "\n": " ",
    }
)


def _latex_cell(cell: str, is_label: bool, is_best: bool) -> str:
    escaped = cell.translate(LATEX_ESCAPES)
    if not is_label and cell.startswith("-") and cell != MISSING:
        escaped = escaped.replace("-", "$-$", 1)
    return rf"\textbf{{{escaped}}}" if is_best else escaped


RENDERERS: dict[str, Callable[[Table], str]] = {"text": text, "markdown": markdown, "latex": latex}
