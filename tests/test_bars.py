"""Bars say how long work will take."""

from io import StringIO

from rich.console import Console

from zoolearn.cli.bars import Bars


def test_the_time_left_is_told_where_a_step_takes_minutes() -> None:
    now = 0.0
    bars = Bars(Console(file=StringIO(), force_terminal=True))
    bars.progress.get_time = lambda: now
    for done in range(4):
        now = 120.0 * done
        bars.show("reading photographs", 64 * done, 640)
    (bar,) = bars.progress.tasks
    assert bar.time_remaining == 7 * 120.0
