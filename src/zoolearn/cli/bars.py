"""Progress bars: what a run reports as it goes, drawn in the terminal, or a line per episode where there is none."""

from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from zoolearn.results import Results
from zoolearn.train import Progress as Training


def show(events: Iterable[Training | Results], title: str, tasks: int, console: Console) -> Results:
    """Follows a run to its end with two bars, episodes and the training under way; returns the results."""
    results = None
    with _bars(console) as bars:
        whole = bars.add_task(title, total=tasks, note="")
        part = bars.add_task("", total=None, note="", visible=False)
        for event in events:
            if isinstance(event, Results):
                results = event
                bars.update(part, visible=False)
                bars.update(whole, completed=len(event.accuracy), note=_note(event))
                if not console.is_terminal:
                    console.print(f"{title}: {len(event.accuracy)} of {tasks} tasks, {_note(event)}")
            else:
                epochs = f"epoch {event.epoch}/{event.epochs}, " if event.epochs > 1 else ""
                note = f"{epochs}loss {event.loss:.3f}"
                bars.update(
                    part,
                    description=f"  {event.what}",
                    completed=event.step,
                    total=event.steps,
                    note=note,
                    visible=True,
                )
    assert results is not None
    return results


def _note(results: Results) -> str:
    average = results.summary()["average_accuracy"]
    return "" if average is None else f"average accuracy {100 * average:.2f} %"


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    )
