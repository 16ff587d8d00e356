"""A linear head in closed form: ridge regression to the classes, as sharp as unseen rows say that it may be.

Leaving one row out costs nothing in closed form: with the hat values h of the fit, the answer for row i of a head that
never saw it is y_i - (y_i - f_i) / (1 - h_i). Strength and sharpness are chosen by the likelihood of such answers, which
is also what a probe of features is: how likely the labels are under a head that has not seen them.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.nets import Net
from zoolearn.train import Recipe, feature_rows

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the pull towards 0, in units of the features' mean variance
SHARPEST = 100.0


@dataclass(frozen=True)
class FittedHead:
    """Weights and biases of a head, and the mean log-likelihood that it would have given to rows it had not seen."""

    weight: Tensor
    bias: Tensor
    likelihood: float


def fit_head(features: Tensor, labels: Tensor, classes: int) -> FittedHead:
    """The head of these features that is most likely to be right about rows like these.

    >>> x = torch.tensor([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> head = fit_head(x, torch.tensor([0, 0, 1, 1]), classes=2)
    >>> F.linear(x, head.weight, head.bias).argmax(dim=1).tolist()
    [0, 0, 1, 1]
    """
    x = features.double()
    targets = F.one_hot(labels, classes).double()
    mean, prior = x.mean(dim=0), targets.mean(dim=0)
    x, y = x - mean, targets - prior
    variances, directions = torch.linalg.eigh(x.T @ x)
    variances = variances.clamp_min(0.0)
    turned, covered = x @ directions, directions.T @ (x.T @ y)
    unit = float(variances.mean()) or 1.0
    best: tuple[float, float, Tensor] | None = None
    for strength in STRENGTHS:
        inverse = 1.0 / (variances + strength * unit)
        weight = inverse[:, None] * covered
        unseen = (1.0 - turned.square() @ inverse - 1.0 / len(x)).clamp_min(1e-6)
        answers = targets - (y - turned @ weight) / unseen[:, None]
        sharpness = sharpest(answers, labels)
        likelihood = log_likelihood(sharpness * answers, labels)
        if best is None or likelihood > best[0]:
            best = (likelihood, sharpness, weight)
    assert best is not None
    likelihood, sharpness, weight = best
    weight = sharpness * (directions @ weight).T
    return FittedHead(weight.float(), (sharpness * prior - weight @ mean).float(), likelihood)


@torch.no_grad()
def set_head(net: Net, task: str, head: FittedHead) -> None:
    """Makes a fitted head the net's own."""
    net.head(task).weight.copy_(head.weight)
    net.head(task).bias.copy_(head.bias)


def sharpest(logits: Tensor, labels: Tensor) -> float:
    """The factor by which logits give these labels the highest likelihood (the inverse of a temperature).

    One row more than there are, of which every class is as likely, keeps few rows that are all right from being certain.
    """
    low, high = 0.01, SHARPEST
    doubt = 1.0 / (len(logits) + 1)
    named = (1 - doubt) * logits.gather(1, labels[:, None])[:, 0].mean() + doubt * logits.mean()
    for _ in range(24):  # the slope of the likelihood falls with the factor, so halving the range finds its zero
        middle = math.sqrt(low * high)
        slope = named - (torch.softmax(middle * logits, dim=1) * logits).sum(dim=1).mean()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.sqrt(low * high)


def log_likelihood(logits: Tensor, labels: Tensor) -> float:
    """The mean log-likelihood of labels under logits."""
    return -float(F.cross_entropy(logits, labels))


def probe(net: Net, x: Tensor, labels: Tensor, classes: int, recipe: Recipe) -> float:
    """How well a net's features fit a task that it never saw: the likelihood of unseen labels under a closed-form head."""
    return fit_head(feature_rows(net, x, recipe), labels, classes).likelihood
