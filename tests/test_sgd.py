"""Our one-call descent against torch's own optimiser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd, has_fused_kernel, move_fused, move_plainly

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


@pytest.fixture
def choose_again() -> Iterator[None]:
    """Lets a test see the choice of a kernel made, and the others see it made again."""
    has_fused_kernel.cache_clear()
    yield
    has_fused_kernel.cache_clear()


def with_fewer_settings(parameters: Any, gradients: Any, momenta: Any, *, lr: float, momentum: float) -> None:
    raise AssertionError("it is called with more than that")


def with_a_tensor_for_a_rate(*_: Any, **__: Any) -> None:
    raise RuntimeError("_fused_sgd_(): argument 'lr' must be Tensor, not float")


def with_another_meaning(parameters: Any, gradients: Any, momenta: Any, **settings: Any) -> None:
    move_plainly(parameters, gradients, momenta, lr=2 * settings["lr"], momentum=0.9, nesterov=True, weight_decay=0.1)


OTHER_KERNELS = [with_fewer_settings, with_a_tensor_for_a_rate, with_another_meaning]


@pytest.mark.parametrize("kernel", OTHER_KERNELS)
def test_where_the_kernel_of_torch_is_another_plain_operations_take_the_steps_of_its_optimiser(
    monkeypatch: pytest.MonkeyPatch, choose_again: None, kernel: Callable[..., None]
) -> None:
    tried = []
    monkeypatch.setattr(torch, "_fused_sgd_", lambda *given, **settings: (tried.append(1), kernel(*given, **settings)))
    ours, sgd, theirs, _ = twins(0.9, True, 1e-2)
    torchs = torch.optim.SGD(theirs, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)
    assert sgd.move is move_plainly
    for step in range(20):
        give_gradients(ours, theirs, step)
        sgd.step()
        torchs.step()
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-6)
    twins(0.0, False, 0.0)
    assert len(tried) == 1  # not once a step, nor once a training


def test_a_torch_without_the_name_is_one_without_the_kernel(
    monkeypatch: pytest.MonkeyPatch, choose_again: None
) -> None:
    monkeypatch.delattr(torch, "_fused_sgd_")
    assert twins(0.9, True, 0.0)[1].move is move_plainly


def test_this_torch_has_the_kernel(choose_again: None) -> None:
    assert twins(0.9, True, 0.0)[1].move is move_fused


@pytest.mark.parametrize(("momentum", "nesterov", "decay"), [*SETTINGS, (0.5, True, 0.0), (0.9, False, 0.1)])
def test_plain_operations_take_the_steps_of_the_kernel_up_to_rounding(momentum, nesterov, decay):
    plain, plain_sgd, fused, _ = twins(momentum, nesterov, decay)
    fused_sgd = Sgd(fused, Recipe(lr=0.1, momentum=momentum, nesterov=nesterov, weight_decay=decay))
    plain_sgd.move, fused_sgd.move = move_plainly, move_fused
    for step in range(20):
        give_gradients(plain, fused, step, absent=step % 4)  # 3 is nobody
        plain_sgd.lr = fused_sgd.lr = 0.1 / (step + 1)
        plain_sgd.step()
        fused_sgd.step()
    assert len(plain_sgd.momenta) == len(fused_sgd.momenta) == (3 if momentum else 0)
    pairs = [*zip(plain, fused, strict=True), *zip(plain_sgd.momenta, fused_sgd.momenta, strict=True)]
    for mine, other in pairs:
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_plain_operations_leave_the_gradients_alone() -> None:
    ours, sgd, theirs, _ = twins(0.9, True, 1e-2)
    sgd.move = move_plainly
    for step in range(2):
        give_gradients(ours, theirs, step)
        sgd.step()
        assert all(torch.equal(mine.grad, other.grad) for mine, other in zip(ours, theirs, strict=True))
