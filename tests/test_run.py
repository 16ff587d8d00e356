"""Runs: the same command goes on, another one is refused by name, and what is written down is what happened."""

import json
from importlib import import_module
from itertools import islice

import numpy as np
import pytest

from toys import TINY, benchmark, contents, learner_of, outcome, pictures
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.errors import Diverged, SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.weighing import uniform
from zoolearn.nets.perceptrons import mlp
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, progress, run
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe

TOYS = benchmark(3)


def zoo(recipe=TINY, **settings):
    return learner_of(ModelZoo, recipe, **{"tasks_per_episode": 2, **settings})


def recipe(**changes):
    return Recipe(**{"epochs": 2, "batch_size": 8, "lr": 0.05, "device": "cpu", **changes})


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that was stopped after its first episode."""
    folder = tmp_path_factory.mktemp("begun")
    work = episodes(zoo(), TOYS, folder)
    next(work)
    work.close()
    return folder


def test_a_run_gives_results_after_every_episode_and_keeps_them(tmp_path):
    counts = []
    for results in episodes(zoo(), TOYS, tmp_path):
        counts.append(len(results.accuracy))
        assert Results.load(tmp_path) == results
    assert counts == [1, 2, 3]


def test_results_json_says_what_happened(tmp_path):
    learner = zoo(weigh=uniform, seed=4)
    run(learner, TOYS, tmp_path)
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["format"], written["method"], written["benchmark"]) == (1, "model-zoo", "toys")
    assert written["tasks"] == ["stripes", "dots", "rings"]
    assert written["settings"]["weigh"] == "uniform"
    assert written["settings"]["seed"] == 4
    assert written["settings"]["recipe"]["epochs"] == 2
    assert [len(row) for row in written["accuracy"]] == [1, 2, 3]
    assert written["episodes"][0]["tasks"] == ["stripes"]
    assert written["episodes"][0]["weights"] == {}
    assert written["episodes"][2]["weights"] == {"stripes": 0.5, "dots": 0.5}
    assert len(written["episodes"][2]["tasks"]) == 2
    assert all(set(episode["seconds"]) == {"train", "evaluate"} for episode in written["episodes"])
    assert written["summary"]["stored_samples"] == 84
    assert written["summary"]["num_parameters"] == learner.num_parameters
    assert set(written["environment"]) >= {"torch", "python", "threads", "cpu", "commit"}


def test_what_is_reported_is_test_accuracy():
    """A task whose test labels are turned round is answered wrongly as often as it was learned rightly."""
    task = pictures(per_class=20)
    turned = Task(task.name, task.train, Examples(task.test.x, 1 - task.test.y), task.classes)
    results = [run(learner_of(Isolated, recipe(epochs=5)), Benchmark("one", (one,))) for one in (task, turned)]
    assert results[0].accuracy[0][0] > 0.8
    assert results[1].accuracy[0][0] == pytest.approx(1 - results[0].accuracy[0][0])


def test_progress_tells_of_every_training_in_between():
    told = list(progress(learner_of(FineTune), TOYS))
    assert [type(event) for event in told] == [Progress, Progress, Results] * 3
    assert [event.what for event in told if isinstance(event, Progress)] == [
        name for name in ("stripes", "dots", "rings") for _ in range(2)
    ]


def test_the_same_command_goes_on_where_it_stopped(tmp_path):
    work = episodes(zoo(), TOYS, tmp_path)
    list(islice(work, 2))
    work.close()
    learner = zoo()
    told = [event for event in progress(learner, TOYS, tmp_path) if isinstance(event, Progress)]
    assert {event.what for event in told} == {"rings"}
    assert len(learner.members) == 3


@pytest.mark.parametrize(
    ("learner", "shown", "difference"),
    [
        (zoo(recipe(epochs=11)), TOYS, "epochs was 2, now 11"),
        (zoo(recipe(lr=0.5)), TOYS, r"lr was 0\.05, now 0\.5"),
        (zoo(seed=9), TOYS, "seed was 0, now 9"),
        (zoo(backbone=mlp), TOYS, "backbone was mlp-100, now mlp"),
        (zoo(weigh=uniform), TOYS, "weigh was boosted, now uniform"),
        (zoo(replay=0.5, tasks_per_episode=3), TOYS, r"replay was 1\.0, now 0\.5; tasks_per_episode was 2, now 3"),
        (learner_of(FineTune), TOYS, "method was model-zoo, now fine-tune"),
        (zoo(), TOYS[:2], r"benchmark\.first_tasks was not set, now 2"),
        (zoo(), TOYS.per_class(5), r"benchmark\.samples_per_class was not set, now 5"),
        (zoo(), Benchmark("games", TOYS.tasks), "benchmark was toys, now games"),
        (zoo(), Benchmark("toys", TOYS.tasks[::-1]), "tasks was"),
        (zoo(), benchmark(3, seed=1), "the data of the benchmark is not what the run began with"),
    ],
)
def test_another_command_is_refused_with_the_difference_and_nothing_is_overwritten(begun, learner, shown, difference):
    before = contents(begun)
    with pytest.raises(SettingsError, match=difference):
        run(learner, shown, begun)
    assert contents(begun) == before


def test_how_often_a_training_is_saved_is_no_setting_of_the_run(tmp_path):
    run(zoo(recipe(epochs=3)), TOYS, tmp_path / "plain")
    run(zoo(recipe(epochs=3)), TOYS, tmp_path / "saved", checkpoint_every=1)
    assert outcome(tmp_path / "plain") == outcome(tmp_path / "saved")
    with pytest.raises(SettingsError, match="checkpoint_every is 0"):
        run(zoo(), TOYS, tmp_path / "never", checkpoint_every=0)


def test_a_run_cut_in_the_middle_of_a_training_loses_one_epoch_at_most(tmp_path):
    settings = recipe(epochs=6)
    work = progress(zoo(settings), TOYS, tmp_path, checkpoint_every=2)
    for event in work:
        if isinstance(event, Progress) and (event.what, event.epoch) == ("dots", 4):
            break
    next(work)
    work.close()
    resumed = progress(zoo(settings), TOYS, tmp_path, checkpoint_every=2)
    assert isinstance(next(resumed), Results)
    assert next(resumed).epoch == 5
    list(resumed)
    run(zoo(settings), TOYS, tmp_path / "whole")
    cut, whole = outcome(tmp_path), outcome(tmp_path / "whole")
    assert {name: content for name, content in cut.items() if not name.startswith("whole/")} == whole


def test_a_learner_that_has_met_tasks_is_refused():
    learner = zoo()
    learner.learn(TOYS[0])
    with pytest.raises(SettingsError, match=r"has met 1 task\(s\) already"):
        run(learner, TOYS)


def test_divergence_keeps_the_episodes_before_it(tmp_path):
    def fragile(losses):
        raise Diverged("training on task 'dots' diverged")

    learner = zoo(weigh=fragile)
    with pytest.raises(Diverged):
        run(learner, TOYS, tmp_path)
    assert len(Results.load(tmp_path).accuracy) == 1
    assert (tmp_path / "members/0001.safetensors").exists()


def test_an_error_of_ones_own_method_is_recorded_until_the_run_goes_on(tmp_path):
    def fragile(losses):
        raise KeyError("dots")

    with pytest.raises(KeyError):
        run(zoo(weigh=fragile), TOYS, tmp_path)
    results = Results.load(tmp_path)
    assert (results.failed, results.diverged, len(results.accuracy)) == ("KeyError: 'dots'", "", 1)

    def fragile(losses):
        return uniform(losses)

    with pytest.raises(SettingsError, match="the source of weigh fragile was changed"):
        run(zoo(weigh=fragile), TOYS, tmp_path)
    *_, done = progress(zoo(weigh=fragile), TOYS, tmp_path, anyway=True)
    assert done.finished
    assert not Results.load(tmp_path).failed


def test_a_run_writes_nothing_unless_it_is_told_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(zoo(), TOYS).finished
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_ones_own_functions_goes_on(tmp_path):
    def lately(losses):
        return np.arange(1.0, len(losses) + 1)

    work = episodes(zoo(weigh=lately), TOYS, tmp_path)
    list(islice(work, 2))
    work.close()
    assert run(zoo(weigh=lately), TOYS, tmp_path).finished


def test_a_finished_run_keeps_the_record_of_what_it_ran_on(tmp_path, monkeypatch):
    first = run(zoo(), TOYS, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(import_module("zoolearn.runs.run"), "environment", lambda: {"torch": "from the future"})
    again = run(zoo(), TOYS, tmp_path)
    assert again.environment == first.environment
    assert contents(tmp_path) == before
