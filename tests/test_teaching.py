"""How an owned zoo is taught: each task on its own scale, as long as its rows need, judged by rows that nobody saw."""

import numpy as np
import pytest
import torch

import zoolearn
from toys import blobs, contents
from zoolearn import cli
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.nets.net import Net
from zoolearn.training.fit import Progress
from zoolearn.zoo import auto_epochs
from zoolearn.zoo.auto_epochs import EpisodePlan

pytestmark = pytest.mark.slow  # zoos are grown


def rescaled(task: Task, factor: float, shift: float) -> Task:
    """The same task in other units."""
    train, test = (Examples(factor * rows.x + shift, rows.y) for rows in (task.train, task.test))
    return Task(task.name, train, test, task.classes)


def test_each_episode_takes_as_many_epochs_as_its_own_rows_need(tmp_path, monkeypatch) -> None:
    """In whatever order a task of many rows and one of few come."""
    monkeypatch.setattr(auto_epochs, "STEPS", {"features": 120})
    few, many = blobs("few", per_class=8), blobs("many", per_class=80)  # 1 and 10 steps an epoch
    found = {}
    for order in ((few, many), (many, few)):
        zoo = zoolearn.new(tmp_path / order[0].name, tasks_per_episode=1)
        plans = [event for task in order for event in zoo.iter_learn(task) if isinstance(event, EpisodePlan)]
        found[order[0].name] = {plan.tasks[0]: plan.epochs for plan in plans}
    assert found == {"few": {"few": 50, "many": 12}, "many": {"many": 12, "few": 50}}


def test_replayed_rows_count_when_epochs_are_chosen(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(auto_epochs, "STEPS", {"features": 120})
    zoo = zoolearn.new(tmp_path / "zoo")
    zoo.learn(blobs("many", per_class=72))  # 9 steps an epoch
    plan = next(event for event in zoo.iter_learn(blobs("few", per_class=8)) if isinstance(event, EpisodePlan))
    assert (plan.tasks, plan.rows, plan.epochs) == (("few", "many"), 160, 12)


def test_the_plan_is_what_is_then_trained(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo")
    events = list(zoo.iter_learn(blobs(), epochs=4))
    assert isinstance(events[0], EpisodePlan)
    assert (events[0].epochs, events[-1].epochs) == (4, 4)
    assert zoo.members[0].epochs == 4
    assert zoolearn.open(zoo.path).settings.recipe["epochs"] is None, "of that episode alone"
    with pytest.raises(SettingsError, match="epochs is 0; give 1 or more"):
        zoo.learn(blobs("more"), epochs=0)


def test_a_dry_run_says_what_would_be_done_and_leaves_all_as_it_was(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = blobs(per_class=20)
    np.savez("rows.npz", x=task.train.x.numpy(), y=task.train.y.numpy())
    cli.main(["learn", "zoo", "garden", "rows.npz", "--epochs", "7", "--dry-run"])
    said = capsys.readouterr().out
    assert "training on garden: 7 epochs of 32 rows, about" in said
    assert not (tmp_path / "zoo").exists()
    zoolearn.new("zoo")
    before = contents(tmp_path / "zoo")
    cli.main(["learn", "zoo", "garden", "rows.npz", "--dry-run"])
    assert contents(tmp_path / "zoo") == before


def test_a_retrained_member_takes_the_epochs_that_were_asked_for(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
    zoo.learn(blobs("first"))
    zoo.learn(blobs("second"), epochs=3)
    seen = {event.epochs for event in zoo.iter_forget("first") if isinstance(event, Progress)}
    assert seen == {3}
    assert zoo.members[-1].epochs == 3


def test_settings_are_fields_of_the_zoo_or_its_recipe_and_functions_go_by_name(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", backbone="mlp", grow="warm-start", lr=0.5, replay=0.5)
    same = zoolearn.new(tmp_path / "same", backbone=zoolearn.mlp, grow=zoolearn.WarmStart(), lr=0.5, replay=0.5)
    assert zoo.settings == same.settings == zoolearn.open(zoo.path).settings
    with pytest.raises(SettingsError, match=r"unknown setting of a zoo 'epoch'; did you mean 'epochs'.*side.*weigh"):
        zoolearn.new(tmp_path / "other", epoch=3)
    with pytest.raises(SettingsError, match="unknown backbone 'mpl'"):
        zoolearn.new(tmp_path / "other", backbone="mpl")


def test_a_gpu_that_is_not_there_is_refused_when_a_zoo_is_made(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.training.recipe._sees_gpu", lambda: False)
    with pytest.raises(SettingsError, match="device is 'cuda' but torch sees no GPU"):
        zoolearn.new(tmp_path / "zoo", device="cuda")


def test_table_tasks_of_other_scales_leave_each_other_alone(tmp_path) -> None:
    """In whatever units the columns of one task are: its net and that of the task beside it learn the same."""
    first, second = blobs("first", per_class=40), blobs("second")
    found = []
    for factor, shift in ((1.0, 0.0), (1024.0, 4096.0)):
        zoo = zoolearn.new(tmp_path / str(factor), epochs=3)
        for task in (rescaled(first, factor, shift), second):
            zoo.learn(task)
        found.append(zoo.predict_proba(second.test.x, "second"))
        assert zoo.measure("first").accuracy == 1.0
    assert torch.allclose(found[0], found[1], atol=0.02)


def test_the_scale_of_a_tasks_columns_is_saved_with_the_net() -> None:
    task = rescaled(blobs(), 100.0, 7.0)
    net = zoolearn.ModelZoo(backbone=zoolearn.mlp).new_net([task], seed=0).freeze()
    again = Net.from_spec(net.spec())
    again.load_state_dict(net.state_dict())
    said = again.eval()(task.test.x, task.name)
    assert torch.equal(said, net(task.test.x, task.name))
    deviations = net.scale_features(task.train.x, task.name).std(dim=0, correction=0)
    assert torch.allclose(deviations, torch.ones(6), atol=1e-4)
