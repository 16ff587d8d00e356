"""A progress bar around any loop, on the error stream, and only where someone is looking."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def iter_with_bar(
    items: Iterable[Item], title: str, total: int | None, done: int = 0, size: Callable[[Item], int] | None = None
) -> Iterator[Item]:
    """The same items, while a bar advances: by one for each, or by its `size` in bytes.

    >>> list(iter_with_bar("ab", "reading", total=2))
    ['a', 'b']
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    amount = progress.DownloadColumn() if size else progress.MofNCompleteColumn()
    columns = ("[progress.description]{task.description}", progress.BarColumn(), amount, progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, completed=done)
        for item in items:
            yield item
            bar.advance(task, size(item) if size else 1)
