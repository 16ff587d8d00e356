"""When results.json is written: after each of the first episodes, then at a bounded price, and always in the end."""

from pathlib import Path

import pytest

from toys import benchmark, learner_of, outcome
from zoolearn.errors import StoreError
from zoolearn.methods.registry import METHODS
from zoolearn.runs import results_file
from zoolearn.runs.results import Results
from zoolearn.runs.results_file import ResultsFile
from zoolearn.runs.run import episodes, run
from zoolearn.runs.store import RunFolder


def rows(folder: Path) -> int:
    return len(Results.load(folder).accuracy)


@pytest.fixture
def never_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that is dear to write from the second episode on."""
    monkeypatch.setattr(results_file, "FIRST_EPISODES", 1)
    monkeypatch.setattr(results_file, "LONGEST_SHARE", 0.0)


def test_the_first_episodes_are_written_each(tmp_path: Path) -> None:
    for results in episodes(learner_of(METHODS["fine-tune"]), benchmark(3), tmp_path):
        assert rows(tmp_path) == len(results.accuracy)


def test_a_dear_file_waits_and_is_whole_when_the_run_ends(tmp_path: Path, never_cheap: None) -> None:
    seen = []
    for _ in episodes(learner_of(METHODS["model-zoo"]), benchmark(4), tmp_path):
        seen.append(rows(tmp_path))
        assert len(RunFolder(tmp_path).episodes()) == len(seen)
    assert seen == [1, 1, 1, 1]
    assert rows(tmp_path) == 4
    assert Results.load(tmp_path).finished


def test_it_is_whole_when_the_run_is_stopped(tmp_path: Path, never_cheap: None) -> None:
    stopped = episodes(learner_of(METHODS["fine-tune"]), benchmark(4), tmp_path)
    for _ in range(3):
        next(stopped)
    assert rows(tmp_path) == 1
    stopped.close()  # type: ignore[attr-defined]
    assert rows(tmp_path) == 3


def test_it_is_whole_when_an_episode_fails(tmp_path: Path, never_cheap: None, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(METHODS["fine-tune"])
    stream = episodes(learner, benchmark(4), tmp_path)
    next(stream), next(stream)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(learner), "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert rows(tmp_path) == 2


def test_an_episode_without_a_record_is_not_in_the_file(
    tmp_path: Path, never_cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = episodes(learner_of(METHODS["model-zoo"]), benchmark(4), tmp_path)
    next(stream), next(stream)

    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(RunFolder, "commit", full)
    with pytest.raises(StoreError):
        next(stream)
    assert rows(tmp_path) == len(RunFolder(tmp_path).episodes()) == 2


def test_a_killed_run_goes_on_from_its_records_and_brings_the_file_up_to_date(
    tmp_path: Path, never_cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = benchmark(4)
    killed = episodes(learner_of(METHODS["model-zoo"]), tasks, tmp_path / "killed")
    for _ in range(3):
        next(killed)
    with monkeypatch.context() as patch:  # as if the process had been killed: nothing is written any more
        patch.setattr(ResultsFile, "_write", lambda *_: None)
        killed.close()  # type: ignore[attr-defined]
    assert rows(tmp_path / "killed") == 1
    run(learner_of(METHODS["model-zoo"]), tasks, tmp_path / "killed")
    run(learner_of(METHODS["model-zoo"]), tasks, tmp_path / "whole")
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_writing_takes_no_more_than_its_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    saves = []
    monkeypatch.setattr(results_file, "perf_counter", lambda: clock[0])
    results = Results(method="er", benchmark="long", tasks=[str(task) for task in range(2000)], settings={})

    def save(_: object) -> None:
        saves.append(len(results.accuracy))
        clock[0] += 0.5

    monkeypatch.setattr(results, "save", save)
    file = ResultsFile(results, tmp_path)
    for _ in range(1000):
        clock[0] += 1.0
        results.accuracy.append([])
        file.update()
    assert saves[:32] == list(range(1, 33))
    assert 0.5 * len(saves[32:]) <= 0.011 * clock[0]
    assert len(saves) > 32
