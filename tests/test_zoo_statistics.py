"""A zoo that keeps a share of its rows keeps statistics of all of them: a task grows by both, whatever is done to it since."""

from dataclasses import replace

import pytest
import torch

import zoolearn
from test_zoo_cli import said
from test_zoo_correct import MORE
from test_zoo_grow import EGRET, FIRST, KESTREL, OTHERS, WHOLE, garden, saved
from toys import TINY, contents, pictures
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError
from zoolearn.files import load_json, save_json
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.growth import Statistics, feature_statistics
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.fit import run_to_end
from zoolearn.zoo import Zoo
from zoolearn.zoo.distilling import iter_distil_zoo
from zoolearn.zoo.learning.statistics import find_statistics_member, read_statistics
from zoos import stray_files

pytestmark = pytest.mark.slow  # zoos are grown

HELD_OUT = replace(pictures("garden", seed=9, per_class=2), classes=FIRST.classes)


def known_of(zoo: Zoo) -> Statistics | None:
    return read_statistics(zoo.folder, zoo.index, lambda member: zoo.net(member.number), zoo.tasks["garden"])


def are_of(zoo: Zoo, task: Task) -> bool:
    """Whether the statistics of the garden are those of the rows of a task."""
    known, member = known_of(zoo), find_statistics_member(zoo.index, zoo.tasks["garden"])
    if known is None or member is None:
        return False
    wanted = feature_statistics(zoo.net(member.number), task, zoolearn.Recipe())
    return all(
        torch.allclose(getattr(known, part), getattr(wanted, part), rtol=1e-3, atol=1e-2) for part in vars(known)
    )


def test_a_task_grows_by_a_member_and_by_a_head_of_the_statistics_of_all_rows_as_a_learner_does(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5, balance=0.0)
    learner = ModelZoo(backbone=mlp_100, recipe=TINY, tasks_per_episode=3, replay=0.5, keep_statistics=True)
    for task in (OTHERS[0], FIRST, OTHERS[1], EGRET):
        learner.learn(task)
    zoo.learn(EGRET, new_classes=["egret"])
    head, trained = zoo.members[-2:]
    assert (head.number, head.refits, head.rows_trained, head.heads) == (4, 2, 0, ("garden",))
    assert (trained.number, trained.refits, head.episode, trained.episode) == (5, None, 4, 4)
    assert are_of(zoo, FIRST.join_part(EGRET))
    for entry, member in zip((head, trained), learner.members[-2:], strict=True):
        asked = zoo.net(entry.number), member.net
        first, second = (torch.softmax(net(WHOLE.test.x, "garden"), dim=1) for net in asked)
        assert torch.allclose(first, second, atol=1e-3)
    assert "member 4, a head on the features of member 2; member 5 from 3 tasks; " in zoo.index.log[-1].detail
    zoo.learn(KESTREL, new_classes=["kestrel"])
    assert [member.refits for member in zoo.members if member.refits] == [2, 2]
    assert are_of(zoo, FIRST.join_part(EGRET).join_part(KESTREL))
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_without_statistics_a_growth_is_one_member_and_a_zoo_of_all_rows_keeps_none(tmp_path):
    for settings in ({"replay": 0.5, "keep_statistics": False}, {}):
        zoo = garden(tmp_path / f"zoo{len(settings)}", **settings)
        zoo.learn(EGRET, new_classes=["egret"])
        assert (len(zoo.members), known_of(zoo)) == (4, None)


def test_a_zoo_told_to_keep_neither_rows_nor_statistics_keeps_none_and_refuses_a_growth(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.0, keep_statistics=False)
    assert not [name for name in contents(zoo.path) if "statistics" in name]
    with pytest.raises(DataError, match=r"neither rows nor statistics of task 'garden' are kept.*under another name"):
        zoo.learn(EGRET, new_classes=["egret"])
    zoo.learn(pictures("rings"))


def test_a_run_without_rows_becomes_a_zoo_that_keeps_statistics(tmp_path, capsys):
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "2", "--replay", "0"]
    said(capsys, "run", "model-zoo", *words, "--tasks-per-episode", "1", "--out", str(tmp_path / "run"))
    said(capsys, "new", str(tmp_path / "zoo"), "--adopt", str(tmp_path / "run"))
    zoo = zoolearn.open(tmp_path / "zoo")
    assert zoo.settings.keeps_statistics
    assert all(entry.statistics for entry in zoo.tasks.values())


