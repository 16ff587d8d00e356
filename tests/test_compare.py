"""A zoo beside other ways to learn its tasks: on its own rows, as long as it was trained, and told what differs."""

import csv
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from msgspec.structs import replace as changed

import zoolearn
from test_zoo_cli import said
from toys import pictures
from zoolearn.data.arrivals import part_by_class
from zoolearn.data.task import Task
from zoolearn.errors import DataError, SettingsError
from zoolearn.lab.beside import beside_figure, beside_table
from zoolearn.methods.registry import settings_of
from zoolearn.runs.results import Results
from zoolearn.runs.standing import Standing
from zoolearn.runs.store import load
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.learning.scores import Share
from zoolearn.zoo.rivals import (
    EACH_TIME,
    FINE_TUNED,
    ISOLATED,
    METHODS,
    ONCE,
    iter_compare,
    list_differences,
    mean_interval,
    rival_specs,
)
from zoos import HAZY, TASKS, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown


def run_of(out: Path, method: str) -> Path:
    (folder,) = out.glob(f"{method}-*")
    return folder


def test_all_that_cannot_be_told_from_the_best_is_marked_and_bars_are_intervals() -> None:
    standings = [
        Standing(name, accuracy, low, high, accuracy, 1.0, 10, 0.5, 0)
        for name, accuracy, low, high in (("best", 0.9, 0.8, 0.95), ("near", 0.8, 0.7, 0.92), ("far", 0.6, 0.5, 0.7))
    ]
    assert beside_table(standings).best == {(0, 1), (1, 1)}
    for panel in beside_figure(standings, "all").frames[""].panels:
        assert [series.spread for series in panel.series[:3]] == [[pytest.approx(half)] for half in (7.5, 11, 10)]


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return small_zoo(tmp_path / "zoo", HAZY[:3], tasks_per_episode=2)


def test_members_record_the_rows_that_they_were_shown(zoo):
    epochs = zoo.settings.recipe["epochs"]
    for member in zoo.members:
        assert member.rows_trained == epochs * sum(len(zoo.task(name).train) for name in member.tasks)


def test_rivals_are_shown_as_many_rows_as_the_zoo_with_its_net_its_recipe_and_its_seed(zoo):
    specs = rival_specs(zoo)
    shown = sum(member.rows_trained for member in zoo.members)
    at_hand = sum(len(task.train) for task in HAZY[:3])
    for spec in specs.values():
        learner = spec.learner()
        assert abs(learner.recipe.epochs * at_hand - shown) <= at_hand / 2
        assert settings_of(learner)["backbone"] == zoo.settings.backbone
        assert replace(learner.recipe, epochs=1) == zoolearn.Recipe(**{**zoo.settings.recipe, "epochs": 1})
        assert (spec.seed, [task.name for task in spec.whole()]) == (zoo.settings.seed, list(zoo.tasks))


def test_each_rival_is_what_a_run_of_it_on_these_tasks_is_and_the_zoo_what_it_measured(zoo, tmp_path):
    standings = {each.name: each for each in run_to_end(iter_compare(zoo, tmp_path / "out", epochs=3))}
    assert list(standings) == ["the zoo", FINE_TUNED, ISOLATED, ONCE, EACH_TIME]
    own = standings["the zoo"]
    assert own.accuracy == pytest.approx(sum(zoo.measure(name).accuracy for name in zoo.tasks) / 3)
    assert own.low < own.accuracy < own.high
    assert own.seconds == sum(member.seconds for member in zoo.members)
    recipe = zoolearn.Recipe(**{**zoo.settings.recipe, "epochs": 3})
    alone = zoolearn.run(
        zoolearn.Isolated(backbone=zoolearn.BACKBONES[zoo.settings.backbone], recipe=recipe),
        zoolearn.Benchmark("hazy", tuple(HAZY[:3])),
    )
    assert standings[ISOLATED].accuracy == pytest.approx(zoolearn.average_accuracy(alone.accuracy))
    assert standings[ISOLATED].megabytes == pytest.approx(4e-6 * alone.num_parameters)
    assert own.balanced == pytest.approx(sum(zoo.measure(name).balanced for name in zoo.tasks) / 3)
    sizes = [len(task.train) for task in HAZY[:3]]
    assert standings[ONCE].rows_trained == 3 * sum(sizes)
    assert standings[EACH_TIME].rows_trained == 3 * (3 * sizes[0] + 2 * sizes[1] + sizes[2])
    assert standings[EACH_TIME].accuracy == standings[ONCE].accuracy
    assert (standings[FINE_TUNED].rows_kept, standings[ONCE].rows_kept, own.rows_kept) == (0, sum(sizes), sum(sizes))


