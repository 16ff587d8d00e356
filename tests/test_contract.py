"""What every learner promises, asked of every method by itself: a new line in METHODS is covered without a change here."""

import random
from dataclasses import fields, replace
from functools import cache
from itertools import islice
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch

from toys import SUBJECTS, TINY, benchmark, blobs, contents, learner_of, outcome, pictures, show
from zoolearn.data.task import Benchmark, Examples, Task
from zoolearn.errors import DataError, SettingsError, UnknownTask
from zoolearn.methods.learner import accuracy
from zoolearn.methods.registry import learner_from
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, run
from zoolearn.runs.state import save
from zoolearn.runs.store import load
from zoolearn.training.fit import run_to_end
from zoolearn.training.recipe import Recipe

TOYS = benchmark(3, per_class=8, test_per_class=6)
LEARNING = Recipe(epochs=10, batch_size=8, lr=0.05, device="cpu", augment="no")

pytestmark = pytest.mark.parametrize("name", SUBJECTS)


def kind(name):
    """The class of a subject."""
    return type(SUBJECTS[name]())


@cache
def learned(name):
    """A learner that has met all toys; for looking at, not for changing."""
    return show(learner_of(SUBJECTS[name], LEARNING), TOYS)


def answers(learner, tasks=TOYS):
    return {task.name: learner.predict_proba(task.test.x, task.name) for task in tasks}


def equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[task], second[task]) for task in first)


def test_probabilities_are_probabilities(name):
    for task in TOYS:
        probabilities = learned(name).predict_proba(task.test.x, task.name)
        assert probabilities.shape == (len(task.test), len(task.classes))
        assert probabilities.dtype == torch.float32
        assert bool((probabilities >= 0).all())
        assert torch.allclose(probabilities.sum(dim=1), torch.ones(len(task.test)), atol=1e-5)


def test_the_newest_task_beats_chance(name):
    newest = TOYS[-1]
    right = accuracy(learned(name).predict_proba(newest.test.x, newest.name), newest.test.y)
    assert right > 0.5 * (1 + 1 / len(newest.classes))


def test_the_prediction_is_the_most_probable_class(name):
    task = TOYS[1]
    assert torch.equal(
        learned(name).predict(task.test.x, task.name), learned(name).predict_proba(task.test.x, task.name).argmax(dim=1)
    )


def test_asking_changes_nothing_and_an_answer_does_not_depend_on_the_rows_beside_it(name):
    learner, task = learned(name), TOYS[0]
    whole = learner.predict_proba(task.test.x, task.name)
    single = torch.cat([learner.predict_proba(row[None], task.name) for row in task.test.x[:4]])
    assert torch.allclose(single, whole[:4], atol=1e-5)
    assert torch.equal(learner.predict_proba(task.test.x, task.name), whole)
    assert learner.predict_proba(task.test.x[:0], task.name).shape == (0, len(task.classes))


def test_the_same_seed_gives_the_same_answers_and_another_seed_others(name):
    first, again, other = (answers(show(learner_of(SUBJECTS[name], seed=seed), TOYS)) for seed in (0, 0, 1))
    assert equal(first, again)
    assert not equal(first, other)


def test_learning_and_asking_leave_the_callers_randomness_and_data_alone(name):
    tasks = [pictures("stripes", augment=("crop",)), pictures("dots", 3)]
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    pixels = [(task.train.x.clone(), task.train.y.clone(), task.test.x.clone(), task.test.y.clone()) for task in tasks]
    learner = show(learner_of(SUBJECTS[name]), tasks)
    learner.evaluate(tasks)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]
    for task, copies in zip(tasks, pixels, strict=True):
        now = (task.train.x, task.train.y, task.test.x, task.test.y)
        assert all(torch.equal(*pair) for pair in zip(now, copies, strict=True))


def test_test_data_has_no_part_in_what_is_learned(name):
    tasks = TOYS[:2]
    others = [
        Task(task.name, task.train, Examples(255 - task.test.x[:6], (task.test.y[:6] + 1) % 2), task.classes)
        for task in tasks
    ]
    learners = [learner_of(SUBJECTS[name]), learner_of(SUBJECTS[name])]
    for learner, shown in zip(learners, (tasks, others), strict=True):
        for place, task in enumerate(shown):
            learner.learn(task)
            learner.evaluate(list(shown)[: place + 1])
        run_to_end(learner.iter_finish())
    assert equal(answers(learners[0], tasks), answers(learners[1], tasks))


