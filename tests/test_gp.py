"""The algebra of Gaussian processes against numpy and torch, in float64."""

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from zoolearn.methods.parts import gp
from zoolearn.seeds import generator

JITTER = 1e-3


def features(rows, size=7, seed=0):
    return torch.randn(rows, size, generator=generator(seed), dtype=torch.float64)


def belief(points, outputs=3, seed=5):
    rng = generator(seed)
    roots = torch.randn(outputs, points, points, generator=rng, dtype=torch.float64)
    lower = torch.linalg.cholesky(roots @ roots.mT + torch.eye(points, dtype=torch.float64))
    return torch.randn(points, outputs, generator=rng, dtype=torch.float64), lower


def test_the_divergence_is_that_of_torch_summed_over_outputs():
    mean, lower = belief(6)
    kernel = gp.kernel_of(features(6), JITTER)
    prior = MultivariateNormal(torch.zeros(6, dtype=torch.float64), kernel)
    expected = sum(
        kl_divergence(MultivariateNormal(mean[:, c], scale_tril=lower[c]), prior) for c in range(mean.shape[1])
    )
    assert torch.allclose(gp.divergence(mean, lower, kernel), expected, rtol=1e-9)
    assert float(expected) > 0


def test_the_divergence_of_a_prior_from_itself_is_nothing():
    kernel = gp.kernel_of(features(6), JITTER)
    lower = gp.factor(kernel).expand(2, -1, -1)
    assert float(gp.divergence(torch.zeros(6, 2, dtype=torch.float64), lower, kernel)) == pytest.approx(0, abs=1e-9)


def test_the_divergence_has_gradients_that_differences_confirm():
    mean, lower = belief(4, outputs=2)
    at = features(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda found: gp.divergence(mean, lower, gp.kernel_of(found, 0.1)), at)


def test_the_posterior_is_that_of_numpy():
    x, z = features(5), features(4, seed=1)
    mean, lower = belief(4)
    ours = gp.posterior(x, z, mean, lower, JITTER)
    xs, zs, m, low = (part.numpy() for part in (x, z, mean, lower))
    across = xs @ zs.T @ np.linalg.inv(zs @ zs.T + JITTER * np.eye(4))
    left = np.diag(xs @ xs.T) - np.einsum("rp,rp->r", across, xs @ zs.T)
    spread = np.stack([np.diag(across @ factor @ factor.T @ across.T) for factor in low], axis=1)
    assert np.allclose(ours[0].numpy(), across @ m, rtol=1e-8)
    assert np.allclose(ours[1].numpy(), left[:, None] + spread, rtol=1e-7)


@pytest.mark.parametrize("points", [3, 7, 12])
def test_the_two_forms_of_the_trace_criterion_are_one(points):
    x, z = features(40), features(points, seed=1)
    kernel = z @ z.T + JITTER * torch.eye(points, dtype=torch.float64)
    across = x @ z.T
    expected = (x.square().sum(dim=1) - (across * torch.linalg.solve(kernel, across.T).T).sum(dim=1)).sum()
    gram = x.T @ x
    wide = JITTER * torch.linalg.solve(z.T @ z + JITTER * torch.eye(7, dtype=torch.float64), gram).trace()
    ours = float(gp.unexplained(z, gram, JITTER))
    assert ours == pytest.approx(float(expected), rel=1e-6)
    assert ours == pytest.approx(float(wide), rel=1e-6)


def test_an_inverse_is_symmetric_and_inverts():
    kernel = gp.kernel_of(features(8), JITTER)
    found = gp.inverse(kernel)
    assert torch.equal(found, found.T)
    assert torch.allclose(found @ kernel, torch.eye(8, dtype=torch.float64), atol=1e-9)


def test_what_has_no_factor_gives_nan():
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
    assert bool(gp.factor(bad).isnan().all())
    assert bool(gp.factor(bad * torch.nan).isnan().all())
    assert not bool(gp.factor(torch.stack([bad, 4 * torch.eye(2, dtype=torch.float64)]))[1].isnan().any())
