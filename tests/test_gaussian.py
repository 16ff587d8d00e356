"""Gaussian layers: their divergence, their moments, and which nets they can be made of."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from toys import net_for, pictures
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.gaussian import (
    GaussianLinear,
    common_noise,
    divergence,
    gaussian_layers,
    make_gaussian,
    noise_for_rows,
    sampled_logits,
)
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.seeds import generator


def layer(inputs=6, outputs=3, log_variance=-2.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = GaussianLinear(nn.Linear(inputs, outputs), log_variance)
        nn.init.normal_(made.log_variance, log_variance, 0.5)
    return made


def distribution(count, seed):
    rng = generator(seed)
    return torch.randn(count, generator=rng), torch.randn(count, generator=rng)


def test_the_divergence_is_that_of_torch_and_never_negative():
    for seed in range(5):
        ours, prior = distribution(20, seed), distribution(20, seed + 100)
        normals = [Normal(mean, (0.5 * log_variance).exp()) for mean, log_variance in (ours, prior)]
        assert torch.allclose(divergence(ours, prior), kl_divergence(*normals).sum(), rtol=1e-5)
        assert float(divergence(ours, prior)) > 0
        assert float(divergence(ours, ours)) == 0


def test_outputs_have_the_moments_that_drawing_weights_gives():
    made, rng = layer(), generator(1)
    x = torch.randn(4, 6, generator=rng)
    draws = 10_000
    weight = made.weight + (0.5 * made.log_variance).exp() * torch.randn(draws, 3, 6, generator=rng)
    bias = made.bias + (0.5 * made.bias_log_variance).exp() * torch.randn(draws, 3, generator=rng)
    outputs = torch.einsum("ri,soi->sro", x, weight) + bias[:, None]
    mean, variance = made.moments(x)
    assert torch.allclose(outputs.mean(dim=0), mean, atol=0.05)
    assert torch.allclose(outputs.var(dim=0), variance, rtol=0.08)


def test_a_gaussian_net_answers_with_its_means_and_draws_nothing_when_made():
    task = pictures()
    plain = net_for([task], mlp_100).eval()
    before, expected = torch.get_rng_state(), plain(task.test.x, task.name)
    net = make_gaussian(plain, -6.0, "vcl")
    assert torch.equal(net(task.test.x, task.name), expected)
    assert len(gaussian_layers(net, task.name)) == 3
    assert torch.equal(torch.get_rng_state(), before)


def test_without_variance_every_draw_is_the_mean():
    task = pictures()
    net = make_gaussian(net_for([task], mlp_100), -80.0, "vcl").eval()
    for noise in (noise_for_rows(2), common_noise(2, generator(0))):
        with torch.random.fork_rng():
            logits = sampled_logits(net, task.test.x, task.name, noise)
        assert logits.shape == (2, len(task.test), 2)
        assert torch.allclose(logits, net(task.test.x, task.name).expand_as(logits), atol=1e-5)


def test_rows_share_common_noise_only():
    task = pictures()
    net = make_gaussian(net_for([task], mlp_100), -2.0, "vcl").eval()
    twice = task.test.x[:1].repeat(2, 1, 1, 1)
    common = sampled_logits(net, twice, task.name, common_noise(3, generator(0)))
    with torch.random.fork_rng():
        own = sampled_logits(net, twice, task.name, noise_for_rows(3))
    assert torch.allclose(common[:, 0], common[:, 1])
    assert not torch.allclose(own[:, 0], own[:, 1])


def test_nets_with_other_layers_are_refused_with_those_that_are_taken():
    with pytest.raises(SettingsError, match=r"vcl takes backbones .* mlp-100 .*'small-conv' is none"):
        make_gaussian(net_for([pictures(shape=(1, 28, 28))], small_conv), -6.0, "vcl")
