"""Our one-call descent against torch's own optimiser."""

import pytest
import torch
from torch import nn

from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd

SETTINGS = [(0.0, False, 0.0), (0.9, False, 0.0), (0.9, True, 1e-2), (0.0, True, 1e-2)]


def twins(momentum: float, nesterov: bool, decay: float):
    """Two equal lists of parameters, ours under `Sgd`, the others under torch's optimiser."""
    start = [torch.randn(size, generator=torch.Generator().manual_seed(place)) for place, size in enumerate((7, 3, 50))]
    ours, theirs = ([nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    recipe = Recipe(lr=0.1, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    torchs = torch.optim.SGD(
        theirs, lr=0.1, momentum=momentum, nesterov=nesterov and momentum > 0, weight_decay=decay, fused=True
    )
    return ours, Sgd(ours, recipe), theirs, torchs


def give_gradients(ours, theirs, step: int, absent: int | None = None) -> None:
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        gradient = torch.randn(mine.shape, generator=torch.Generator().manual_seed(100 * step + place))
        mine.grad, other.grad = (None, None) if place == absent else (gradient.clone(), gradient.clone())


@pytest.mark.parametrize(("momentum", "nesterov", "decay"), SETTINGS)
def test_every_step_is_that_of_torchs_optimiser_to_the_bit(momentum, nesterov, decay):
    ours, sgd, theirs, torchs = twins(momentum, nesterov, decay)
    for step in range(20):
        give_gradients(ours, theirs, step)
        sgd.lr = torchs.param_groups[0]["lr"] = 0.1 / (step + 1)
        sgd.step()
        torchs.step()
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(("momentum", "nesterov", "decay"), SETTINGS)
def test_a_parameter_without_a_gradient_stays_and_keeps_its_momentum(momentum, nesterov, decay):
    ours, sgd, theirs, torchs = twins(momentum, nesterov, decay)
    give_gradients(ours, theirs, 0)
    sgd.step()
    torchs.step()
    for step in range(1, 6):
        give_gradients(ours, theirs, step, absent=step % 3)
        before = ours[step % 3].detach().clone()
        sgd.step()
        torchs.step()
        assert torch.equal(ours[step % 3], before)
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    for parameter in ours:
        parameter.grad = None
    sgd.step()  # nothing to move is no error


def test_a_gradient_scaler_takes_it_for_an_optimiser_and_skips_what_overflows():
    ours, sgd, theirs, torchs = twins(0.9, True, 1e-2)
    scalers = [torch.amp.GradScaler("cpu", init_scale=8.0, enabled=True) for _ in range(2)]
    for step in range(6):
        for scaler, parameters, optimizer in ((scalers[0], ours, sgd), (scalers[1], theirs, torchs)):
            loss = sum((parameter * (step + 1)).sum() for parameter in parameters)
            if step == 3:
                loss = loss * torch.inf
            for parameter in parameters:
                parameter.grad = None
            before = [parameter.detach().clone() for parameter in parameters]
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            stayed = all(torch.equal(*pair) for pair in zip(parameters, before, strict=True))
            assert stayed == (step == 3)
        assert all(torch.allclose(mine, other) for mine, other in zip(ours, theirs, strict=True))
        assert scalers[0].get_scale() == scalers[1].get_scale()
