"""How sharp evidence should be made to be believed: the one factor that makes likelihoods of known rows highest."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def fit_temperature(evidence: Sequence[Tensor], owners: Sequence[Tensor]) -> float:
    """The factor by which evidence gives the owners of rows the highest likelihood: the inverse of a temperature.

    Blocks of rows may differ in what can own them. One row more than there are, which anything is as likely to own, keeps
    few rows that are all right from being certain.

    >>> round(fit_temperature([torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])], [torch.tensor([0, 1, 1])]), 1)
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
