"""The table of all commands: text to the left, numbers to the right, cut to a screen unless all is wanted.

Without a terminal, every row is one line.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated

import tyro
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

__all__ = ["SCREEN", "All", "Table", "cut_to_screen", "make_table"]
SCREEN = 20  # lines
SOME = 5  # tasks of a longer list, which is listed twice or stands below other lines
All = Annotated[bool, tyro.conf.arg(name="all", help="print all of it, however long; without, at most a screen")]
LEAST = 12  # letters of the names of rows that stand side by side, however narrow the terminal


def make_table(
    header: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    words: Collection[str] = (),
    title: str = "",
    gap: int = 2,
    widest: int | None = None,
) -> Table:
    """A table for a console; the first column and those in `words` hold text, which folds, the others numbers.

    Cells are not parsed as markup. Without any name in the header there is none. No column is wider than `widest`.
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


def cut_to_screen(names: Sequence[str], first: Collection[str], *, everything: bool | None) -> tuple[list[str], str]:
    """The names to print, in order: of more than a screen some, `first` ones preferred, then the newest; and a note on the rest.

    `everything` is None for a command that cannot print all.

    >>> names = [f"task {number}" for number in range(1000)]
    >>> shown, rest = cut_to_screen(names, ["task 7"], everything=False)
    >>> shown[0], shown[1], len(shown), rest
    ('task 7', 'task 996', 5, '... 995 more; --all prints them')
    """
    if everything or len(names) <= SCREEN:
        return list(names), ""
    wanted = [name for name in names if name in first][-SOME:]
    others = [name for name in names if name not in first]
    chosen = {*wanted, *others[len(others) - (SOME - len(wanted)) :]}
    way = "" if everything is None else "; --all prints them"
    return [name for name in names if name in chosen], f"... {len(names) - len(chosen):,} more{way}"
