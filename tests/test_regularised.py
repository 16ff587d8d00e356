"""What EWC and SI have in common: penalties that hold the weights that mattered, and where they are plain fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from toys import TINY, benchmark, blobs, pictures, same, show, state, with_norm
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.ewc import Ewc
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.si import Si
from zoolearn.nets.perceptrons import mlp_100

pytestmark = pytest.mark.parametrize("method", [Ewc, Si])
STRONG = {Ewc: 1e4, Si: 100.0}


def learner_by(method: Any, **settings: Any) -> Any:
    return method(**{"backbone": with_norm, "recipe": TINY, **settings})


def test_without_strength_it_is_fine_tuning_bit_for_bit(method: Any) -> None:
    recipe = replace(TINY, weight_decay=0.1, dropout=0.3)
    plain = show(FineTune(backbone=with_norm, recipe=recipe), benchmark(3))
    ours = show(learner_by(method, strength=0.0, recipe=recipe), benchmark(3))
    assert same(state(ours.net), state(plain.net))


def test_weights_that_matter_move_less(method: Any) -> None:
    first, second = blobs("one"), blobs("two")
    recipe = replace(TINY, epochs=4, weight_decay=0.0)
    moved = []
    for strength in (0.0, STRONG[method]):
        learner = learner_by(method, backbone=mlp_100, recipe=recipe, strength=strength)
        learner.learn(first)
        penalty = learner.penalty
        learner.learn(second)
        moved.append(float(penalty.value(Flat(learner.shared_parameters(learner.net)).data())))
    assert moved[1] < 0.2 * moved[0]


def test_a_limited_penalty_does_not_diverge_however_strong(method: Any) -> None:
    learner = show(learner_by(method, strength=1e12), benchmark(3))
    assert all(torch.isfinite(parameter).all() for parameter in learner.net.parameters())


def test_heads_of_past_tasks_do_not_move_and_are_not_held(method: Any) -> None:
    first, second = benchmark(2)
    learner = learner_by(method, recipe=replace(TINY, weight_decay=0.1))
    learner.learn(first)
    before = learner.net.head(first.name).weight.clone()
    learner.learn(second)
    assert torch.equal(learner.net.head(first.name).weight, before)
    assert learner.penalty.anchor.numel() == sum(parameter.numel() for parameter in learner.net.backbone.parameters())


def test_a_shared_head_is_held_with_the_rest(method: Any) -> None:
    learner = show(learner_by(method, shared_head=True), [pictures("one"), pictures("two")])
    assert learner.penalty.anchor.numel() == learner.net.num_parameters


def test_anchors_and_importances_count_as_weights_and_no_sample_is_kept(method: Any) -> None:
    learner = show(learner_by(method), benchmark(3))
    body = sum(parameter.numel() for parameter in learner.net.backbone.parameters())
    assert (learner.num_parameters, learner.stored_samples) == (learner.net.num_parameters + 2 * body, 0)
