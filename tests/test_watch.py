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
from zoolearn.nets import mlp
from zoolearn.results import Results
from zoolearn.runs import progress
from zoolearn.watch import Sight, find_folders, look, sights


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
    sight = look(left)
    assert (sight.state, sight.episodes, sight.tasks, sight.method, sight.seed) == ("stopped", 2, 3, "model-zoo", 0)
    assert sight.accuracy == pytest.approx(sum(Results.load(left).accuracy[-1]) / 2)
    assert sight.loss == Results.load(left).episodes[-1].loss


def test_a_run_whose_process_lives_is_running_and_has_time_left(left):
    (left / ".lock").write_text(f"process {os.getpid()} on {platform.node()}")
    written = (left / "episodes" / "0002.json").stat().st_mtime
    sight, later = look(left, written), look(left, written + 1e6)
    assert sight.state == "running"
    seconds = [sum(record.seconds.values()) for record in Results.load(left).episodes]
    assert sight.seconds_left == pytest.approx(sum(seconds) / 3 * 2)  # one episode of two tasks, at the pace of three
    assert later.seconds_left == 0.0


def test_a_process_of_another_machine_is_taken_at_its_word(left):
    (left / ".lock").write_text("process 1 on elsewhere")
    assert look(left).running
    (left / ".lock").write_text("something else")
    assert not look(left).running


def test_a_checkpoint_tells_the_epoch_under_way(tmp_path):
    run = progress(ModelZoo(backbone=mlp, recipe=toys.TINY), toys.benchmark(2), tmp_path, checkpoint_every=1)
    for _ in run:
        if list((tmp_path / "checkpoints").glob("*.safetensors")):
            break
    sight = look(tmp_path)
    run.close()
    assert sight.epochs == (1, 2)
    assert sight.loss is not None


def test_a_folder_being_written_is_left_for_the_next_look(left, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    assert find_folders([tmp_path]) == [tmp_path / "damaged"]
    assert sights([tmp_path]) == []


def test_the_view_fits_a_narrow_terminal_and_puts_running_runs_first():
    common = {"method": "model-zoo", "benchmark": "toys", "seed": 0, "tasks": 20}
    seen = [
        Sight(path=Path("runs/done"), running=False, episodes=20, accuracy=0.75, loss=0.1, seconds=600, **common),
        Sight(path=Path("runs/busy"), running=True, episodes=5, accuracy=0.7, seconds=60, seconds_left=180, **common),
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
