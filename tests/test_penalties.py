"""The penalty of EWC and SI: its closed forms, and how penalties of several tasks become one."""

import torch
from torch import Tensor, nn

from zoolearn.methods.bases.penalties import JOINS, QuadraticPenalty, average, online, separate
from zoolearn.methods.parts.flat import Flat


def penalty(seed: int) -> QuadraticPenalty:
    rng = torch.Generator().manual_seed(seed)
    return QuadraticPenalty(torch.randn(6, generator=rng), torch.rand(6, generator=rng), torch.tensor(0.0))


def test_the_gradient_is_that_of_the_value() -> None:
    weights = torch.linspace(-2, 2, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(penalty(0).value(weights), weights)
    assert torch.allclose(penalty(0).gradient(weights), gradient)


def test_separate_penalties_joined_pull_as_all_of_them_do() -> None:
    penalties = [penalty(seed) for seed in range(4)]
    penalties[1].importance[2] = penalties[0].importance[2] = 0.0
    joined = penalties[0]
    for tasks, new in enumerate(penalties[1:], start=1):
        joined = separate(joined, new, tasks, 1.0)
    weights = torch.linspace(-2, 2, 6)
    assert torch.allclose(joined.value(weights), torch.stack([each.value(weights) for each in penalties]).sum())
    total = torch.stack([each.gradient(weights) for each in penalties]).sum(dim=0)
    assert torch.allclose(joined.gradient(weights), total, atol=1e-6)


def test_online_keeps_the_newest_anchor_and_a_fading_sum() -> None:
    joined = online(penalty(0), penalty(1), 1, 0.5)
    assert torch.equal(joined.anchor, penalty(1).anchor)
    assert torch.equal(joined.importance, 0.5 * penalty(0).importance + penalty(1).importance)


def test_average_is_the_mean_over_tasks() -> None:
    joined = average(average(penalty(0), penalty(1), 1, 1.0), penalty(2), 2, 1.0)
    mean = torch.stack([penalty(seed).importance for seed in range(3)]).mean(dim=0)
    assert torch.allclose(joined.importance, mean)
    assert torch.equal(joined.anchor, penalty(2).anchor)


def test_the_newest_penalty_alone_is_at_rest_at_its_anchor_exactly() -> None:
    for join in (JOINS["online"], JOINS["average"]):
        joined = join(penalty(0), penalty(1), 1, 1.0)
        assert torch.equal(joined.gradient(joined.anchor), torch.zeros(6))
        assert float(joined.value(joined.anchor)) == 0


def test_a_limit_cuts_the_firmest_weights_only() -> None:
    scaled = penalty(0).scale(2.0, 1.0)
    assert torch.equal(scaled.importance, (2 * penalty(0).importance).clamp(max=1.0))
    assert torch.equal(penalty(0).scale(2.0, torch.inf).importance, 2 * penalty(0).importance)


def test_it_pulls_on_gradients_that_are_there_and_on_those_that_are_not() -> None:
    used, unused = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    used.grad = torch.full((2, 2), 5.0)
    held = penalty(0)
    held.pull(Flat([used, unused]))

    def whole(tensors: list[Tensor]) -> Tensor:
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    wanted = torch.tensor([5.0] * 4 + [0.0] * 2) + held.gradient(torch.ones(6))
    assert torch.equal(whole([used.grad, unused.grad]), wanted)
