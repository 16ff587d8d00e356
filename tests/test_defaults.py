"""A method by its defaults: it brings the recipe that its steps want, and is not behind plain fine-tuning."""

from dataclasses import replace
from functools import cache

import pytest

from zoolearn.cli import main
from zoolearn.cli.form import RunOptions, read_form, specs_of
from zoolearn.methods.registry import METHODS, default_recipe
from zoolearn.methods.tag import Tag
from zoolearn.runs.results import Results
from zoolearn.runs.run import run
from zoolearn.runs.spec import RunSpec
from zoolearn.training.recipe import Recipe

NOISE = 0.03  # 328 test rows, one seed: fine-tuning itself has 91.8 to 94.2 % with eight seeds


@cache
def accuracy(method):
    """Of three tasks of two digits, with a small net and few passes: fine-tuning is right in 93 of 100."""
    spec = RunSpec(method, "split-digits", {"backbone": "mlp-100", "epochs": 5}, {"first_tasks": 3})
    return run(spec.learner(), spec.tasks()).summary()["average_accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_behind_fine_tuning_by_its_defaults(method):
    assert 0.9 < accuracy("fine-tune") < 0.96
    assert accuracy(method) > accuracy("fine-tune") - NOISE


def test_a_method_brings_its_own_recipe_and_what_is_given_goes_before_it():
    own = default_recipe(Tag)
    assert own != Recipe()
    assert Tag().recipe == own
    assert RunSpec("tag", "split-digits", {"epochs": 5}).learner().recipe == replace(own, epochs=5)
    assert RunSpec("tag", "split-digits", {"lr": 0.01}).learner().recipe == replace(own, lr=0.01)
    assert RunSpec("er", "split-digits", {"epochs": 5}).learner().recipe == Recipe(epochs=5)


def test_flags_are_the_methods_own_also_beside_others():
    (alone,) = specs_of(
        "tag", read_form(["tag"], ["split-digits", "--epochs", "5"], "zoo run tag", RunOptions)
    ).values()
    assert alone.learner().recipe == replace(default_recipe(Tag), epochs=5)
    words = ["split-digits", "--epochs=5", "--no-nesterov", "--momentum", "0.9"]
    form = read_form(["tag", "er"], words, "zoo run tag,er", RunOptions)
    tag, er = (next(iter(specs_of(name, form).values())).learner().recipe for name in ("tag", "er"))
    assert tag == replace(default_recipe(Tag), epochs=5, nesterov=False, momentum=0.9)
    assert er == Recipe(epochs=5, nesterov=False)


def test_a_record_says_what_was_run_whatever_the_defaults_are_now(tmp_path):
    """Records leave out settings that came later and are as usual: there that is SGD, also of a method whose default is Adam."""
    words = ["--epochs", "1", "--backbone", "mlp-100", "--first-tasks", "1", "--samples-per-class", "5"]
    main(["run", "fromp", "split-digits", *words, "--optimizer", "sgd", "--lr", "0.01", "--out", str(tmp_path / "run")])
    results = Results.load(tmp_path / "run")
    assert "optimizer" not in results.settings["recipe"]
    assert results.spec.learner().recipe.optimizer == "sgd"
    assert "--optimizer sgd" in results.spec.command
    assert "--lr 0.01" in results.spec.command
    assert default_recipe(METHODS["fromp"]).optimizer == "adam"
