"""LwF: what past heads say of new inputs is held, and with no weight on it there is nothing but fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from toys import TINY, benchmark, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.lwf import Lwf
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.at_once import fit


def lwf(**settings: Any) -> Lwf:
    return Lwf(**{"backbone": mlp_100, "recipe": TINY, **settings})


def test_without_strength_it_is_fine_tuning_bit_for_bit() -> None:
    recipe = replace(TINY, weight_decay=0.1, dropout=0.3)
    plain = show(FineTune(backbone=with_norm, recipe=recipe), benchmark(3))
    assert same(state(show(lwf(strength=0.0, backbone=with_norm, recipe=recipe), benchmark(3)).net), state(plain.net))


def test_the_loss_is_the_papers_by_hand_summed_over_past_tasks() -> None:
    tasks = benchmark(3)
    recipe = replace(TINY, epochs=4, batch_size=200, augment="no", momentum=0.0, weight_decay=0.0, dropout=0.0)
    learner = show(lwf(strength=3.0, temperature=2.0, recipe=recipe), tasks[:2])
    old, net, task = learner.net, learner.grow_net(tasks[2]), tasks[2]

    def by_hand(net, batch):
        value = F.cross_entropy(net(batch.x, task.name), batch.y)
        for past in tasks[:2]:
            told = torch.softmax(old(batch.x, past.name).detach() / 2, dim=1)
            value = value - 3.0 * (told * torch.log_softmax(net(batch.x, past.name) / 2, dim=1)).sum(dim=1).mean()
        return value

    fit(net, [task], recipe, seed=learner.episode_seed(), loss=by_hand, heads=net.tasks)
    learner.learn(task)
    for name, tensor in state(net).items():
        torch.testing.assert_close(state(learner.net)[name], tensor, atol=1e-6, rtol=1e-5)


def test_old_answers_to_new_inputs_move_less_the_more_they_are_held() -> None:
    first, second = benchmark(2)

    def drift(strength: float) -> float:
        learner = lwf(strength=strength, recipe=replace(TINY, epochs=8))
        learner.learn(first)
        before = learner.predict_proba(second.test.x, first.name)
        learner.learn(second)
        return float((learner.predict_proba(second.test.x, first.name) - before).abs().mean())

    assert drift(10.0) < 0.5 * drift(0.0)


def test_nothing_is_stored_and_the_old_net_is_not_kept() -> None:
    learner = show(lwf(), benchmark(2))
    assert learner.stored_samples == 0
    assert learner.num_parameters == learner.net.num_parameters


def test_one_shared_head_is_held_to_what_it_said() -> None:
    tasks = [replace(task, name=name) for name, task in zip("ab", benchmark(1).tasks * 2, strict=True)]
    held, free = (show(lwf(shared_head=True, strength=strength), tasks) for strength in (50.0, 0.0))
    assert len(held.net.heads) == 1
    assert not same(state(held.net), state(free.net))


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"temperature": 0.0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        lwf(**wrong)
