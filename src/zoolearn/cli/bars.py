"""Progress bars: what runs report as they go, drawn in the terminal, or a line per episode where there is none."""

from collections.abc import Iterable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from zoolearn.runs.jobs import Done, Event, Failed
from zoolearn.runs.results import Results
from zoolearn.training.fit import Progress as Training


def show(events: Iterable[Training | Results], title: str, tasks: int, console: Console) -> Results:
    """Follows a run to its end with a bar of its episodes and one for each training under way; returns the results."""
    results = None
    parts: dict[str, TaskID] = {}
    with _bars(console) as bars:
        whole = bars.add_task(title, total=tasks, note="")
        for event in events:
            if isinstance(event, Results):
                results = event
                bars.update(whole, completed=len(event.accuracy), note=_note(event))
                if not console.is_terminal:
                    console.print(f"{title}: {_done(event)}")
            elif event.step == event.steps and event.what in parts:
                bars.remove_task(parts.pop(event.what))
            else:
                if event.what not in parts:
                    parts[event.what] = bars.add_task(f"  {event.what}", note="")
                bars.update(parts[event.what], completed=event.step, total=event.steps, note=_training(event))
    assert results is not None
    return results


def show_side_by_side(events: Iterable[Event], console: Console) -> list[Done | Failed]:
    """Follows several runs to their ends with one line for each that is under way; returns how they ended."""
    lines: dict[str, TaskID] = {}
    ends: list[Done | Failed] = []
    with _bars(console) as bars:
        for event in events:
            title = event.job.name
            if title not in lines:
                lines[title] = bars.add_task(title, total=None, note="")
            if isinstance(event, Done | Failed):
                ends.append(event)
                bars.remove_task(lines[title])
                said = f"failed: {event.error}" if isinstance(event, Failed) else f"done, {_note(event.result)}"
                console.print(f"{title}: {said}", markup=False, highlight=False)
            elif isinstance(event.content, Results):
                results = event.content
                bars.update(
                    lines[title], completed=len(results.accuracy), total=len(results.tasks), note=_note(results)
                )
                if not console.is_terminal:
                    console.print(f"{title}: {_done(results)}")
            else:
                share = f"{event.content.step / event.content.steps:4.0%} of"
                note = f"{share} {event.content.what}, {_training(event.content)}"
                bars.update(lines[title], note=note)
    return ends


def _done(results: Results) -> str:
    return ", ".join(filter(None, (f"{len(results.accuracy)} of {len(results.tasks)} tasks", _note(results))))


def _note(results: Results) -> str:
    row = results.accuracy[-1]
    known = [value for value in row if value is not None]
    return "" if len(known) < len(row) else f"average accuracy {100 * sum(known) / len(known):.2f} %"


def _training(event: Training) -> str:
    epochs = f"epoch {event.epoch}/{event.epochs}, " if event.epochs > 1 else ""
    return f"{epochs}loss {event.loss:.3f}"


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