def test_a_rare_class_counts_as_much_as_a_frequent_one_in_the_balanced_accuracy_of_each(tmp_path):
    few = torch.cat([(HAZY[0].test.y == label).nonzero()[: 30 if label else 5, 0] for label in range(2)])
    zoo = small_zoo(tmp_path / "zoo", [replace(HAZY[0], test=HAZY[0].test.select(few)), HAZY[1]], tasks_per_episode=2)
    newcomer = replace(HAZY[2], name=HAZY[0].name, classes=(HAZY[0].classes[1], "newcomer"), part=True)
    zoo.learn(newcomer, new_classes=["newcomer"])
    none, one = torch.empty(0, dtype=torch.int64), torch.tensor([0])
    rows = HAZY[3].train.select(one), HAZY[3].test.select(none)
    zoo.learn(Task(HAZY[0].name, *rows, ("alone",), part=True), new_classes=["alone"])  # no row of it is held out
    standings = {each.name: each for each in run_to_end(iter_compare(zoo, tmp_path / "out", epochs=1))}
    for name, method in METHODS.items():
        learner, recalls, shares = load(run_of(tmp_path / "out", method)), [], []
        for task in zoo.tasks:
            test, classes = zoo.task(task).test, zoo.tasks[task].classes
            said = [learner.classes[task][place] for place in learner.predict_proba(test.x, task).argmax(dim=1)]
            right = torch.tensor([classes[label] == word for label, word in zip(test.y, said, strict=True)])
            shares.append(float(right.float().mean()))
            recalls.append([float(right[test.y == label].float().mean()) for label in test.y.unique()])
        assert standings[name].accuracy == pytest.approx(fmean(shares)), "it is the net that was measured"
        assert standings[name].balanced == pytest.approx(fmean(map(fmean, recalls)))
    assert any(abs(each.balanced - each.accuracy) > 0.01 for each in standings.values())


def test_the_mean_of_many_tasks_is_surer_than_each():
    alone, many = (mean_interval([Share(80, 100)] * count) for count in (1, 25))
    assert alone == pytest.approx((0.8, Share(80, 100).low, Share(80, 100).high))
    assert many[0] == pytest.approx(0.8)
    assert many[2] - many[1] == pytest.approx((alone[2] - alone[1]) / 5)


def test_the_command_writes_a_table_and_a_figure_and_trains_nothing_twice(zoo, capsys):
    told = said(capsys, "compare", "zoo", "--epochs", "1")
    for name in ("the zoo", FINE_TUNED, ISOLATED, ONCE, EACH_TIME):
        assert name.split(",")[0] in " ".join(told.split())
    assert "rivals train for 1 epochs" in " ".join(told.split())
    out = Path("runs/compare-zoo")
    points = list(csv.DictReader((out / "compared.csv").read_text().splitlines()))
    assert {point["panel"] for point in points} == {"training time", "rows trained", "size"}
    assert sum(point["series"] == "each, balanced" for point in points) == 3 * 5
    assert "balanced, %" in (out / "compared.md").read_text()
    assert (out / "compared.svg").read_text().startswith("<?xml")
    first = Results.load(run_of(out, "isolated")).episodes
    said(capsys, "compare", "zoo", "--epochs", "1")
    assert Results.load(run_of(out, "isolated")).episodes == first


def test_a_zoo_is_compared_again_after_a_lesson_an_undo_and_with_other_epochs(zoo, tmp_path):
    def rows_trained(epochs):
        standings = run_to_end(iter_compare(zoo, tmp_path / "out", epochs))
        return {each.name: each.rows_trained for each in standings}[ONCE]

    at_hand = sum(len(task.train) for task in HAZY[:3])
    assert rows_trained(1) == at_hand
    runs = {*(tmp_path / "out").iterdir()}
    zoo.learn(HAZY[3])
    assert rows_trained(1) == at_hand + len(HAZY[3].train)
    zoo.undo()
    assert rows_trained(2) == 2 * at_hand
    more = {*(tmp_path / "out").iterdir()}
    assert len(more) == 3 * len(runs) == 9
    assert rows_trained(1) == at_hand
    assert {*(tmp_path / "out").iterdir()} == more, "what was trained before is found again"


def test_costs_of_members_that_were_deleted_are_said_to_be_missing(zoo):
    said_so = "are of those that are left alone"
    assert said_so not in " ".join(list_differences(zoo))
    zoo.prune(loss=1.0)
    assert said_so not in " ".join(list_differences(zoo)), "it can be taken back, and all are there"
    assert zoo.commit_pruning() > 0
    assert said_so in " ".join(list_differences(zoo))
    zoo.learn(HAZY[3])
    assert said_so in " ".join(list_differences(zoo))


def test_a_zoo_of_one_task_that_grew_is_compared_too(tmp_path):
    first, later = part_by_class(pictures("garden", classes=3), [[0, 1], [2]])
    zoo = small_zoo(tmp_path / "zoo", [first])
    zoo.learn(later, new_classes=[*later.classes])
    standings = {each.name: each for each in run_to_end(iter_compare(zoo, tmp_path / "out", epochs=1))}
    sizes = len(first.train), len(later.train)
    assert standings[ISOLATED].rows_trained == 2 * sizes[0] + sizes[1], "again on all rows when the task grew"
    assert standings[FINE_TUNED].rows_trained == sum(sizes)


def test_what_cannot_be_compared_is_told(tmp_path):
    with pytest.raises(DataError, match="has had fewer than two lessons; a comparison is about what a later one does"):
        rival_specs(small_zoo(tmp_path / "one", TASKS[:1]))
    zoo = small_zoo(tmp_path / "two", TASKS[:2])
    zoo._index = zoo.index.with_entries(members=[changed(member, rows_trained=None) for member in zoo.members])
    with pytest.raises(SettingsError, match="say how long its rivals train: --epochs"):
        rival_specs(zoo)
