"""Bars say how long work will take."""

from io import StringIO

import pytest
import torch
from rich.console import Console

from zoolearn.cli.bars import Bars, follow, take_threads
from zoolearn.errors import SettingsError
from zoolearn.training.step import Step


def test_the_time_left_is_told_where_a_step_takes_minutes() -> None:
    now = 0.0
    bars = Bars(Console(file=StringIO(), force_terminal=True))
    bars.progress.get_time = lambda: now
    for done in range(4):
        now = 120.0 * done
        bars.show("reading photographs", 64 * done, 640)
    (bar,) = bars.progress.tasks
    assert bar.time_remaining == 7 * 120.0


def test_without_a_terminal_long_work_tells_every_minute_how_long_it_will_take() -> None:
    now, said = 0.0, StringIO()
    bars = Bars(Console(file=said, force_terminal=False, width=200))
    bars.progress.get_time = lambda: now
    for done in range(0, 601, 5):
        now = 0.5 * done
        bars.tell("reading [photos]", 100 * done, 60_000)
    assert said.getvalue().splitlines() == [
        "reading [photos]: 12,000 of 60,000, about 4 min left",
        "reading [photos]: 24,000 of 60,000, about 3 min left",
        "reading [photos]: 36,000 of 60,000, about 2 min left",
        "reading [photos]: 48,000 of 60,000, about 1 min left",
    ]


def test_what_is_followed_without_a_terminal_is_told_in_lines(monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.cli.bars.SECONDS_BETWEEN", 0.0)
    said = StringIO()
    follow((Step("reading photos", done, 4) for done in (0, 2, 4)), Console(file=said, force_terminal=False))
    assert said.getvalue() == "reading photos: 2 of 4, about 1 s left\n"


def test_fewer_threads_than_cores_are_told_unless_they_were_asked_for(monkeypatch) -> None:
    def said(asked: int | None, environment: str) -> str:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
        lines = StringIO()
        take_threads(Console(file=lines, force_terminal=False, width=200), asked)
        return lines.getvalue()

    monkeypatch.setattr("zoolearn.cli.bars.usable_cores", lambda: 8)
    before = torch.get_num_threads()
    try:
        for idle, line in ((3, "3 threads for 8 cores: other programs are busy on the rest\n"), (8, "")):
            monkeypatch.setattr("zoolearn.cli.bars.free_threads", lambda idle=idle: idle)
            assert said(None, "") == line
            assert torch.get_num_threads() == idle
        assert said(2, "") == said(None, "3") == ""
        with pytest.raises(SettingsError, match="threads is 0"):
            said(0, "")
    finally:
        torch.set_num_threads(before)
