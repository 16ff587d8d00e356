"""A linear head from statistics of stored features: a discriminant whose hyper-parameters are chosen by exact leave-one-out.

Classes are Gaussian with one shared covariance, shrunk towards the identity. Shrinkage and sharpness are chosen by the
likelihood of each row under a head made without it; leaving a row out moves one mean and removes one direction from the
covariance, which has a closed form (Sherman and Morrison, 1950). Distances from means of few rows are biased upwards;
the bias is subtracted.

Rows are features of unit length in steps of 2^-15. Products of such numbers add up exactly in float64, up to 8 million
rows, and everything else is computed in an order decided by the values. So a head is a function of the set of its rows:
it has the same bits in whichever order they and their classes came, and whatever else was there and is forgotten.
"""

from dataclasses import dataclass, replace
from math import ceil, inf, nan

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.beyond.temperature import fit_inverse_temperature
from zoolearn.data.task import STEP
from zoolearn.errors import DataError

UNIT = round(1 / STEP)  # the length of a row in steps
MOST_ROWS = 2**23  # above, sums of products of steps would be rounded
JUDGES = 5000  # rows at most for leave-one-out
SHRINKAGES = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999)
SHARPNESS = 11.5  # the default, if no class has two different rows
STRANGE = 0.05  # share of unseen rows that are farther from every class than an input may be


@dataclass(frozen=True)
class Metric:
    """A squared distance: isotropic, plus terms along some axes."""

    everywhere: float
    axes: Tensor
    along: Tensor

    def squares(self, x: Tensor) -> Tensor:
        """The squared distance of every row from the origin."""
        return self.everywhere * x.square().sum(dim=1) + (x @ self.axes).square() @ self.along


@dataclass(frozen=True)
class StatHead:
    """Weights and biases of a head, and the leave-one-out log-likelihoods of rows.

    `shrinkage` and `sharpness` are chosen by them; there are none if no class has two rows.
    """

    weight: Tensor
    bias: Tensor
    metric: Metric
    shrinkage: float
    sharpness: float
    unseen: Tensor  # the log-likelihood of each of these rows
    far: float  # the distance from every class that few of them are beyond

    @property
    def likelihood(self) -> float:
        return float(self.unseen.mean()) if len(self.unseen) else nan

    def logits(self, rows: Tensor) -> Tensor:
        """The logits of rows of steps."""
        return features(rows) @ self.weight.T + self.bias

    def densities(self, rows: Tensor) -> Tensor:
        """The log-density of rows of steps in each class, up to a constant."""
        return self.logits(rows) - self.sharpness / 2 * self.metric.squares(features(rows))[:, None]

    def strange(self, rows: Tensor) -> Tensor:
        """Which rows of steps are farther from every class than nearly all left-out rows."""
        return self.densities(rows).max(dim=1).values < -self.sharpness / 2 * self.far


def features(rows: Tensor) -> Tensor:
    """The features that rows of steps stand for."""
    return rows.double() / UNIT


def stat_head(rows: Tensor, labels: Tensor, classes: int) -> StatHead:
    """The head of these rows (of unit length, in steps) with the highest leave-one-out likelihood.

    >>> rows = torch.tensor([[32767, 0], [32000, 7052], [0, 32767], [7052, 32000]], dtype=torch.int16)
    >>> head = stat_head(rows, torch.tensor([0, 0, 1, 1]), classes=2)
    >>> head.logits(rows).argmax(dim=1).tolist()
    [0, 0, 1, 1]
    """
    _check(rows, labels, classes)
    order, places = _order_by_value(rows, labels, classes)
    head = _fit(rows[order], places[labels[order]], classes)
    return replace(head, weight=head.weight[places], bias=head.bias[places])


def _check(rows: Tensor, labels: Tensor, classes: int) -> None:
    if rows.dtype != torch.int16 or rows.ndim != 2:
        raise DataError(
            f"rows are {rows.dtype} {tuple(rows.shape)}; a head from statistics takes int16 (rows, features)"
        )
    if len(rows) > MOST_ROWS:
        raise DataError(f"{len(rows)} rows; above {MOST_ROWS} their sums would not be exact: leave some out")
    empty = (torch.bincount(labels, minlength=classes) == 0).nonzero()
    if classes < 2 or len(empty):
        missing = f"none of class {int(empty[0])}" if len(empty) else f"{classes} class"
        raise DataError(f"{len(rows)} rows and {missing}; a head needs two classes or more and a row of each")


