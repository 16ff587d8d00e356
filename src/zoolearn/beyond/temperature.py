"""Temperature scaling (Guo et al., 2017): of scores, and of probabilities."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

PRIOR_ROWS = 10  # the weight of the prior at temperature 1, in rows
LEAST, MOST = 0.1, 10.0  # temperatures
TINY = torch.finfo(torch.float32).tiny


def fit_inverse_temperature(evidence: Sequence[Tensor], owners: Sequence[Tensor]) -> float:
    """The inverse temperature at which scores give the true columns of rows the highest likelihood.

    Blocks of rows may have different columns. One more row, equally likely in every column, keeps a few rows that
    are all right from being certain.

    >>> round(fit_inverse_temperature([torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])], [torch.tensor([0, 1, 1])]), 1)
    0.5
    """
    rows = sum(map(len, evidence))
    doubt = 1.0 / (rows + 1)
    named = sum(
        float((1 - doubt) * block.gather(1, own[:, None]).sum() + doubt * block.mean(dim=1).sum())
        for block, own in zip(evidence, owners, strict=True)
    )
    low, high = 1e-6, 1e3
    for _ in range(40):  # the slope of the likelihood falls with the factor, so halving the range finds its zero
        middle = math.sqrt(low * high)
        expected = sum(float((torch.softmax(middle * block, dim=1) * block).sum()) for block in evidence)
        low, high = (middle, high) if named > expected else (low, middle)
    return math.sqrt(low * high)


def fit_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """The temperature at which probabilities give labels the highest likelihood, regularised towards 1.

    It is raised if answers would be overconfident on average. The labels count beside those of `PRIOR_ROWS` more
    rows, distributed as the answers say, which favour 1.

    >>> sure = torch.tensor([[0.99, 0.01]] * 100)
    >>> fit_temperature(sure, torch.arange(100) % 10 // 9) > 1.5, fit_temperature(sure[:2], torch.tensor([0, 0])) > 0.8
    (True, True)
    """
    given = probabilities.double()
    evidence = given.clamp_min(TINY).log()
    prior = PRIOR_ROWS / len(labels)
    named = float(evidence.gather(1, labels[:, None]).sum() + prior * (given * evidence).sum())
    best, chosen = given.max(dim=1)
    right = float((chosen == labels).sum() + prior * best.sum())

    def is_too_high(temperature: float) -> bool:
        at = torch.softmax(evidence / temperature, dim=1)
        is_likelier_below = named > (1 + prior) * float((at * evidence).sum())
        return is_likelier_below and (1 + prior) * float(at.max(dim=1).values.sum()) < right

    low, high = LEAST, MOST
    for _ in range(40):  # both ask for less above some temperature and for more below it
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_too_high(middle) else (middle, high)
    return math.sqrt(low * high)


def cross_fit_temperature(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Probabilities to measure calibration by: each half of the rows at the temperature that is fitted to the other.

    The halves are every other row of each class.
    """
    half = torch.empty_like(labels)
    half[labels.argsort(stable=True)] = torch.arange(len(labels)) % 2
    found = torch.empty_like(probabilities)
    for own in (half == 0, half == 1):
        found[own] = apply_temperature(probabilities[own], fit_temperature(probabilities[~own], labels[~own]))
    return found


def apply_temperature(probabilities: Tensor, temperature: float) -> Tensor:
    """Probabilities at a temperature: above 1 less confident; the most probable class stays.

    >>> apply_temperature(torch.tensor([[0.8, 0.2]]), 2.0).round(decimals=3).tolist()
    [[0.6669999957084656, 0.3330000042915344]]
    """
    if temperature == 1.0:
        return probabilities
    return torch.softmax(probabilities.clamp_min(TINY).log() / temperature, dim=1)
