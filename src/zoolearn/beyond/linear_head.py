"""Fits a linear head to fixed features in a dozen Newton steps, with leave-one-out likelihoods in closed form.

The head is an L2-regularised logistic regression. Its steps use one upper bound of the curvature (Boehning, 1992),
which is diagonal in the principal axes of the features, so a step costs one pass over the rows, for several strengths of
regularisation at once. To first order, leaving a row out changes its logits by a multiple of its error (its leverage); the
strength is chosen by the resulting likelihoods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.task import Examples
from zoolearn.errors import Diverged
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features
from zoolearn.training.recipe import Recipe

TOO_LARGE = "features are so large that no head can be fitted to them; a smaller learning rate may help"
STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # of L2 regularisation, in units of the features' mean variance
STEPS = 12
AT_ONCE = 2**21  # logits of all rows for strengths that are fitted together; more classes than that take turns


@dataclass(frozen=True)
class FittedHead:
    """Weights and biases of a head, and the mean leave-one-out log-likelihood of its rows."""

    weight: Tensor
    bias: Tensor
    likelihood: float


def fit_head(features: Tensor, labels: Tensor, classes: int, blocks: Sequence[int] = ()) -> FittedHead:
    """The head with the highest leave-one-out likelihood over strengths of regularisation.

    With `blocks` of columns, each is regularised equally.

    >>> x = torch.tensor([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> head = fit_head(x, torch.tensor([0, 0, 1, 1]), classes=2)
    >>> F.linear(x, head.weight, head.bias).argmax(dim=1).tolist()
    [0, 0, 1, 1]
    """
    scale = _block_scale(features, blocks)
    scaled = features.double() * scale
    mean = scaled.mean(dim=0)
    x = (scaled - mean).float()
    wanted = F.one_hot(labels, classes).float()
    variances, axes = _principal_axes(x)
    mean_variance = float(variances.sum()) / x.shape[1]
    turned = x @ axes
    heads = []
    for pulls in torch.split(torch.tensor(STRENGTHS) * (mean_variance or 1.0), max(1, AT_ONCE // wanted.numel())):
        weights, biases = _newton(turned, wanted, variances, pulls)
        for pull, weight, bias in zip(pulls.tolist(), weights.unbind(1), biases, strict=True):
            unseen = _unseen_likelihoods(turned, wanted, variances, pull, weight, bias)
            heads.append(FittedHead(weight, bias, float(unseen.mean())))
    best = max(heads, key=lambda head: head.likelihood)
    weight = (axes @ best.weight).T.double()
    return FittedHead((weight * scale).float(), (best.bias - weight @ mean).float(), best.likelihood)


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """The principal axes of the rows, and the sums of squares along them."""
    try:
        if len(x) < x.shape[1]:
            _, deviations, axes = torch.linalg.svd(x, full_matrices=False)
            variances, axes = deviations.square(), axes.T
        else:
            variances, axes = torch.linalg.eigh(x.T @ x)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined] # numbers are not finite, or nearly so
        raise Diverged(TOO_LARGE) from error
    if not bool(variances.isfinite().all()):
        raise Diverged(TOO_LARGE)
    return variances.clamp_min(0.0), axes


def _block_scale(features: Tensor, blocks: Sequence[int]) -> Tensor:
    """A factor for every column by which all blocks have a mean variance of 1."""
    if len(blocks) < 2:
        return torch.ones(features.shape[1], dtype=torch.float64)
    variances = [block.double().var(dim=0, correction=0).mean() for block in torch.split(features, list(blocks), dim=1)]
    factors = [1.0 / (float(variance.sqrt()) or 1.0) for variance in variances]
    return torch.repeat_interleave(torch.tensor(factors, dtype=torch.float64), torch.tensor(blocks))


def _newton(x: Tensor, wanted: Tensor, variances: Tensor, pulls: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (feature, pull, class) and biases (pull, class) after `STEPS` accelerated steps, for each pull to zero."""
    pull = pulls[:, None]
    curvature = variances[:, None, None] / 2 + pull
    weight = ahead = torch.zeros(x.shape[1], len(pulls), wanted.shape[1])
    bias = wanted.mean(dim=0).clamp_min(1.0 / len(x)).log().expand(len(pulls), -1)
    for step in range(STEPS):
        error = torch.softmax((x @ ahead.flatten(1)).view(-1, *bias.shape) + bias, dim=2) - wanted[:, None]
        moved = ahead - ((x.T @ error.flatten(1)).view(-1, *bias.shape) + pull * ahead) / curvature
        bias = bias - 2 * error.mean(dim=0)
        weight, ahead = moved, moved + step / (step + 3) * (moved - weight)
    return weight, bias


def _unseen_likelihoods(
    x: Tensor, wanted: Tensor, variances: Tensor, pull: float, weight: Tensor, bias: Tensor
) -> Tensor:
    """The leave-one-out log-likelihood of each row's label."""
    logits = x @ weight + bias
    answers = torch.softmax(logits, dim=1)
    curvature = max(float((answers * (1 - answers)).mean()), 1e-3)
    leverage = x.square() @ (1.0 / (curvature * variances + pull)) + 1.0 / (curvature * len(x))
    unseen = logits + (answers - wanted) * (leverage / (1 - curvature * leverage).clamp_min(0.05))[:, None]
    return (torch.log_softmax(unseen, dim=1) * wanted).sum(dim=1)


def refit_heads(net: Net, rows: Mapping[str, Examples], recipe: Recipe) -> None:
    """Fits the heads of tasks to a net's features of their rows."""
    for task, examples in rows.items():
        features = compute_features(net, net.scale_features(examples.x, task), recipe)
        labels = examples.y.cpu()
        set_head(net, task, fit_head(features, labels, net.head(task).out_features, blocks=net.blocks))


@torch.no_grad()
def set_head(net: Net, task: str, head: FittedHead) -> None:
    """Copies a fitted head into a net."""
    net.head(task).weight.copy_(head.weight)
    net.head(task).bias.copy_(head.bias)
