"""Stable-SGD: the rate's way through tasks, and what it is without it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from toys import TINY, benchmark, pictures, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.stable_sgd import StableSgd
from zoolearn.runs.state import save
from zoolearn.training.at_once import fit
from zoolearn.training.recipe import Recipe


def stable(**settings: Any) -> StableSgd:
    return StableSgd(**{"backbone": with_norm, "recipe": TINY, **settings})


def test_without_decay_one_epoch_is_fine_tuning_bit_for_bit() -> None:
    recipe = replace(TINY, epochs=1, dropout=0.2)
    plain = show(FineTune(backbone=with_norm, recipe=recipe), benchmark(3))
    assert same(state(show(stable(lr_decay=1.0, recipe=recipe), benchmark(3)).net), state(plain.net))


def test_the_rate_decays_from_the_first_task_on_and_stops_at_the_floor() -> None:
    learner = stable(lr_decay=0.5, lr_floor=0.01, recipe=Recipe(lr=0.1))
    rates = []
    for _ in range(5):
        rates.append(learner.lr)
        learner.episode += 1
    assert rates == pytest.approx([0.05, 0.025, 0.0125, 0.01, 0.01])


def test_a_task_is_trained_at_its_own_rate() -> None:
    first, second = benchmark(2)
    learner = stable(lr_decay=0.5, recipe=replace(TINY, epochs=1))
    learner.learn(first)
    net = learner.grow_net(second)
    fit(net, [second], replace(TINY, epochs=1, lr=0.25 * TINY.lr), seed=learner.episode_seed())
    learner.learn(second)
    assert same(state(learner.net), state(net))


def test_momentum_starts_anew_at_every_epoch() -> None:
    task = pictures()
    full_batch = replace(TINY, epochs=2, batch_size=len(task.train), momentum=0.9, nesterov=False, schedule="constant")
    kept = show(stable(lr_decay=1.0, recipe=full_batch), [task])
    plain = show(stable(lr_decay=1.0, recipe=replace(full_batch, momentum=0.0)), [task])
    for name, tensor in state(plain.net).items():
        torch.testing.assert_close(state(kept.net)[name], tensor, atol=1e-6, rtol=1e-5)


def test_nothing_but_heads_grows_with_the_tasks() -> None:
    learner = stable()
    sizes = []
    for task in benchmark(3):
        learner.learn(task)
        heads = sum(parameter.numel() for parameter in learner.net.heads.parameters())
        sizes.append((learner.num_parameters - heads, learner.stored_samples, len(save(learner).files)))
    assert len(set(sizes)) == 1
    assert sizes[0][1:] == (0, 1)


def test_heads_of_past_tasks_do_not_move() -> None:
    first, second = benchmark(2)
    learner = stable(recipe=replace(TINY, weight_decay=0.1))
    learner.learn(first)
    before = learner.net.head(first.name).weight.clone()
    learner.learn(second)
    assert torch.equal(learner.net.head(first.name).weight, before)


def test_units_are_not_dropped_when_answering() -> None:
    task = pictures()
    learner = show(stable(recipe=replace(TINY, dropout=0.5)), [task])
    assert torch.equal(learner.predict_proba(task.test.x, task.name), learner.predict_proba(task.test.x, task.name))


@pytest.mark.parametrize("wrong", [{"lr_decay": 0.0}, {"lr_decay": 1.1}, {"lr_floor": -1.0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        stable(**wrong)
