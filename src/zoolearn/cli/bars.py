"""Progress of work as bars on a terminal; elsewhere, a line for each finished thing."""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from zoolearn.cores import check_threads, free_threads, usable_cores
from zoolearn.runs.jobs import Done, Event, Failed
from zoolearn.runs.results import Results
from zoolearn.training.fit import Progress as Training
from zoolearn.training.step import Step
from zoolearn.words import duration, plural

SECONDS_BACK = 600.0  # that the time left is judged by: a step may take minutes, and two must be seen
SECONDS_BETWEEN = 60.0  # lines that tell of one step

End = TypeVar("End")


class Bars:
    """A bar for each running thing, by name."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lines: dict[str, TaskID] = {}
        self.told: dict[str, tuple[float, float]] = {}  # when a step began, and when a line last told of it
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
            speed_estimate_period=SECONDS_BACK,
        )

    def show(self, name: str, done: int | None = None, total: int | None = None, note: str = "") -> None:
        """Updates a bar, or adds one."""
        if name not in self.lines:
            self.lines[name] = self.progress.add_task(escape(name), total=total, note="")
        self.progress.update(self.lines[name], completed=done, total=total, note=escape(note))

    def close(self, name: str, outcome: str = "") -> None:
        """Removes a bar; a line about it may stay."""
        if name in self.lines:
            self.progress.remove_task(self.lines.pop(name))
        if outcome:
            self.console.print(f"{name}: {outcome}", markup=False, highlight=False, soft_wrap=True)

    def tell(self, name: str, done: int, total: int) -> None:
        """Where nothing can be drawn, a line a minute of what takes long: a log must show that it comes on, and how long yet."""
        now = self.progress.get_time()
        began, told = self.told.get(name, (now, now))
        if now - told >= SECONDS_BETWEEN and 0 < done < total and not self.console.is_terminal:
            left = duration((now - began) / done * (total - done))
            self.console.print(f"{name}: {done:,} of {total:,}, about {left} left", markup=False, highlight=False)
            told = now
        self.told[name] = began, told

    def met(self, name: str, results: Results) -> None:
        self.show(name, len(results.accuracy), len(results.meetings), _accuracy(results))
        if not self.console.is_terminal:
            met = f"{len(results.accuracy)} of {len(results.meetings)} tasks"
            self.console.print(f"{name}: {', '.join(filter(None, (met, _accuracy(results))))}", markup=False)


def follow(
    work: Generator[Any, None, End], console: Console, title: str = "", also: Callable[[Any], None] = lambda event: None
) -> End:
    """Draws the progress of one generator, passes other events to `also`, and returns its result."""
    bars, step = Bars(console), ""
    with bars.progress, closing(work):
        while True:
            try:
                event = next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            match event:
                case Results():
                    bars.met(title, event)
                case Training() if event.step == event.steps:
                    bars.close(f"  {event.what}")
                case Training():
                    bars.show(f"  {event.what}", event.step, event.steps, _loss(event))
                case Step():
                    if step not in ("", title, event.what):
                        bars.close(step)
                    step = title or event.what
                    bars.show(step, event.done, event.total, event.what if title else "")
                    if not title:
                        bars.tell(step, event.done, event.total)
                    elif not console.is_terminal:
                        console.print(f"{event.done} of {event.total}: {event.what}", markup=False)
                case _:
                    also(event)


def take_threads(console: Console, asked: int | None = None) -> None:
    """Lets torch train on as many threads as were asked for, otherwise on the cores that are idle now."""
    import torch

    threads = free_threads() if asked is None else asked
    check_threads(threads)
    torch.set_num_threads(threads)
    if asked is None and not os.environ.get("OMP_NUM_THREADS") and threads < usable_cores():
        console.print(f"{plural(threads, 'thread')} for {usable_cores()} cores: other programs are busy on the rest")


@contextmanager
def continues(kept: str) -> Iterator[None]:
    """Ctrl-C inside `with` ends the command, and says what is kept and that the same command continues."""
    try:
        yield
    except KeyboardInterrupt:
        if not kept:
            raise
        print(f"\nzoo: stopped; {kept}. The same command continues", file=sys.stderr)
        sys.exit(130)


def follow_all(events: Generator[Event, None, None], console: Console, kept: str = "") -> list[Done | Failed]:
    """Follows several runs with one bar for each; returns how they ended."""
    ends: list[Done | Failed] = []
    bars = Bars(console)
    with continues(kept), closing(events), bars.progress:
        for event in events:
            title = event.job.name
            match event:
                case Done(_, result):
                    bars.close(title, f"done, {_accuracy(result)}")
                    ends.append(event)
                case Failed():
                    bars.close(title, f"failed: {event.why}")
                    ends.append(event)
                case _ if isinstance(event.content, Results):
                    bars.met(title, event.content)
                case _:
                    share = f"{event.content.step / event.content.steps:4.0%} of {event.content.what}"
                    bars.show(title, note=f"{share}, {_loss(event.content)}")
    return ends


def _accuracy(results: Results) -> str:
    row = results.accuracy[-1]
    known = [value for value in row if value is not None]
    return "" if len(known) < len(row) else f"average accuracy {100 * sum(known) / len(known):.2f} %"


def _loss(event: Training) -> str:
    epochs = f"epoch {event.epoch}/{event.epochs}, " if event.epochs > 1 else ""
    return f"{epochs}loss {event.loss:.3f}"
