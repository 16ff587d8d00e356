"""What every learner promises, asked of every method by itself: a new line in METHODS is covered without a change here."""

from dataclasses import fields
from functools import cache
from typing import Literal, get_args, get_origin

import pytest

from toys import SUBJECTS, contents, learner_of
from zoolearn.data.stream import Benchmark
from zoolearn.errors import Diverged, SettingsError
from zoolearn.methods.learner import accuracy
from zoolearn.methods.registry import METHODS, learner_from, settings_of
from zoolearn.runs.run import run
from zoolearn.testing import CHECKS, TOYS, Subject, check_refusals, check_test_data
from zoolearn.training.recipe import Recipe

pytestmark = pytest.mark.slow  # every method is trained many times

OF_THE_BASE_CLASS = (check_refusals, check_test_data)
FEW = pytest.mark.parametrize("name", ["model-zoo", "multi-head", "progressive", "er"])  # each evaluates in its own way


@cache
def subject(name):
    """One for all checks: they share what it has learned."""
    return Subject(SUBJECTS[name])


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in OF_THE_BASE_CLASS])
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_method_keeps_the_contract(name, check):
    check(subject(name))


@pytest.mark.parametrize(("name", "lr"), [*((name, 1e25) for name in SUBJECTS), ("fromp", 1e12)])
def test_every_method_that_explodes_in_its_last_step_is_told_to_have_diverged(name, lr):
    once = Recipe(epochs=1, batch_size=1000, lr=lr, device="cpu", schedule="constant", momentum=0.0, nesterov=False)
    with pytest.raises(Diverged, match=r"diverged: .*; what was saved before is kept"):
        run(learner_of(SUBJECTS[name], once), TOYS)


@pytest.mark.parametrize("check", OF_THE_BASE_CLASS)
@FEW
def test_some_methods_keep_what_the_base_class_sees_to(name, check):
    check(subject(name))


def test_the_prediction_is_the_most_probable_class():
    learner, task = subject("model-zoo").learned, TOYS[1]
    assert learner.predict(task.test.x, task.name).equal(learner.predict_proba(task.test.x, task.name).argmax(dim=1))


@pytest.mark.parametrize("method", METHODS)
def test_a_word_that_is_no_choice_is_refused_with_the_choices(method):
    kind = METHODS[method]
    choices = {
        setting.name: get_args(setting.type)
        if get_origin(setting.type) is Literal
        else list(setting.metadata["choices"])
        for setting in fields(kind)
        if setting.init and (get_origin(setting.type) is Literal or "choices" in setting.metadata)
    }
    assert "backbone" in choices
    for setting, words in choices.items():
        with pytest.raises(SettingsError, match=f"unknown {setting} 'Nonesuch'") as refusal:
            learner_from(kind, {**settings_of(kind()), setting: "Nonesuch"})
        assert all(word in str(refusal.value) for word in words)


def test_a_setting_that_is_none_is_refused_and_not_dropped():
    kind = METHODS["er"]
    settings = settings_of(kind())
    learner_from(kind, {**settings, "benchmark": {}})  # as a run records it
    with pytest.raises(SettingsError, match=r"'sed'; did you mean 'seed'\?"):
        learner_from(kind, {**settings, "sed": 1})
    with pytest.raises(SettingsError, match=r"setting of Recipe 'epoch'; did you mean 'epochs'\?"):
        learner_from(kind, {**settings, "recipe": {"epoch": 1}})


@FEW
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


@FEW
def test_a_finished_run_answers_at_once_without_training(name, tmp_path, monkeypatch):
    first = run(learner_of(SUBJECTS[name]), TOYS[:2], tmp_path / "run")
    before = contents(tmp_path / "run")

    def refuse(self, task):
        raise AssertionError("trained again")
        yield

    monkeypatch.setattr(METHODS[name], "_train", refuse)
    monkeypatch.setattr(METHODS[name], "iter_finish", lambda self: refuse(self, None))
    again = run(learner_of(SUBJECTS[name]), TOYS[:2], tmp_path / "run")
    assert again == first
    assert contents(tmp_path / "run") == before


@FEW
def test_a_benchmark_of_one_task_is_enough(name):
    results = run(learner_of(SUBJECTS[name]), Benchmark("one", TOYS.tasks[:1]))
    assert results.finished
    assert results.accuracy[0][0] is not None