def test_an_abandoned_episode_leaves_no_trace(name):
    first, second, third = TOYS
    whole = show(learner_of(SUBJECTS[name]), [first, second, third])
    rehearsal = learner_of(SUBJECTS[name])
    rehearsal.learn(first)
    steps = sum(1 for _ in rehearsal.iter_learn(second))
    for cut in {min(1, steps), steps}:
        learner = learner_of(SUBJECTS[name])
        learner.learn(first)
        work = learner.iter_learn(second)
        list(islice(work, cut))
        work.close()
        assert list(learner.classes) == [first.name]
        show(learner, [second, third])
        assert equal(answers(learner), answers(whole))


def test_float_features_are_learned_too(name):
    tasks = [blobs("near"), blobs("far", classes=3)]
    learner = show(learner_of(SUBJECTS[name], LEARNING), tasks)
    right = accuracy(learner.predict_proba(tasks[-1].test.x.double().numpy(), "far"), tasks[-1].test.y)
    assert right > 2 / 3
    with pytest.raises(DataError, match="NaN or infinite"):
        learner.predict_proba(torch.full((1, 6), float("nan")), "far")


def test_an_unknown_task_is_named_with_the_one_that_was_meant(name):
    with pytest.raises(UnknownTask, match="unknown task 'stripe'; did you mean 'stripes'"):
        learned(name).predict_proba(TOYS[0].test.x, "stripe")
    with pytest.raises(UnknownTask, match="unknown task 'stripes'; there is none"):
        learner_of(SUBJECTS[name]).predict_proba(TOYS[0].test.x, "stripes")


def test_a_task_learned_twice_or_of_another_shape_is_refused_and_nothing_is_lost(name):
    learner = show(learner_of(SUBJECTS[name]), TOYS[:2])
    before = answers(learner, TOYS[:2])
    with pytest.raises(DataError, match="task 'dots' was learned already"):
        learner.learn(TOYS[1])
    with pytest.raises(DataError, match=r"task 'wide' has inputs .*1x8x9.*this learner takes \(1, 8, 8\)"):
        learner.learn(pictures("wide", shape=(1, 8, 9)))
    with pytest.raises(DataError, match=r"task 'blobs' has inputs .*float32"):
        learner.learn(blobs())
    assert list(learner.classes) == ["stripes", "dots"]
    assert equal(answers(learner, TOYS[:2]), before)


@pytest.mark.parametrize(
    "x",
    [torch.zeros(2, 1, 8, 9, dtype=torch.uint8), torch.zeros(2, 1, 8, 8), torch.zeros(1, 8, 8, dtype=torch.uint8)],
    ids=["size", "dtype", "one image"],
)
def test_inputs_of_another_kind_are_refused_with_what_is_taken(name, x):
    with pytest.raises(DataError, match=r"this learner takes \(count, 1, 8, 8\) torch.uint8"):
        learned(name).predict_proba(x, "stripes")


def test_a_step_that_loss_scaling_skips_leaves_nothing_behind_that_is_not_finite(name, monkeypatch):
    def overflows_at_first(device, enabled):
        return torch.amp.GradScaler(device, init_scale=2.0**40, backoff_factor=2.0**-30)

    monkeypatch.setattr("zoolearn.training.fit.GradScaler", overflows_at_first)
    learner = learner_of(SUBJECTS[name], replace(LEARNING, epochs=1, lr=0.001, precision="float16"))
    for task in TOYS[:2]:
        learner.learn(task)
        for tensors in save(learner).files.values():
            assert all(bool(tensor.isfinite().all()) for tensor in tensors.values())


def test_settings_are_plain_data_that_give_the_learner_back(name):
    settings = learner_of(SUBJECTS[name], LEARNING, seed=3).settings()
    again = learner_from(kind(name), settings)
    assert again.settings() == settings
    assert (again.seed, again.recipe, settings["backbone"]) == (3, LEARNING, "mlp-100")


def test_a_word_that_is_no_choice_is_refused_with_the_choices(name):
    settings = learner_of(SUBJECTS[name]).settings()
    choices = {
        setting.name: get_args(setting.type)
        if get_origin(setting.type) is Literal
        else list(setting.metadata["choices"])
        for setting in fields(kind(name))
        if setting.init and (get_origin(setting.type) is Literal or "choices" in setting.metadata)
    }
    assert "backbone" in choices
    for setting, words in choices.items():
        with pytest.raises(SettingsError, match=f"unknown {setting} 'Nonesuch'") as refusal:
            learner_from(kind(name), {**settings, setting: "Nonesuch"})
        assert all(word in str(refusal.value) for word in words)


