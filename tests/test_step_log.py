"""The log within trainings: what its lines say, that nothing changes by it, and that TensorBoard gets the same."""

import json
import struct

import pytest

from toys import SUBJECTS, benchmark, learner_of
from zoolearn import METHODS
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.lab.report import find_runs
from zoolearn.runs import step_log
from zoolearn.runs.execute import Plan
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress, run
from zoolearn.runs.step_log import Log
from zoolearn.testing import answers
from zoolearn.training.recipe import Recipe

pytestmark = pytest.mark.slow  # every method is trained

STREAM = benchmark(tasks=2)
RECIPE = Recipe(epochs=2, batch_size=8, device="cpu")


def logged(learner, out, log, workers=1):
    *_, results = progress(learner, STREAM, out, workers=workers, log=log)
    return results


def lines(folder):
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_changes_by_a_log_of_every_step_and_epoch(name, tmp_path):
    learner, other = (learner_of(SUBJECTS[name], RECIPE) for _ in range(2))
    results, plain = logged(learner, tmp_path, Log(1, 1)), run(other, STREAM)
    assert results.accuracy == plain.accuracy
    assert [episode.loss for episode in results.episodes] == [episode.loss for episode in plain.episodes]
    assert (results.rows_trained, results.rows_asked) == (plain.rows_trained, plain.rows_asked)
    mine, theirs = answers(learner, STREAM), answers(other, STREAM)
    assert all(mine[task].equal(theirs[task]) for task in theirs)
    assert lines(tmp_path)


def test_every_nth_batch_has_its_loss_and_the_mean_of_an_epoch_is_the_episodes(tmp_path):
    results = logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path, Log(every=1))
    last = [line for line in lines(tmp_path) if line["task"] == STREAM[1].name and line["epoch"] == 2]
    assert results.episodes[1].loss == pytest.approx(sum(line["loss"] for line in last) / len(last))
    assert all(0 <= line["accuracy"] <= 1 for line in last)
    logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path / "few", Log(every=3))
    assert lines(tmp_path / "few") == [line for line in lines(tmp_path) if line["step"] % 3 == 0]


def test_the_last_evaluation_inside_an_episode_is_the_one_after_it(tmp_path):
    results = logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path, Log(evaluate_every=1))
    said = [(line["task"], line["epoch"], line["test_accuracy"]) for line in lines(tmp_path)]
    assert [(task, epoch) for task, epoch, _ in said] == [(task.name, epoch) for task in STREAM for epoch in (1, 2)]
    for row, tested in zip(results.accuracy, (said[1][2], said[3][2]), strict=True):
        assert tested == dict(zip(results.tasks, row, strict=False))
    logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path / "few", Log(evaluate_every=2))
    assert [line["epoch"] for line in lines(tmp_path / "few")] == [2, 2]


def test_what_a_log_asks_takes_no_time_of_the_run(tmp_path, monkeypatch):
    asked, right = [], step_log._right  # each of its questions takes a second of a processor, and nothing else does
    monkeypatch.setattr(step_log, "_right", lambda net, batch: (asked.append(1), right(net, batch))[1])
    monkeypatch.setattr("zoolearn.training.clock.process_time", lambda: float(len(asked)))
    results = logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path, Log(every=1))
    assert asked
    assert results.processor_seconds == pytest.approx(0, abs=1e-6)


def test_workers_write_the_same_lines(tmp_path):
    for workers in (1, 2):
        logged(learner_of(METHODS["isolated"], RECIPE), tmp_path / str(workers), Log(2, 1), workers)
    alone, together = (sorted(map(json.dumps, lines(tmp_path / name))) for name in ("1", "2"))
    assert alone == together


def test_a_run_that_begins_again_begins_its_log_again(tmp_path):
    events = progress(learner_of(METHODS["fine-tune"], RECIPE), STREAM, tmp_path, log=Log(1))
    next(events)
    events.close()
    assert lines(tmp_path)
    logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path, Log(1))
    assert len({(line["task"], line["step"]) for line in lines(tmp_path)}) == len(lines(tmp_path))


def test_a_log_is_no_record_of_runs(tmp_path):
    logged(learner_of(METHODS["fine-tune"], RECIPE), tmp_path / "one", Log(1))
    assert list(find_runs([tmp_path])) == [tmp_path / "one"]


def test_tensorboard_reads_back_what_the_lines_say(tmp_path):
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    main(["run", "fine-tune", "split-digits", "--first-tasks", "2", "--backbone", "mlp-100", "--epochs", "2",
          "--log-every", "5", "--evaluate-every", "1", "--tensorboard", "--out", str(tmp_path)])  # fmt: skip
    shown = {}
    for file in (tmp_path / "tensorboard").iterdir():
        content, place = file.read_bytes(), 0
        while place < len(content):  # length, its checksum, the event, its checksum
            (length,) = struct.unpack_from("<Q", content, place)
            event = event_pb2.Event.FromString(content[place + 12 : place + 12 + length])
            shown |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
            place += 12 + length + 4
    said = {}
    for line in lines(tmp_path):
        where, step = line["task"], line["step"]
        said |= {(f"{where}/{name}", step): line[name] for name in ("loss", "accuracy") if name in line}
        said |= {(f"{where}/test_accuracy/{of}", step): it for of, it in line.get("test_accuracy", {}).items()}
    assert {tag for tag, _ in said} >= {"0-1/loss", "2-3/accuracy", "2-3/test_accuracy/0-1"}
    assert shown == pytest.approx(said)
    assert Results.load(tmp_path).finished


@pytest.mark.parametrize(
    ("settings", "said"), [({"every": 0}, "log_every is 0"), ({"evaluate_every": -1}, "epochs"), ({"tensorboard": True}, "--log-every")]
)  # fmt: skip
def test_a_log_that_cannot_be_is_refused(settings, said):
    with pytest.raises(SettingsError, match=said):
        Log(**settings)


def test_a_log_needs_a_folder_that_is_kept():
    with pytest.raises(SettingsError, match="give `out`"):
        next(progress(learner_of(METHODS["er"]), STREAM, log=Log(1)))
    with pytest.raises(SettingsError, match="zoo run"):
        Plan(log=Log(1), keep=False)
