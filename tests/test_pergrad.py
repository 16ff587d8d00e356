"""Gradients of single samples, and the four readings of the Fisher information, against loops and closed forms."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from toys import blobs, net_for, pictures, same, state, with_norm
from zoolearn.data.task import Examples, Task
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import (
    FISHERS,
    batched,
    exact,
    log_likelihood,
    logit,
    observed,
    sample_gradients,
    sampled,
)
from zoolearn.nets.backbones import Shape, small_conv
from zoolearn.nets.net import Net
from zoolearn.seeds import generator


def linear(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """No backbone at all: the head sees the features."""
    return nn.Flatten()


def with_idle(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """A backbone with a parameter that no answer depends on."""
    body = with_norm(shape, dropout)
    body.register_parameter("idle", nn.Parameter(torch.ones(3)))
    return body


def trained_norm(task: Task, backbone: object = with_norm, **settings: float) -> Net:
    """A net whose batch-norm has statistics of its own."""
    net = net_for([task], backbone, **settings)
    net.train()
    for _ in range(3):
        net(task.train.x, task.name)
    return net


def looped(net: Net, task: Task, flat: Flat, score: object, x: Tensor, labels: Tensor) -> Tensor:
    net.eval()
    rows = [flat.gradient_of(score(net(x[i : i + 1], task.name)[0], labels[i])) for i in range(len(labels))]
    return torch.stack(rows)


@pytest.mark.parametrize("score", [log_likelihood, logit])
@pytest.mark.parametrize("backbone", [with_norm, small_conv])
def test_they_are_what_a_loop_over_samples_finds_whatever_the_chunks(backbone: object, score: object) -> None:
    task = pictures(classes=3, per_class=3)
    net = trained_norm(task, backbone, dropout=0.5)
    flat = Flat(net.backbone.parameters())
    x, y = task.train.x, task.train.y
    wanted = looped(net, task, flat, score, x, y)
    for chunk_bytes in (1 << 26, 4 * 4 * len(flat), 1):
        found = torch.cat(list(sample_gradients(net, task.name, flat, score, x, y, chunk_bytes)))
        assert torch.allclose(found, wanted, atol=1e-5, rtol=1e-4)


def test_chunks_keep_to_their_memory() -> None:
    task = pictures(per_class=6)
    net = net_for([task])
    flat = Flat(net.backbone.parameters())
    chunks = sample_gradients(net, task.name, flat, logit, task.train.x, task.train.y, 5 * 4 * len(flat))
    assert [len(chunk) for chunk in chunks] == [5, 5, 2]


@pytest.mark.parametrize("fisher", FISHERS.values(), ids=FISHERS.keys())
def test_the_net_is_left_as_it_was_in_its_mode(fisher: object) -> None:
    task = pictures(per_class=3)
    net = trained_norm(task, dropout=0.5)
    before = state(net)
    first = fisher(net, task.name, Flat(net.backbone.parameters()), task.train, 0, 4)
    assert net.training
    assert same(state(net), before)
    assert torch.equal(fisher(net, task.name, Flat(net.backbone.parameters()), task.train, 0, 4), first)


def test_each_reading_of_the_fisher_information_is_what_a_loop_over_samples_finds() -> None:
    task = pictures(classes=3, per_class=4)
    net = trained_norm(task)
    flat = Flat(net.backbone.parameters())
    x, y = task.train.x, task.train.y
    probabilities = torch.softmax(net.eval()(x, task.name), dim=1).detach()
    of_label = torch.stack(
        [looped(net, task, flat, log_likelihood, x, torch.full_like(y, label)).square() for label in range(3)], dim=1
    )
    own = of_label[torch.arange(len(y)), y]
    halves = [
        flat.gradient_of(F.cross_entropy(net(x[part], task.name), y[part])).square()
        for part in (slice(6), slice(6, 12))
    ]

    def close(fisher: object, wanted: Tensor) -> bool:
        return torch.allclose(fisher(net, task.name, flat, task.train, 0, 6), wanted, rtol=1e-4, atol=1e-7)

    assert close(exact, (probabilities[:, :, None] * of_label).sum(dim=1).mean(dim=0))
    assert close(observed, own.mean(dim=0))
    assert close(batched, torch.stack(halves).mean(dim=0))


def analytic(net: Net, task: Task) -> Tensor:
    """The diagonal for a linear softmax: mean over samples of x_j^2 p_c (1 - p_c)."""
    x = task.train.x
    p = torch.softmax(net(x, task.name), dim=1).detach()
    return torch.einsum("ic,ij->cj", p * (1 - p), x.square()) / len(x)


def test_exact_is_the_closed_form_of_a_linear_softmax_and_sampling_comes_near_it() -> None:
    task = blobs(classes=3, per_class=10)
    net = net_for([task], linear)
    net.heads[0].weight.data.mul_(0.3)
    flat = Flat([net.heads[0].weight])
    wanted = analytic(net, task)
    assert torch.allclose(exact(net, task.name, flat, task.train, 0, 1).view_as(wanted), wanted, rtol=1e-4, atol=1e-7)
    draws = torch.stack([sampled(net, task.name, flat, task.train, seed, 1) for seed in range(300)])
    assert float((draws.mean(dim=0).view_as(wanted) - wanted).norm() / wanted.norm()) < 0.05


def test_batched_is_lower_by_about_the_batch_size() -> None:
    task = blobs(classes=3, per_class=100, features=4)
    net = net_for([task], linear)
    flat = Flat([net.heads[0].weight])
    rng = generator(0)
    noise = Examples(torch.randn(600, 4, generator=rng), torch.randint(3, (600,), generator=rng))
    net.heads[0].weight.data.zero_()
    ratio = float(batched(net, task.name, flat, noise, 0, 20).sum() / observed(net, task.name, flat, noise, 0, 1).sum())
    assert 1 / 30 < ratio < 1 / 12


@pytest.mark.parametrize("fisher", FISHERS.values(), ids=FISHERS.keys())
def test_it_is_never_negative_and_zero_where_no_answer_depends(fisher: object) -> None:
    task = pictures(per_class=3)
    net = trained_norm(task, with_idle)
    importance = fisher(
        net, task.name, Flat([net.backbone.idle, *list(net.backbone.children())[1].parameters()]), task.train, 0, 4
    )
    assert torch.equal(importance[:3], torch.zeros(3))
    assert float(importance.min()) == 0
    assert float(importance.sum()) > 0
