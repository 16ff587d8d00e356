"""Runs with several workers: the same folder bit for bit, in order, and nothing lost when stopped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from processes import PATIENCE, eventually, started
from toys import benchmark, contents, embedded, learner_of, outcome
from zoolearn.cli import main
from zoolearn.errors import Diverged, SettingsError
from zoolearn.methods.registry import METHODS
from zoolearn.runs.ahead import train
from zoolearn.runs.jobs import Local, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, progress, run
from zoolearn.runs.store import RunFolder
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.fit import Progress, run_to_end
from zoolearn.training.recipe import Recipe

pytestmark = pytest.mark.slow  # processes are started

BRIEF = ("--epochs", "2", "--backbone", "mlp-100", "--samples-per-class", "20", "--device", "cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As workers have; those of other tests are given back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def zoo(*arguments: str | Path) -> None:
    main([str(argument) for argument in arguments])


@pytest.mark.parametrize("networks", [1, 3])
def test_two_workers_leave_the_folder_that_one_leaves(tmp_path: Path, networks: int) -> None:
    tasks = benchmark(4)
    for workers in (1, 2):
        run(learner_of(METHODS["isolated"], networks=networks), tasks, tmp_path / str(workers), workers=workers)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")
    assert not [name for name in contents(tmp_path / "2") if name.startswith("checkpoints")]


def test_workers_change_nothing_without_a_folder_either() -> None:
    tasks = benchmark(3)
    alone, together = (run(learner_of(METHODS["isolated"]), tasks, workers=workers) for workers in (1, 2))
    assert alone.accuracy == together.accuracy
    assert [episode.loss for episode in alone.episodes] == [episode.loss for episode in together.episodes]


def test_workers_train_on_the_threads_that_are_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    places = []
    monkeypatch.setattr(
        "zoolearn.runs.ahead.map_jobs", lambda jobs, place: places.append(place) or map_jobs(jobs, place)
    )
    monkeypatch.setattr("zoolearn.runs.ahead.usable_cores", lambda: 2)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results = run(learner_of(METHODS["isolated"]), benchmark(2), workers=2)
        assert results.environment["threads"] == threads
    assert places == [Local(2, 1), Local(2, 2)]
    assert [record.message for record in caplog.records] == [
        "2 workers of 2 threads each wait for each other on 2 cores; set fewer threads or workers"
    ]


def test_episodes_come_in_order_and_count_the_seconds_of_their_workers(tmp_path: Path) -> None:
    counts = []
    for results in episodes(learner_of(METHODS["isolated"]), benchmark(4), tmp_path, workers=2):
        counts.append(len(results.accuracy))
        assert len(RunFolder(tmp_path).episodes()) == len(results.accuracy)
    assert counts == [1, 2, 3, 4]
    assert all(episode.seconds["train"] > 0 for episode in results.episodes)


def test_what_workers_take_of_processors_is_counted_where_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoolearn.training.clock.process_time", lambda: 0.0)  # of this process, which trains nothing
    results = run(learner_of(METHODS["isolated"]), benchmark(3), workers=2)
    assert all(episode.processor_seconds > 0 for episode in results.episodes)
    assert results.processor_seconds == sum(episode.processor_seconds for episode in results.episodes)


def test_each_training_under_way_reports_under_its_own_name() -> None:
    learner = learner_of(METHODS["isolated"], networks=2)
    events = progress(learner, benchmark(2), workers=2)
    names = {event.what for event in events if isinstance(event, Progress)}
    assert {"stripes, net 1", "stripes, net 2", "dots, net 1", "dots, net 2"} <= names


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_stopped_with_two_workers_goes_on_with_any_number(tmp_path: Path, workers: int) -> None:
    tasks = benchmark(4)
    run(learner_of(METHODS["isolated"]), tasks, tmp_path / "whole")
    stopped = episodes(learner_of(METHODS["isolated"]), tasks, tmp_path / "cut", workers=2)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    run(learner_of(METHODS["isolated"]), tasks, tmp_path / "cut", workers=workers)
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "cut")


def test_what_was_trained_ahead_is_taken_up_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = benchmark(1)[0]
    worker, learner, alone = (learner_of(METHODS["isolated"]) for _ in range(3))
    worker.checkpoints = learner.checkpoints = Checkpoints(tmp_path, every=100, final=True)
    run_to_end(train(worker, task, learner.independent_trainings(0)[0], "stripes"))  # type: ignore[arg-type]
    with embedded(monkeypatch) as passes:
        learner.learn(task)
    assert not [training for _, training, _ in passes if training]
    alone.learn(task)
    assert torch.equal(learner.predict_proba(task.test.x, task.name), alone.predict_proba(task.test.x, task.name))


@pytest.mark.parametrize("every", [None, 1])
def test_trainings_done_ahead_are_taken_up_without_workers_too_until_the_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int | None
) -> None:
    tasks = benchmark(4)
    run(learner_of(METHODS["isolated"]), tasks, tmp_path / "whole")
    stopped = episodes(learner_of(METHODS["isolated"]), tasks, tmp_path / "cut")
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    ahead = learner_of(METHODS["isolated"])
    ahead.checkpoints = Checkpoints(tmp_path / "cut" / "checkpoints", every=100, final=True)
    for number in (1, 3):
        run_to_end(train(ahead, tasks[number], ahead.independent_trainings(number)[0], "ahead"))  # type: ignore[arg-type]
    resumed = episodes(learner_of(METHODS["isolated"]), tasks, tmp_path / "cut", checkpoint_every=every)
    trained = []
    with embedded(monkeypatch) as passes:
        for _ in resumed:
            trained.append(any(training for _, training, _ in passes))
            passes.clear()
    assert trained == [False, False, True, False]  # the first was there
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "cut")
    assert not [name for name in contents(tmp_path / "cut") if name.startswith("checkpoints")]


def test_a_training_that_diverges_ends_the_run_where_it_would_with_one_worker(tmp_path: Path) -> None:
    wild = Recipe(epochs=4, batch_size=8, lr=1e25, device="cpu")
    messages = []
    for workers in (1, 2):
        with pytest.raises(Diverged) as caught:
            run(learner_of(METHODS["isolated"], wild), benchmark(3), tmp_path / str(workers), workers=workers)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_learners_whose_episodes_build_on_each_other_ignore_workers(tmp_path: Path) -> None:
    for workers in (1, 2):
        run(learner_of(METHODS["fine-tune"]), benchmark(2), tmp_path / str(workers), workers=workers)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")


def test_no_worker_is_refused() -> None:
    with pytest.raises(SettingsError, match="workers is 0"):
        run(learner_of(METHODS["isolated"]), benchmark(2), workers=0)


def test_seeds_and_methods_run_side_by_side_as_they_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo("run", "model-zoo,isolated", "split-digits", *BRIEF, "--seeds", "2", "--workers", "2", "--out", tmp_path)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == [f"{m}-split-digits-seed{s}" for m in ("isolated", "model-zoo") for s in (0, 1)]
    table = capsys.readouterr().out
    assert "model-zoo-split-digits-seed1: done" in table
    assert "seeds 2" in table
    zoo("run", "model-zoo", "split-digits", *BRIEF, "--seed", "1", "--workers", "1", "--out", tmp_path / "alone")
    assert outcome(tmp_path / "alone") == outcome(tmp_path / "model-zoo-split-digits-seed1")


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stranger = tmp_path / "fine-tune-split-digits-seed0"
    stranger.mkdir()
    (stranger / "letter.txt").write_text("not a run")
    with pytest.raises(SystemExit) as caught:
        zoo("run", "fine-tune", "split-digits", *BRIEF, "--seeds", "2", "--workers", "2", "--out", tmp_path)
    assert caught.value.code == 1
    assert "letter.txt" in capsys.readouterr().err
    assert Results.load(tmp_path / "fine-tune-split-digits-seed1").finished


def test_several_methods_share_only_what_all_learners_have(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo("run", "model-zoo,isolated", "split-digits", "--tasks-per-episode", "2")
    assert "tasks-per-episode" in capsys.readouterr().err


def test_ctrl_c_stops_all_runs_and_loses_nothing(tmp_path: Path) -> None:
    out, whole = tmp_path / "cut", tmp_path / "whole"
    options = ["--epochs", "20", *BRIEF[2:], "--first-tasks", "3", "--seeds", "2", "--workers", "2", "--out"]
    with started(["-m", "zoolearn", "run", "fine-tune", "split-digits", *options, out]) as process:
        eventually(lambda: len([*out.glob("*/episodes/0001.json")]) == 2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:  # it may have been faster than we
        assert process.returncode == 130
        assert "The same command continues" in errors
        assert "Traceback" not in errors
    assert not [*out.rglob("*.part")]
    zoo("run", "fine-tune", "split-digits", *options, out)
    zoo("run", "fine-tune", "split-digits", *options, whole)
    assert outcome(out) == outcome(whole)
