"""The dense algebra of Gaussian processes, in float64: kernels of a few hundred points are too ill-conditioned for less."""

from typing import cast

import torch
from torch import Tensor

Kernel = Tensor  # symmetric, positive definite, (points, points)


def factor(kernel: Kernel) -> Tensor:
    """The lower Cholesky factor; of a matrix that has none (not finite, or not positive definite) NaN, not an error.

    A training whose kernel has gone wrong so reports a loss of NaN, which names the task and the step.
    """
    lower, failed = torch.linalg.cholesky_ex(kernel)
    return cast(Tensor, lower.masked_fill(failed[..., None, None] != 0, torch.nan))


def inverse(kernel: Kernel) -> Tensor:
    """The inverse, symmetric to the last bit."""
    whole = torch.cholesky_inverse(factor(kernel))
    return 0.5 * (whole + whole.mT)


def log_determinant(lower: Tensor) -> Tensor:
    """The logarithm of the determinant of the matrix that has this Cholesky factor."""
    return 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)


def divergence(mean: Tensor, lower: Tensor, kernel: Kernel) -> Tensor:
    """The sum over outputs c of KL(N(mean_c, lower_c lower_c') || N(0, kernel)); mean (points, c), lower (c, points, points).

    The outputs have one kernel, so it is factored once and their covariances are summed before the solve.
    """
    points, outputs = mean.shape
    prior = factor(kernel)
    spread = torch.linalg.solve_triangular(prior, lower, upper=False).square().sum()
    distance = torch.linalg.solve_triangular(prior, mean, upper=False).square().sum()
    logs = outputs * log_determinant(prior) - log_determinant(lower).sum()
    return cast(Tensor, 0.5 * (spread + distance - outputs * points + logs))


def posterior(features: Tensor, inducing: Tensor, mean: Tensor, lower: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    """Mean and variance, (rows, outputs) each, at some features given N(mean_c, lower_c lower_c') at inducing ones.

    The kernel is the inner product of features: with k = features inducing' and K = inducing inducing' + jitter I, the
    mean is k K^-1 mean_c and the variance k_xx - k K^-1 k' + k K^-1 lower_c lower_c' K^-1 k'.
    """
    prior = factor(kernel_of(inducing, jitter))
    across = torch.cholesky_solve(inducing @ features.T, prior).T  # k K^-1
    explained = (across * (features @ inducing.T)).sum(dim=1)
    remaining = (features.square().sum(dim=1) - explained).clamp_min(0.0)
    return across @ mean, remaining[:, None] + (across @ lower).square().sum(dim=2).T


def kernel_of(features: Tensor, jitter: float) -> Kernel:
    """Inner products of features, a little added to the diagonal."""
    return features @ features.T + jitter * torch.eye(len(features), dtype=features.dtype, device=features.device)


def unexplained(inducing: Tensor, gram: Tensor, jitter: float) -> Tensor:
    """The trace criterion: the variance at all training points that remains once the function is known at some.

    `gram` is the sum over training points of the outer products of their features. With K the kernel of the inducing
    points it is tr(gram) - tr(K^-1 inducing gram inducing'), or, cheaper where points outnumber features and equal,
    jitter * tr((inducing' inducing + jitter I)^-1 gram).
    """
    if len(inducing) > inducing.shape[1]:
        return jitter * torch.cholesky_solve(gram, factor(kernel_of(inducing.T, jitter))).trace()
    covered = inducing @ gram @ inducing.T
    return gram.trace() - torch.cholesky_solve(covered, factor(kernel_of(inducing, jitter))).trace()
