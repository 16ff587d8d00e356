"""ER: the mixed loss, the memory on its way through tasks, and where it is plain fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from toys import TINY, benchmark, net_for, pictures, row_set, same, show, state, with_norm
from zoolearn.beyond.linear_head import fit_head, refit_heads
from zoolearn.data.arrivals import part_by_class
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.er import Er
from zoolearn.methods.learner import accuracy
from zoolearn.methods.parts.reservoir import Reservoir
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.batches import Batch
from zoolearn.training.predict import compute_features


def er(**settings: Any) -> Er:
    return Er(**{"backbone": with_norm, "recipe": TINY, **settings})


def rehearsing(**settings: Any) -> tuple[Er, Net, Batch]:
    """A learner in its second episode with a memory of four rows of the first task, and a batch of the second."""
    old, new = benchmark(2)
    learner = er(memory_size=4, **settings)
    learner.memory.offer(old.train.x[:4], old.train.y[:4], task=0, seed=0)
    learner.classes[old.name], learner.episode = old.classes, 1
    batch = Batch(new.train.x[:6], new.train.y[:6], torch.zeros(6, dtype=torch.int64), (new.name,))
    return learner, net_for([old, new], mlp_100).eval(), batch


def losses_apart(net: Net, batch: Batch, memory: Reservoir) -> tuple[torch.Tensor, torch.Tensor]:
    new = F.cross_entropy(net(batch.x, batch.tasks[0]), batch.y, reduction="none")
    return new, F.cross_entropy(net(memory.columns["x"], "stripes"), memory.columns["y"], reduction="none")


def test_the_pooled_loss_is_the_mean_over_rows_each_through_its_own_head() -> None:
    learner, net, batch = rehearsing()
    new, old = losses_apart(net, batch, learner.memory)
    assert torch.allclose(learner.rehearse(net, batch), torch.cat([new, old]).mean(), rtol=1e-5)


def test_the_added_loss_is_the_sum_of_two_means() -> None:
    learner, net, batch = rehearsing(memory_loss="added")
    new, old = losses_apart(net, batch, learner.memory)
    assert torch.allclose(learner.rehearse(net, batch), new.mean() + old.mean(), rtol=1e-5)


def test_without_memory_it_is_fine_tuning_bit_for_bit() -> None:
    recipe = replace(TINY, weight_decay=0.1, dropout=0.3)
    plain = show(FineTune(backbone=with_norm, recipe=recipe), benchmark(3))
    replaying = show(er(memory_size=0, recipe=recipe), benchmark(3))
    assert same(state(replaying.net), state(plain.net))
    assert replaying.stored_samples == 0


def test_the_memory_holds_rows_of_all_tasks_and_no_example_twice() -> None:
    tasks = benchmark(3)
    learner = show(er(memory_size=30), tasks)
    memory = learner.memory
    assert memory.seen == sum(len(task.train) for task in tasks)
    assert learner.stored_samples == 30
    assert len(row_set(memory.columns["x"])) == 30
    for number, task in enumerate(tasks):
        held = memory.columns["x"][memory.columns["task"] == number]
        assert len(held) > 0
        assert row_set(held) <= row_set(task.train.x)


def test_past_tasks_suffer_less_than_without_replay() -> None:
    tasks = [pictures(f"task {number}", per_class=30) for number in range(5)]
    recipe = replace(TINY, epochs=4, lr=0.2)
    plain = show(FineTune(backbone=with_norm, recipe=recipe, shared_head=True), tasks).evaluate(tasks[:-1])
    replaying = show(er(recipe=recipe, memory_size=60, shared_head=True), tasks).evaluate(tasks[:-1])
    assert sum(replaying.values()) > sum(plain.values()) + 0.4


def test_heads_of_past_tasks_move_where_replay_begins_and_not_before() -> None:
    first, second = benchmark(2)
    for replay_from, moves in ((1, True), (2, True), (3, False)):
        learner = er(replay_from=replay_from, recipe=replace(TINY, weight_decay=0.1))
        learner.learn(first)
        before = learner.net.head(first.name).weight.clone()
        learner.learn(second)
        assert torch.equal(learner.net.head(first.name).weight, before) is not moves


def test_the_first_task_is_plain_when_replay_begins_with_the_second() -> None:
    first = benchmark(1)
    plain = show(FineTune(backbone=with_norm, recipe=TINY), first)
    later = show(er(replay_from=2), first)
    assert same(state(later.net), state(plain.net))
    assert later.stored_samples == len(first[0].train)


def test_tasks_that_share_a_head_are_replayed_through_it() -> None:
    tasks = [pictures(name) for name in ("one", "two", "three")]
    learner = show(er(shared_head=True, memory_size=20), tasks)
    assert len(learner.net.heads) == 1
    assert all(value > 0.8 for value in learner.evaluate(tasks).values())


def test_a_failed_episode_leaves_the_memory_as_it_was() -> None:
    first, second = benchmark(2)
    learner = er(memory_size=10)
    learner.learn(first)
    before = learner.memory.copy()
    training = learner.iter_learn(second)
    next(training)
    training.close()
    assert (learner.memory.seen, learner.memory.draws) == (before.seen, before.draws)
    assert same(learner.memory.columns, before.columns)


@pytest.mark.parametrize("wrong", [{"memory_size": -1}, {"memory_batch": -1}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"memory"):
        er(**wrong)


@pytest.mark.parametrize("settings", [{"memory_size": 1}, {"memory_batch": 1}])
def test_one_replayed_row_apart_from_the_new_ones_is_refused_for_batch_norm_only(settings: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="the size of a memory batch is 1 but the net has batch-norm"):
        show(er(memory_loss="added", **settings), benchmark(1))
    show(er(memory_loss="pooled", **settings), benchmark(2))
    show(er(memory_loss="added", backbone=mlp_100, **settings), benchmark(2))


@pytest.mark.parametrize("shared", [False, True])
def test_heads_may_be_fitted_to_stored_rows_after_each_task_and_training_stays_as_it_was(shared):
    tasks = benchmark(5).tasks[::2] if shared else benchmark(2).tasks
    plain, refitted = (
        show(er(memory_size=12, shared_head=shared, **heads), tasks[:1]) for heads in ({}, {"heads": refit_heads})
    )
    backbones = [learner.net.backbone.state_dict() for learner in (plain, refitted)]
    assert all(torch.equal(backbones[0][name], tensor) for name, tensor in backbones[1].items())
    stored = refitted.stored_examples(refitted.net)[tasks[0].name]
    assert len(stored) == 12
    rows = stored if shared else tasks[0].train
    fitted = fit_head(compute_features(refitted.net, rows.x, refitted.recipe), rows.y, 2)
    assert torch.equal(refitted.net.head(tasks[0].name).weight, fitted.weight)
    refitted.learn(tasks[1])
    by_task = refitted.stored_examples(refitted.net)
    assert sum(map(len, by_task.values())) == 12
    assert not shared or [*by_task] == [tasks[0].name]
    past = next(iter(by_task.values()))
    fitted = fit_head(compute_features(refitted.net, past.x, refitted.recipe), past.y, 2)
    assert torch.equal(refitted.net.head(tasks[0].name).weight, fitted.weight)


def test_a_head_that_is_fitted_once_its_task_grew_still_tells_the_classes_that_came_first():
    whole = pictures("grows", classes=3)
    learner = show(er(memory_size=24, heads=refit_heads), part_by_class(whole, [[0, 1], [2]]))
    assert accuracy(learner.test_answers(whole), whole.test.y) > 0.9
