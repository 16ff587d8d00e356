"""MEGA-II: the gradient turns by the best angle between two losses, and keeps its length."""

import math

import pytest
import torch

from toys import benchmark, learner_of, same, show, state
from zoolearn.methods import mega_ii
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.mega_ii import MegaII, best_angle, mix

TASKS = benchmark(3).tasks


def triples(count=300):
    """An angle between two gradients and their two losses."""
    rng = torch.Generator().manual_seed(0)
    return [(math.pi * a, 4 * b, 4 * c) for a, b, c in torch.rand(count, 3, generator=rng).tolist()]


def objective(angle, between, loss, reference_loss):
    return loss * math.cos(angle) + reference_loss * math.cos(between - angle)


def angle_of(first, second):
    first, second = first.double(), second.double()
    return float(
        2
        * torch.atan2(
            (first / first.norm() - second / second.norm()).norm(),
            (first / first.norm() + second / second.norm()).norm(),
        )
    )


def searched(between, loss, reference_loss):
    """Gradient ascent on the objective from both ends and the middle, kept within 0 and pi/2."""
    ends = []
    for start in (0.0, math.pi / 4, math.pi / 2):
        angle = start
        for _ in range(500):
            slope = -loss * math.sin(angle) + reference_loss * math.sin(between - angle)
            angle = min(max(angle + slope / (loss + reference_loss), 0.0), math.pi / 2)
        ends.append(angle)
    return max(ends, key=lambda angle: objective(angle, between, loss, reference_loss))


def test_no_search_and_no_grid_beats_the_closed_form():
    for between, loss, reference_loss in triples():
        best = objective(best_angle(between, loss, reference_loss), between, loss, reference_loss)
        grid = max(objective(place * math.pi / 2000, between, loss, reference_loss) for place in range(1001))
        found = objective(searched(between, loss, reference_loss), between, loss, reference_loss)
        assert best >= max(grid, found) - 1e-9
        assert best == pytest.approx(found, abs=1e-4)


def test_the_gradient_keeps_its_length_and_turns_by_the_angle_in_the_plane_of_both():
    rng = torch.Generator().manual_seed(1)
    for _, loss, reference_loss in triples(40):
        gradient, reference = torch.randn(2, 300, generator=rng) + torch.randn(300, generator=rng)
        turned = mix(gradient, 7 * reference, loss, reference_loss)
        between = angle_of(gradient, reference)
        angle = best_angle(between, loss, reference_loss)
        assert float(turned.norm() / gradient.norm()) == pytest.approx(1, abs=1e-5)
        assert angle_of(turned, gradient) == pytest.approx(angle, abs=1e-4)
        assert angle_of(turned, reference) == pytest.approx(abs(between - angle), abs=1e-4)


def test_a_memory_without_loss_leaves_the_gradient_as_it_is():
    gradient, reference = torch.tensor([1.0, 2.0]), torch.tensor([-2.0, 1.5])
    assert mix(gradient, reference, 1.0, 0.0) is gradient


def test_a_batch_without_loss_gives_way_to_the_memory():
    turned = mix(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0]), 0.0, 1.0)
    torch.testing.assert_close(turned, torch.tensor([2.0, 2.0]) / math.sqrt(2))


def test_equal_losses_give_the_bisector():
    gradient, reference = torch.tensor([3.0, 0.0]), torch.tensor([-0.5, 5.0])
    turned = mix(gradient, reference, 0.7, 0.7)
    middle = gradient / gradient.norm() + reference / reference.norm()
    torch.testing.assert_close(turned, 3 * middle / middle.norm())


@pytest.mark.parametrize("reference", [[2.0, 4.0], [-2.0, -4.0], [0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_where_there_is_no_plane_the_gradient_stays(reference):
    gradient = torch.tensor([1.0, 2.0])
    assert mix(gradient, torch.tensor(reference), 1.0, 1.0) is gradient


@pytest.mark.parametrize("nothing", [{"memory_size": 0}, {"memory_batch": 0}])
def test_without_a_memory_it_is_fine_tuning(nothing):
    ours, plain = show(learner_of(MegaII, **nothing), TASKS), show(learner_of(FineTune), TASKS)
    assert same(state(ours.net), state(plain.net))


def test_the_first_task_is_plain_training():
    ours, plain = show(learner_of(MegaII), TASKS[:1]), show(learner_of(FineTune), TASKS[:1])
    assert same(state(ours.net), state(plain.net))


def test_it_weighs_the_loss_of_the_batch_against_that_of_the_memory(monkeypatch):
    losses = []

    def noting(gradient, reference, loss, reference_loss):
        losses.append((loss, reference_loss))
        return mix(gradient, reference, loss, reference_loss)

    monkeypatch.setattr(mega_ii, "mix", noting)
    learner = show(learner_of(MegaII), TASKS[:1])
    before = learner.net.head("stripes").weight.clone()
    learner.learn(TASKS[1])
    first, last = losses[0], losses[-1]
    assert first[0] > math.log(3) / 2 > first[1]  # the new task is not learned yet, the old one is
    assert last[0] < first[0]
    assert not learner.net.head("stripes").weight.equal(before)
