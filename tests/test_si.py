"""SI: the path integral, the spring it gives, and where it is plain fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from by_hand import WHOLE, descended, gradient_on, much_closer, smooth, vague
from test_pergrad import with_idle
from toys import TINY, benchmark, blobs, show, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.si import Path, Si
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.recipe import Recipe


def si(**settings: Any) -> Si:
    return Si(**{"backbone": with_norm, "recipe": TINY, **settings})


def test_on_a_quadratic_each_share_is_that_weight_s_part_of_the_fall() -> None:
    curvature, start = torch.tensor([1.0, 4.0, 0.0]), torch.tensor([3.0, -1.0, 2.0])
    weights = start.clone()
    path = Path.begin(weights)
    for _ in range(5000):
        gradient = curvature * weights
        path.step(weights, gradient)
        weights = weights - 1e-3 * gradient
    path.step(weights, torch.zeros(3))
    fall = 0.5 * curvature * (start.square() - weights.square())
    assert torch.allclose(path.shares, fall, rtol=0.01)
    assert path.shares[2] == 0


def test_with_whole_batches_and_small_steps_the_shares_sum_to_the_fall_of_the_loss(monkeypatch: Any) -> None:
    task = blobs(classes=3, per_class=10)
    shares = []
    consolidated = Si.consolidate

    def noting(self: Si, found: Any, anchor: Any, way: Any) -> Any:
        shares.append(float(found.sum()))
        return consolidated(self, found, anchor, way)

    monkeypatch.setattr(Si, "consolidate", noting)
    recipe = Recipe(
        epochs=300,
        batch_size=30,
        lr=0.002,
        momentum=0.0,
        weight_decay=0.0,
        dropout=0.0,
        schedule="constant",
        device="cpu",
    )
    learner = si(backbone=mlp_100, recipe=recipe, shared_head=True)  # so that the head is counted too
    losses = []
    for event in learner.iter_learn(task):
        losses.append(event.loss)
    assert losses[0] - losses[-1] > 0.3
    assert shares[0] == pytest.approx(losses[0] - losses[-1], rel=0.01)


def test_a_share_is_the_gradient_before_a_step_times_the_way_that_the_optimiser_went() -> None:
    path = Path.begin(torch.tensor([1.0]))
    path.step(torch.tensor([1.0]), torch.tensor([2.0]))
    path.step(torch.tensor([0.25]), torch.tensor([7.0]))  # wherever the optimiser went, by -0.75
    assert float(path.shares) == 1.5


def second_task(**settings: Any) -> tuple[Si, Any, Any]:
    """A learner that has met a task, the net with which it begins the next, and that task."""
    first, second = vague("one"), vague("two", classes=3)
    learner = si(backbone=smooth, recipe=WHOLE, limited=False, **settings)
    learner.learn(first)
    return learner, learner.grow_net(second), second


def test_a_task_is_learned_against_the_strength_times_the_importance_times_the_squared_way() -> None:
    learner, start, task = second_task(strength=5.0)
    anchor, importance = Flat(start.backbone.parameters()).data(), learner.penalty.importance

    def wanted(strength: float) -> torch.Tensor:
        return descended(start, task, lambda weights: strength * (importance * (weights - anchor) ** 2).sum())

    learner.learn(task)
    found = Flat(learner.net.backbone.parameters()).data()
    assert much_closer(found, wanted(5.0), [wanted(strength) for strength in (0.0, 2.5, 10.0)])


def test_the_gradient_is_without_the_penalty_and_the_displacement_with_it() -> None:
    learner, net, task = second_task(strength=20.0)
    shared, head = Flat(net.backbone.parameters()), Flat(net.head(task.name).parameters())
    start, importance = shared.data(), learner.penalty.importance
    shares, with_penalty = torch.zeros_like(start), torch.zeros_like(start)
    for _ in range(WHOLE.epochs):
        gradient, of_head = (gradient_on(net, task, part) for part in (shared, head))
        pull = 2 * 20.0 * importance * (shared.data() - start)
        step = -WHOLE.lr * (gradient + pull)
        shares -= gradient * step
        with_penalty -= (gradient + pull) * step
        shared.write_data(shared.data() + step)
        head.write_data(head.data() - WHOLE.lr * of_head)
    way = shared.data() - start
    wanted, other = (torch.relu(importance + each / (way.square() + 1e-3)) for each in (shares, with_penalty))
    learner.learn(task)
    assert much_closer(learner.penalty.importance, wanted, [other])


def test_importance_is_never_negative_and_nothing_pulls_right_after_a_task() -> None:
    learner = si()
    for task in benchmark(3):
        learner.learn(task)
        weights = Flat(learner.shared_parameters(learner.net)).data()
        assert float(learner.penalty.importance.min()) >= 0
        assert float(learner.penalty.importance.max()) > 0
        assert torch.equal(learner.penalty.anchor, weights)
        assert torch.equal(learner.penalty.gradient(weights), torch.zeros_like(weights))


def test_the_running_sum_is_kept_at_zero_or_more() -> None:
    learner = si(damping=1.0)
    learner.penalty = learner.consolidate(torch.tensor([2.0, 1.0, -1.0]), torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]))
    assert learner.penalty.importance.tolist() == [1.0, 1.0, 0.0]
    again = learner.consolidate(torch.tensor([-0.5, -3.0, 2.0]), torch.zeros(3), torch.zeros(3))
    assert again.importance.tolist() == [0.5, 0.0, 2.0]


def test_a_weight_that_does_not_move_is_not_important() -> None:
    learner = show(si(backbone=with_idle, recipe=replace(TINY, weight_decay=0.1)), benchmark(2))
    names = [name for name, _ in learner.net.backbone.named_parameters()]
    assert names[0] == "idle"
    assert torch.equal(learner.penalty.importance[:3], torch.zeros(3))


def test_with_adam_a_share_counts_the_way_that_adam_went_and_the_spring_pulls_through_it() -> None:
    first, second = vague("one"), vague("two", classes=3)
    recipe = replace(WHOLE, optimizer="adam", lr=0.01)
    held, free = (
        show(si(backbone=smooth, recipe=recipe, limited=False, strength=c), [first, second]) for c in (1e4, 0.0)
    )
    anchor, start = (
        Flat(net.backbone.parameters()).data()
        for net in (show(si(backbone=smooth, recipe=recipe), [first]).net, si(backbone=smooth).new_net([first], 0))
    )
    assert (anchor - start).abs().max() == pytest.approx(
        3 * 0.01, rel=0.5
    )  # three steps of about the rate each, whatever the gradients
    far, near = ((Flat(learner.net.backbone.parameters()).data() - anchor).norm() for learner in (free, held))
    assert near < far


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"damping": 0.0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        si(**wrong)
