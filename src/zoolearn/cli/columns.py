"""The one table of all commands: words to the left, numbers to the right. Where there is no terminal, a line a row."""

from collections.abc import Collection, Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

__all__ = ["Table", "columns"]
LEAST = 12  # letters of the names of rows that stand side by side, however narrow the terminal


def columns(
    header: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    words: Collection[str] = (),
    title: str = "",
    gap: int = 2,
    widest: int | None = None,
) -> Table:
    """A table for a console; the first column and those called in `words` hold words, which fold, the others numbers.

    Cells are shown as they are: nothing in people's names is taken for markup. Without any name in the header there is
    none. No column is wider than `widest`.
    """
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        show_header=any(header),
        box=None,
        padding=(0, gap, 0, 0),
    )
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    first = max((len(row[0]) for row in cells if isinstance(row[0], Text)), default=0)
    for place, name in enumerate(header):
        if place == 0 or name in words:
            least = min(first, LEAST) if place == 0 else None
            table.add_column(Text(name), overflow="fold", min_width=least, max_width=widest)
        else:
            table.add_column(Text(name), justify="right", overflow="fold", no_wrap=widest is None, max_width=widest)
    for row in cells:
        table.add_row(*row)
    return table