def test_a_setting_that_is_none_is_refused_and_not_dropped(name):
    settings = learner_of(SUBJECTS[name]).settings()
    learner_from(kind(name), {**settings, "benchmark": {}})  # as a run records it
    with pytest.raises(SettingsError, match=r"'sed'; did you mean 'seed'\?"):
        learner_from(kind(name), {**settings, "sed": 1})
    with pytest.raises(SettingsError, match=r"setting of Recipe 'epoch'; did you mean 'epochs'\?"):
        learner_from(kind(name), {**settings, "recipe": {"epoch": 1}})


def test_every_setting_says_what_it_is_for(name):
    silent = [field.name for field in fields(kind(name)) if field.init and not field.metadata.get("help")]
    assert silent == ["recipe"]


def test_what_is_kept_is_counted(name):
    learner = learned(name)
    assert isinstance(learner.stored_samples, int)
    assert 0 <= learner.stored_samples <= sum(len(task.train) for task in TOYS)
    assert isinstance(learner.num_parameters, int)
    assert learner.num_parameters > 0
    assert learner.episode == 3


def test_a_run_fills_the_lower_triangle_with_test_accuracies(name):
    learner = learner_of(SUBJECTS[name])
    results = run(learner, TOYS)
    assert results.finished
    assert [len(row) for row in results.accuracy] == [1, 2, 3]
    assert results.accuracy[-1] == [
        accuracy(learner.predict_proba(task.test.x, task.name), task.test.y) for task in TOYS
    ]
    assert [set(episode.tasks) <= set(results.tasks) for episode in results.episodes] == [True] * 3
    summary = results.summary()
    assert summary["average_accuracy"] == pytest.approx(sum(results.accuracy[-1]) / 3)
    assert summary["num_parameters"] == learner.num_parameters
    assert summary["ms_per_sample"] > 0


def test_a_run_cut_after_any_episode_and_continued_ends_the_same(name, tmp_path):
    def fresh():
        return learner_of(SUBJECTS[name])

    run(fresh(), TOYS, tmp_path / "whole")
    whole = outcome(tmp_path / "whole")
    for cut in (1, 2):
        folder = tmp_path / f"cut {cut}"
        work = episodes(fresh(), TOYS, folder)
        assert [len(results.accuracy) for results in islice(work, cut)] == list(range(1, cut + 1))
        work.close()
        learner = fresh()
        results = run(learner, TOYS, folder)
        assert outcome(folder) == whole
        assert Results.load(folder).accuracy == results.accuracy
        assert equal(answers(load(folder)), answers(learner))


def test_a_saved_learner_predicts_without_any_data(name, tmp_path):
    learner = learner_of(SUBJECTS[name])
    run(learner, TOYS, tmp_path / "run")
    before = contents(tmp_path / "run")
    again = load(tmp_path / "run")
    assert equal(answers(again), answers(learner))
    assert again.classes == learner.classes
    assert again.settings() == learner.settings()
    assert again.num_parameters == learner.num_parameters
    assert contents(tmp_path / "run") == before


def test_a_loaded_learner_learns_on_or_says_why_not(name, tmp_path):
    run(learner_of(SUBJECTS[name]), TOYS[:2], tmp_path / "run")
    again = load(tmp_path / "run")
    before = answers(again, TOYS[:2])
    try:
        show(again, TOYS[2:])
    except DataError as refusal:
        message = str(refusal)
    else:
        message = None
        assert equal(answers(again), answers(show(learner_of(SUBJECTS[name]), TOYS)))
    if message is not None:
        assert "is not at hand" in message
        assert "continue" in message
        assert equal(answers(again, TOYS[:2]), before)


def test_a_finished_run_answers_at_once_without_training(name, tmp_path, monkeypatch):
    first = run(learner_of(SUBJECTS[name]), TOYS[:2], tmp_path / "run")
    before = contents(tmp_path / "run")

    def refuse(self, task):
        raise AssertionError("trained again")
        yield

    monkeypatch.setattr(kind(name), "_train", refuse)
    monkeypatch.setattr(kind(name), "iter_finish", lambda self: refuse(self, None))
    again = run(learner_of(SUBJECTS[name]), TOYS[:2], tmp_path / "run")
    assert again == first
    assert contents(tmp_path / "run") == before


def test_a_benchmark_of_one_task_is_enough(name):
    results = run(learner_of(SUBJECTS[name], TINY), Benchmark("one", TOYS.tasks[:1]))
    assert results.finished
    assert results.accuracy[0][0] is not None
