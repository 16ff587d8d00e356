"""A linear head fitted to finished features in a dozen Newton steps, and how likely it is to be right about unseen rows.

The head is a logistic regression with a pull towards 0. Its steps use one curvature that bounds the true one everywhere
(Boehning, 1992): in the axes of the features' covariance that is a division, so a step costs no more than a look at the
rows. One step further, leaving a row out moves its logits by a multiple of its error (its leverage), so that every row
tells, for next to nothing, what a head would say that had never seen it. The strength of the pull is chosen by that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Examples
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features
from zoolearn.training.recipe import Recipe

STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # of the pull towards 0, in units of the features' mean variance
STEPS = 12


@dataclass(frozen=True)
class FittedHead:
    """Weights and biases of a head, and the log-likelihood that it would have given to each row, had it not seen it."""

    weight: Tensor
    bias: Tensor
    unseen: Tensor  # of the rows that were held out, where there are any

    @property
    def likelihood(self) -> float:
        return float(self.unseen.mean())


def fit_head(
    features: Tensor, labels: Tensor, classes: int, held_out: Tensor | None = None, blocks: Sequence[int] = ()
) -> FittedHead:
    """The head of these features that is most likely to be right about rows like these.

    Where the features themselves were trained on some of the rows, `held_out` marks the others: only they are asked how
    likely the head is to be right. Where they come in `blocks` of columns, the pull is as strong on each.

    >>> x = torch.tensor([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> head = fit_head(x, torch.tensor([0, 0, 1, 1]), classes=2)
    >>> F.linear(x, head.weight, head.bias).argmax(dim=1).tolist()
    [0, 0, 1, 1]
    """
    scale = _block_scale(features, blocks)
    scaled = features.double() * scale
    mean = scaled.mean(dim=0)
    x = scaled - mean
    wanted = F.one_hot(labels, classes).double()
    variances, axes = _principal_axes(x)
    mean_variance = float(variances.sum()) / x.shape[1]
    turned = x @ axes
    best: FittedHead | None = None
    for strength in STRENGTHS:
        pull = strength * (mean_variance or 1.0)
        weight, bias = _newton(turned, wanted, variances, pull)
        unseen = _unseen_likelihoods(turned, wanted, variances, pull, weight, bias)
        head = FittedHead(weight, bias, unseen if held_out is None else unseen[held_out])
        if best is None or head.likelihood > best.likelihood:
            best = head
    assert best is not None
    weight = (axes @ best.weight).T
    return FittedHead((weight * scale).float(), (best.bias - weight @ mean).float(), best.unseen)


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """The axes of the rows' covariance, and the sums of squares along them; none where all rows are 0 for want of rows."""
    if len(x) < x.shape[1]:
        _, deviations, axes = torch.linalg.svd(x, full_matrices=False)
        return deviations.square(), axes.T
    variances, axes = torch.linalg.eigh(x.T @ x)
    return variances.clamp_min(0.0), axes


def _block_scale(features: Tensor, blocks: Sequence[int]) -> Tensor:
    """A factor for every column by which all blocks have a mean variance of 1."""
    if len(blocks) < 2:
        return torch.ones(features.shape[1], dtype=torch.float64)
    variances = [block.double().var(dim=0, correction=0).mean() for block in torch.split(features, list(blocks), dim=1)]
    factors = [1.0 / (float(variance.sqrt()) or 1.0) for variance in variances]
    return torch.repeat_interleave(torch.tensor(factors, dtype=torch.float64), torch.tensor(blocks))


def _newton(x: Tensor, wanted: Tensor, variances: Tensor, pull: float) -> tuple[Tensor, Tensor]:
    """Weights and biases after `STEPS` steps, each going on a little in the direction of the one before."""
    curvature = (variances / 2 + pull)[:, None]
    weight = ahead = torch.zeros(x.shape[1], wanted.shape[1], dtype=x.dtype)
    bias = wanted.mean(dim=0).clamp_min(1.0 / len(x)).log()
    for step in range(STEPS):
        error = torch.softmax(x @ ahead + bias, dim=1) - wanted
        moved = ahead - (x.T @ error + pull * ahead) / curvature
        bias = bias - 2 * error.mean(dim=0)
        weight, ahead = moved, moved + step / (step + 3) * (moved - weight)
    return weight, bias


def _unseen_likelihoods(
    x: Tensor, wanted: Tensor, variances: Tensor, pull: float, weight: Tensor, bias: Tensor
) -> Tensor:
    """The log-likelihood of each row's label, had the row been left out."""
    logits = x @ weight + bias
    answers = torch.softmax(logits, dim=1)
    curvature = max(float((answers * (1 - answers)).mean()), 1e-3)
    leverage = x.square() @ (1.0 / (curvature * variances + pull)) + 1.0 / (curvature * len(x))
    unseen = logits + (answers - wanted) * (leverage / (1 - curvature * leverage).clamp_min(0.05))[:, None]
    return (torch.log_softmax(unseen, dim=1) * wanted).sum(dim=1)


def refit_heads(net: Net, rows: Mapping[str, Examples], recipe: Recipe) -> None:
    """Fits the heads of tasks to the features that a finished net makes of rows of theirs."""
    for task, examples in rows.items():
        features = compute_features(net, net.scale_features(examples.x, task), recipe)
        labels = examples.y.cpu()
        set_head(net, task, fit_head(features, labels, net.head(task).out_features, blocks=net.blocks))


@torch.no_grad()
def set_head(net: Net, task: str, head: FittedHead) -> None:
    """Makes a fitted head the net's own."""
    net.head(task).weight.copy_(head.weight)
    net.head(task).bias.copy_(head.bias)