def test_a_corrected_row_leaves_the_statistics_or_goes_to_another_class(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    kept = zoo.task("garden").train
    places = [int((FIRST.train.x == x).flatten(1).all(dim=1).nonzero()[0]) for x in kept.x[:2]]
    labels = FIRST.train.y.clone()
    labels[places[1]] = 1 - labels[places[1]]
    left = [row for row in range(len(labels)) if row != places[0]]
    zoo.correct("garden", {1: None, 2: FIRST.classes[int(labels[places[1]])]})
    assert are_of(zoo, replace(FIRST, train=Examples(FIRST.train.x[left], labels[left])))
    zoo.undo()
    assert are_of(zoo, FIRST)


def test_heads_alone_count_the_rows_that_come(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    more, test = saved(tmp_path, "more.npz", MORE), saved(tmp_path, "test.npz", HELD_OUT)
    zoo.learn_from("garden", more, test=test, heads_only=True)
    assert are_of(zoo, FIRST.join_part(MORE))
    zoo.learn(EGRET, new_classes=["egret"])
    assert are_of(zoo, FIRST.join_part(MORE).join_part(EGRET))


def test_features_that_a_forgotten_task_has_shaped_take_their_statistics_along(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    zoo.learn(EGRET, new_classes=["egret"])
    assert "stripes" in zoo.index.member(2).tasks
    before = {name for name in contents(zoo.path) if name.startswith("statistics/")}
    zoo.forget("stripes")
    after = {name for name in contents(zoo.path) if name.startswith("statistics/")}
    assert not before & after, "none is of features that it has shaped"
    assert are_of(zoo, zoo.task("garden")), "of the rows that are kept, as the member that was trained again sees them"
    assert stray_files(zoo) == set()
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    zoo.learn(KESTREL, new_classes=["kestrel"])
    assert (zoo.predict_proba(KESTREL.test.x, "garden").argmax(dim=1) == 3).float().mean() > 0.5


def test_a_purged_row_is_in_no_statistics_of_any_episode(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    zoo.learn(EGRET, new_classes=["egret"])
    before = {name for name in contents(zoo.path) if name.startswith("statistics/")}
    others = {f"statistics/{zoo.tasks[task.name].statistics}.safetensors" for task in OTHERS}
    egret = next(row for row in zoo.stored_rows("garden") if row.label == "egret")
    zoo.purge("garden", {egret.number: None})
    assert are_of(zoo, zoo.task("garden"))
    first = f"statistics/{zoo.tasks['garden'].arrivals[0].statistics}.safetensors"
    assert {name for name in contents(zoo.path) if name in before} == {*others, first}, "those before it came stay"
    zoo.undo()
    assert are_of(zoo, FIRST)


def test_where_the_member_that_saw_all_rows_was_pruned_statistics_begin_anew(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    zoo.learn(EGRET, new_classes=["egret"])
    with zoo.folder.begin_removal() as index:
        left = [
            member for member in index.members if member.number not in (2, 4)
        ]  # neither it nor the head on its features
        zoo.folder.commit(index.with_entries(members=left).with_log("committed pruning", "today"))
    zoo.refresh()
    assert known_of(zoo) is None
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    kept = zoo.task("garden")
    zoo.learn(KESTREL, new_classes=["kestrel"])
    assert zoo.members[-1].refits is None
    assert are_of(zoo, kept.join_part(KESTREL)), "of what is at hand, as the new member sees it"
    zoo.learn(MORE)
    assert zoo.members[-2].refits == zoo.members[-3].number
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_a_distilled_zoo_has_no_statistics_of_members_that_it_does_not_have(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5)
    small = run_to_end(iter_distil_zoo(zoo, tmp_path / "small", epochs=1))
    assert (run_to_end(small.verify()), known_of(small)) == ([], None)
    small.learn(EGRET, new_classes=["egret"])
    assert are_of(small, zoo.task("garden").join_part(EGRET))


def test_a_zoo_that_is_older_than_the_setting_begins_with_the_next_growth(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.5, keep_statistics=False)
    head = load_json(zoo.path / "zoo.json")
    for state in (head["chosen"], head["settings"]):
        del state["keep_statistics"]
    save_json(zoo.path / "zoo.json", head)
    zoo = zoolearn.open(zoo.path)
    kept = zoo.task("garden")
    zoo.learn(EGRET, new_classes=["egret"])
    assert len(zoo.members) == 4
    assert are_of(zoo, kept.join_part(EGRET))


def test_new_takes_both_words(tmp_path, capsys):
    for flags, keeps in (
        (["--replay", "0.1"], True),
        (["--replay", "0.1", "--no-keep-statistics"], False),
        ([], False),
    ):
        said(capsys, "new", str(tmp_path / f"zoo{len(flags)}"), *flags)
        assert zoolearn.open(tmp_path / f"zoo{len(flags)}").settings.keeps_statistics == keeps
