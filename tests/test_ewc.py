"""EWC: its penalty, its anchors, and where it is plain fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from by_hand import WHOLE, descended, much_closer, smooth, vague
from toys import TINY, benchmark, show, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.penalties import JOINS, QuadraticPenalty, separate
from zoolearn.methods.ewc import Ewc
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import FISHERS, batched
from zoolearn.seeds import global_seed


def ewc(**settings: Any) -> Ewc:
    return Ewc(**{"backbone": with_norm, "recipe": TINY, **settings})


@pytest.mark.parametrize("fisher", FISHERS.values(), ids=FISHERS.keys())
@pytest.mark.parametrize("anchors", JOINS.values(), ids=JOINS.keys())
def test_the_penalty_and_its_pull_are_zero_right_after_a_task(fisher: Any, anchors: Any) -> None:
    learner = ewc(fisher=fisher, anchors=anchors)
    tasks = benchmark(2)
    for number, task in enumerate(tasks):
        learner.learn(task)
        weights = Flat(learner.shared_parameters(learner.net)).data()
        assert float(learner.penalty.importance.min()) >= 0
        assert float(learner.penalty.importance.sum()) > 0
        if number == 0 or anchors is not separate:
            assert torch.equal(learner.penalty.anchor, weights)
            assert float(learner.penalty.value(weights)) == 0
            assert torch.equal(learner.penalty.gradient(weights), torch.zeros_like(weights))


def test_separate_anchors_are_the_sum_over_tasks() -> None:
    first, second = benchmark(2)
    learner = ewc(anchors=separate)
    learner.learn(first)
    one = learner.penalty
    learner.learn(second)
    flat = Flat(learner.shared_parameters(learner.net))
    examples = learner.draw_examples(second, learner.fisher_samples, "fisher")  # all of them, in another order
    two = QuadraticPenalty(
        flat.data(), learner.fisher(learner.net, second.name, flat, examples, 0, 20), torch.tensor(0.0)
    )
    weights = flat.data() + torch.linspace(-1, 1, len(flat))
    assert torch.allclose(learner.penalty.value(weights), one.value(weights) + two.value(weights), rtol=1e-4)


def test_for_two_quadratic_tasks_the_penalised_minimum_is_that_of_both_losses() -> None:
    rng = torch.Generator().manual_seed(0)
    first, second = (
        QuadraticPenalty(torch.randn(5, generator=rng), 0.1 + torch.rand(5, generator=rng), torch.tensor(0.0))
        for _ in range(2)
    )
    learner = ewc(strength=1.0, limited=False)
    learner.penalty = first  # the information of a quadratic loss is its curvature
    held = learner.scale_penalty(learner.strength, learner.limited)
    weights = first.anchor.clone()
    for _ in range(2000):
        weights -= 0.3 * (second.gradient(weights) + held.gradient(weights))
    both = (first.importance * first.anchor + second.importance * second.anchor) / (
        first.importance + second.importance
    )
    assert torch.allclose(weights, both, atol=1e-5)


def test_a_task_is_learned_against_half_the_strength_times_the_information_times_the_squared_way() -> None:
    first, second = vague("one"), vague("two", classes=3)
    learner = ewc(backbone=smooth, recipe=WHOLE, strength=20.0, limited=False)
    learner.learn(first)
    anchor = Flat(learner.net.backbone.parameters()).data()
    information = learner.penalty.importance
    start = learner.grow_net(second)

    def wanted(strength: float) -> torch.Tensor:
        return descended(start, second, lambda weights: strength / 2 * (information * (weights - anchor) ** 2).sum())

    learner.learn(second)
    found = Flat(learner.net.backbone.parameters()).data()
    assert much_closer(found, wanted(20.0), [wanted(strength) for strength in (0.0, 10.0, 40.0)])


def test_no_weight_is_held_firmer_than_one_over_the_rate() -> None:
    learner = ewc(recipe=replace(TINY, lr=0.5), strength=3.0)
    learner.penalty = QuadraticPenalty(torch.zeros(3), torch.tensor([0.1, 0.6, 9.0]), torch.tensor(0.0))
    held = learner.scale_penalty(learner.strength, learner.limited)
    assert torch.allclose(held.gradient(torch.ones(3)), torch.tensor([0.3, 1.8, 2.0]))


def test_anchors_and_importances_count_as_weights_and_no_sample_is_kept() -> None:
    learner = show(ewc(anchors=separate), benchmark(3))
    body = sum(parameter.numel() for parameter in learner.net.backbone.parameters())
    assert learner.num_parameters == learner.net.num_parameters + 2 * body
    assert learner.stored_samples == 0


def test_the_information_is_taken_from_the_chosen_samples_through_the_task_s_own_head() -> None:
    first, second = benchmark(2)
    learner = ewc(fisher=batched, fisher_samples=5, fisher_batch=5, strength=0.0)
    learner.learn(first)
    past = learner.penalty.importance
    examples = learner.draw_examples(second, learner.fisher_samples, "fisher")
    learner.learn(second)
    flat = Flat(learner.shared_parameters(learner.net))
    assert len(examples) == 5
    new = batched(learner.net, second.name, flat, examples, 0, 5)
    assert torch.allclose(learner.penalty.importance, past + new)


def test_the_information_of_tag_s_code_is_of_the_label_s_logit_and_of_an_untrained_head() -> None:
    task = vague("one")
    net = show(ewc(backbone=smooth, recipe=WHOLE, strength=0.0), [task]).net
    flat = Flat(net.backbone.parameters())
    found = FISHERS["tag"](net, "one", flat, task.train, 7, 20)
    with global_seed(7, torch.device("cpu")):
        untrained = torch.nn.Linear(5, 2)

    def squared(other: torch.nn.Module) -> torch.Tensor:
        features = net.embed(task.train.x)
        own = net.head("one")(features)[torch.arange(len(task.train)), task.train.y]
        return flat.gradient_of((other(features).exp().sum(dim=1).log() - own).mean()) ** 2

    assert much_closer(found, squared(untrained), [squared(net.head("one")), torch.zeros_like(found)])


def test_tag_s_code_counts_the_newest_task_t_parts_of_t_and_one() -> None:
    learner = ewc(fisher=batched, anchors=JOINS["tag"], fisher_samples=10, fisher_batch=10)
    wanted: Any = 0.0
    for t, task in enumerate(benchmark(3), start=1):
        examples = learner.draw_examples(task, learner.fisher_samples, "fisher")
        learner.learn(task)
        new = batched(learner.net, task.name, Flat(learner.shared_parameters(learner.net)), examples, 0, 10)
        wanted = (wanted + t * new) / (t + 1)
        assert torch.allclose(learner.penalty.importance, wanted)


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"fisher_samples": 0}, {"fisher_batch": 0}, {"decay": 2.0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        ewc(**wrong)
