"""A progress bar for work on a zoo folder: reading, training, verifying."""

from collections.abc import Callable, Generator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from zoolearn.runs.step import Step
from zoolearn.training.fit import Progress as Training


def follow(work: Generator[Any, None, Any], console: Console, also: Callable[[Any], None] = lambda event: None) -> Any:
    """Draws a bar of what a generator reports, hands other events to `also`, and gives what it returns at its end."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bars:
        line = bars.add_task("", total=None, note="")
        while True:
            try:
                event = next(work)
            except StopIteration as end:
                return end.value
            if isinstance(event, Step):
                bars.update(line, description=escape(event.what), completed=event.done, total=event.total, note="")
            elif isinstance(event, Training):
                note = f"epoch {event.epoch}/{event.epochs}, loss {event.loss:.3f}"
                what = f"training on {escape(event.what)}"
                bars.update(line, description=what, completed=event.step, total=event.steps, note=note)
            else:
                also(event)
