"""Watching: what a folder tells while its run is under way."""

import os
import platform
from pathlib import Path

import pytest
from rich.console import Console

import toys
from zoolearn.cli import main
from zoolearn.cli.watch import view
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import mlp
from zoolearn.runs.heartbeat import FILE, Heartbeat, read_heartbeat
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress
from zoolearn.runs.watch import RunStatus, find_folders, read_status, read_statuses
from zoolearn.training.fit import Progress


def begun(folder: Path, episodes: int, **options: int) -> Path:
    """A run that was left after so many episodes."""
    run = progress(ModelZoo(backbone=mlp, recipe=toys.TINY), toys.benchmark(3), folder, **options)
    done = 0
    for event in run:
        done += isinstance(event, Results)
        if done == episodes:
            break
    run.close()
    return folder


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> Path:
    return begun(tmp_path_factory.mktemp("runs") / "zoo", 2)


def test_a_run_that_was_left_is_stopped_and_says_how_far_it_came(left):
    (left / ".lock").write_text(f"process {2**22 + 1} on {platform.node()}")  # above any process number of Linux
    sight = read_status(left)
    assert (sight.state, sight.episodes, sight.tasks, sight.method, sight.seed) == ("stopped", 2, 3, "model-zoo", 0)
    assert sight.accuracy == pytest.approx(sum(Results.load(left).accuracy[-1]) / 2)
    assert sight.loss == Results.load(left).episodes[-1].loss


def test_a_run_whose_process_lives_is_running_and_has_time_left(left):
    (left / ".lock").write_text(f"process {os.getpid()} on {platform.node()}")
    written = (left / "episodes" / "0002.json").stat().st_mtime
    sight, later = read_status(left, written), read_status(left, written + 1e6)
    assert sight.state == "running"
    seconds = [sum(record.seconds.values()) for record in Results.load(left).episodes]
    assert sight.seconds_left == pytest.approx(sum(seconds) / 3 * 2)  # one episode of two tasks, at the pace of three
    assert later.seconds_left == 0.0


def test_a_process_of_another_machine_is_taken_at_its_word(left):
    (left / ".lock").write_text("process 1 on elsewhere")
    assert read_status(left).running
    (left / ".lock").write_text("something else")
    assert not read_status(left).running


def test_the_training_under_way_tells_its_step_and_loss(tmp_path):
    run = progress(ModelZoo(backbone=mlp, recipe=toys.TINY), toys.benchmark(2), tmp_path)
    event = next(run)
    sight = read_status(tmp_path)
    assert sight.training == event
    assert (sight.loss, sight.training.epoch, sight.training.epochs) == (event.loss, 1, 2)
    run.close()
    assert read_status(tmp_path).training is None


def test_a_beat_that_cannot_be_read_or_written_is_no_beat(tmp_path):
    (tmp_path / FILE).write_text('{"step": 1')
    assert read_heartbeat(tmp_path) is None
    (tmp_path / FILE).write_text("[]")
    assert read_heartbeat(tmp_path) is None
    heartbeat = Heartbeat(tmp_path / "gone")
    heartbeat.write(Progress("task", 1, 2, 1, 1, 0.5))
    heartbeat.stop()


def test_a_pulse_beats_at_most_once_a_second(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("zoolearn.runs.heartbeat.monotonic", lambda: now)
    heartbeat = Heartbeat(tmp_path)
    for step, now in ((1, 100.0), (2, 100.5), (3, 101.5)):
        heartbeat.write(Progress("task", step, 9, 1, 1, 0.5))
        assert read_heartbeat(tmp_path).step == {100.0: 1, 100.5: 1, 101.5: 3}[now]
    heartbeat.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_being_written_is_left_for_the_next_look_and_a_damaged_one_says_so(left, tmp_path, capsys):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "run.json").write_text("{")
    assert find_folders([tmp_path]) == [folder]
    (sight,) = read_statuses([tmp_path])
    assert sight.state == "damaged"
    main(["watch", str(tmp_path)])
    out = " ".join(capsys.readouterr().out.split())
    assert "run.json" in out
    assert "1 damaged" in out
    (folder / ".lock").write_text(f"process {os.getpid()} on {platform.node()}")
    assert read_statuses([tmp_path]) == []


def test_the_view_fits_a_narrow_terminal_and_puts_running_runs_first():
    common = {"method": "model-zoo", "benchmark": "toys", "seed": 0, "tasks": 20}
    seen = [
        RunStatus(path=Path("runs/done"), running=False, episodes=20, accuracy=0.75, loss=0.1, seconds=600, **common),
        RunStatus(
            path=Path("runs/busy"), running=True, episodes=5, accuracy=0.7, seconds=60, seconds_left=180, **common
        ),
    ]
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(view(seen, 80))
    console.file.close()
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["busy", "running", "5/20", "70.00", "%", "1", "min", "3", "min"]
    assert lines[2].split()[:3] == ["done", "finished", "20/20"]
    assert lines[-1] == "1 running, 1 finished"


def test_the_command_looks_once_where_there_is_no_terminal(left, capsys):
    main(["watch", str(left.parent)])
    assert "2/3" in capsys.readouterr().out
