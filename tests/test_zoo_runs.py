"""A zoo folder's tasks are shown to any method, as a benchmark that is named by its path."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zoolearn
from test_zoo_cli import said
from toys import pictures
from zoolearn.data.arrivals import join_parts
from zoolearn.data.fingerprint import fingerprint
from zoolearn.runs.results import Results
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.as_benchmark import StoredTasks
from zoolearn.zoo.rivals import iter_compare
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown

FLAGS = ("--epochs", "2", "--backbone", "mlp", "--on", "here")


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    return small_zoo(tmp_path_factory.mktemp("grown") / "birds", [TASKS[2], TASKS[0]]).path


@pytest.fixture
def birds(grown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(grown, tmp_path / "birds")


def test_the_tasks_of_a_zoo_are_met_in_its_own_order_with_the_rows_that_it_stores(birds):
    tasks = StoredTasks.at("birds").benchmark()
    assert tasks.name == "zoo-birds"
    assert fingerprint(tasks) == fingerprint(zoolearn.Benchmark("any", (TASKS[2], TASKS[0])))


def test_any_method_runs_on_a_zoo_folder_as_on_a_benchmark_of_these_tasks(birds, capsys):
    said(capsys, "run", "ewc", "birds", *FLAGS)
    told = Results.load("runs/ewc-zoo-birds-seed0")
    recipe = zoolearn.Recipe(epochs=2)
    same = zoolearn.run(
        zoolearn.METHODS["ewc"](backbone=zoolearn.mlp, recipe=recipe),
        zoolearn.Benchmark("zoo-birds", (TASKS[2], TASKS[0])),
    )
    assert (told.accuracy, told.tasks) == (same.accuracy, same.tasks)
    assert told.spec.identity == same.spec.identity
    assert "is finished; nothing to train" in said(capsys, "run", "ewc", "birds", *FLAGS)


def test_a_run_does_not_go_on_with_a_zoo_that_has_learned_since_or_has_other_rows(birds, capsys):
    said(capsys, "run", "isolated", "birds", *FLAGS)
    zoolearn.open("birds").learn(TASKS[1])
    assert "now ['rings', 'stripes', 'dots']" in said(capsys, "run", "isolated", "birds", *FLAGS, code=1)
    shutil.rmtree("birds")
    small_zoo(birds, [pictures(task.name, len(task.classes), seed=1) for task in (TASKS[2], TASKS[0])])
    assert "the data of the benchmark is not what" in said(capsys, "run", "isolated", "birds", *FLAGS, code=1)


def test_a_task_that_grew_comes_in_the_parts_that_it_came_in(birds, capsys):
    zoo = zoolearn.open("birds")
    first = TASKS[0]
    more = pictures("stripes", 3, per_class=4, seed=5)
    zoo.learn(replace(more, classes=(*first.classes, "new")), new_classes=["new"])
    tasks = StoredTasks.at("birds").benchmark()
    assert [(task.name, task.part, task.classes[-1]) for task in tasks] == [
        ("rings", False, "rings 1"),
        ("stripes", False, "stripes 1"),
        ("stripes", True, "new"),
    ]
    stripes, whole = join_parts(tasks)["stripes"], zoo.task("stripes")
    assert stripes.classes == whole.classes
    assert torch.equal(stripes.train.x, whole.train.x)
    assert torch.equal(stripes.train.y, whole.train.y)
    assert torch.equal(stripes.test.y, whole.test.y)
    said(capsys, "run", "isolated", "birds", *FLAGS, "--replay", "1")
    assert len(Results.load("runs/isolated-zoo-birds-seed0").episodes) == 3
    standings = run_to_end(iter_compare(zoo, Path("compared"), epochs=1))
    sizes = [len(task.train) for task in tasks]
    assert standings[-1].rows_trained == 3 * sizes[0] + 2 * sizes[1] + sizes[2]
    assert standings[0].accuracy == pytest.approx((zoo.measure("rings").accuracy + zoo.measure("stripes").accuracy) / 2)


def test_what_a_zoo_cannot_show_is_told(birds, capsys):
    assert "classes_per_task is no option" in said(
        capsys, "run", "er", "birds", *FLAGS, "--classes-per-task", "5", code=1
    )
    zoolearn.new("empty")
    assert "has learned nothing yet" in said(capsys, "run", "er", "empty", *FLAGS, code=1)
    small_zoo("bare", TASKS[:1], replay=0.0)
    assert "no rows to train on are kept of task 'stripes'" in said(capsys, "run", "er", "bare", *FLAGS, code=1)
    assert "unknown benchmark 'nothing'" in said(capsys, "run", "er", "nothing", *FLAGS, code=1)