def _order_by_value(rows: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Rows sorted by class and value, classes by the values of their rows; and the position of every class."""
    values = [row.tobytes() for row in rows.numpy()]
    members: list[list[int]] = [[] for _ in range(classes)]
    for row, label in enumerate(labels.tolist()):
        members[label].append(row)
    for own in members:
        own.sort(key=values.__getitem__)
    by_value = sorted(range(classes), key=lambda label: [values[row] for row in members[label]])
    return torch.tensor([row for label in by_value for row in members[label]]), torch.tensor(by_value).argsort()


def _fit(rows: Tensor, labels: Tensor, classes: int) -> StatHead:
    """The head of sorted rows, with the shrinkage of the highest leave-one-out likelihood."""
    steps, counts = rows.double(), torch.bincount(labels).double()
    sums = F.one_hot(labels, classes).double().T @ steps  # exact, as all sums of steps and of their products
    means = sums / counts[:, None] / UNIT
    x = steps / UNIT
    within = x - means[labels]
    if not within.any():
        return _fit_means(means)
    freedom = float(len(rows) - classes)
    scatter = (steps.T @ steps - sums.T @ (sums / counts[:, None])) / UNIT**2 if len(rows) >= rows.shape[1] else None
    squares, axes = _axes_of_few(within) if scatter is None else torch.linalg.eigh(scatter)
    variances = squares.clamp_min(0.0) / freedom
    judges = (counts[labels] > 1).nonzero()[:, 0]
    judges = judges[:: ceil(len(judges) / JUDGES)]
    left_out = _LeftOut(x[judges], labels[judges], means, counts, axes, variances, freedom)
    return max((left_out.judge(shrinkage) for shrinkage in SHRINKAGES), key=lambda head: head.likelihood)


def _axes_of_few(within: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of squares along the principal axes, and the axes, with fewer rows than features."""
    squares, turned = torch.linalg.eigh(within @ within.T)
    kept = squares > squares[-1] * 1e-12
    return squares[kept], within.T @ (turned[:, kept] / squares[kept].sqrt())


def _fit_means(means: Tensor) -> StatHead:
    """The head if rows do not scatter within classes: the nearest mean, at a default sharpness.

    A single row may by chance lie near the centre of all, and would then be near to everything: all are assumed to
    be equally far from it. Measured at one row a class: half a point to a point more.
    """
    none = torch.empty(0, dtype=means.dtype)
    metric = Metric(1.0, torch.empty(means.shape[1], 0, dtype=means.dtype), none)
    centre = means.mean(dim=0)
    away = means - centre
    weight = SHARPNESS * away.square().sum(dim=1).mean().sqrt() * F.normalize(away, dim=1)
    return StatHead(weight, -weight @ centre, metric, 1.0, SHARPNESS, none, inf)


class _LeftOut:
    """Scores heads by leave-one-out; what all shrinkages have in common is computed once."""

    def __init__(
        self, x: Tensor, labels: Tensor, means: Tensor, counts: Tensor, axes: Tensor, variances: Tensor, freedom: float
    ) -> None:
        self.labels, self.own = labels, labels[:, None]
        self.means, self.counts, self.axes, self.variances = means, counts, axes, variances
        self.freedom, self.mean_variance = freedom, float(variances.sum()) / means.shape[1]
        self.grown = counts[labels] / (counts[labels] - 1)  # how much farther a mean is from a row that it lost
        self.x_turned, self.means_turned = x @ axes, means @ axes
        self.xx, self.xm, self.mm = x.square().sum(dim=1), x @ means.T, means @ means.T

    def judge(self, shrinkage: float) -> StatHead:
        """The head of one shrinkage, at the sharpness of the highest leave-one-out likelihood."""
        ball = shrinkage * self.mean_variance
        metric = Metric(1 / ball, self.axes, 1 / ((1 - shrinkage) * self.variances + ball) - 1 / ball)
        weighted = self.means_turned * metric.along
        xx = metric.everywhere * self.xx + self.x_turned.square() @ metric.along
        xm = metric.everywhere * self.xm + self.x_turned @ weighted.T
        mm = metric.everywhere * self.mm + weighted @ self.means_turned.T
        distances = xx[:, None] - 2 * xm + mm.diagonal()
        cross = xx[:, None] - xm - xm.gather(1, self.own) + mm[self.labels]  # (x - its mean)' P (x - each mean)
        removed = (1 - shrinkage) / self.freedom * self.grown  # of the scatter, along x - its mean
        own = distances.gather(1, self.own)[:, 0]
        rest = 1 - removed * own
        own = self.grown.square() * own / rest
        noise = float((own / self.grown).mean())  # the trace of P times scatter, as unseen rows find it
        left_out = distances + (removed / rest)[:, None] * cross.square() - noise / self.counts
        left_out.scatter_(1, self.own, (own - noise * (self.grown - 1))[:, None])
        sharpness = fit_inverse_temperature([-left_out / 2], [self.labels])
        unseen = torch.log_softmax(-sharpness / 2 * left_out, dim=1).gather(1, self.own)[:, 0]
        weight = sharpness * (metric.everywhere * self.means + weighted @ self.axes.T)
        bias = -sharpness / 2 * (mm.diagonal() - noise / self.counts)
        far = float(left_out.min(dim=1).values.quantile(1 - STRANGE))
        return StatHead(weight, bias, metric, shrinkage, sharpness, unseen, far)
