"""The transfer exponent of two tasks (section 2.3 of the paper), estimated from hypotheses whose risks are known.

Definition. With excess risks E_i(h) = e_i(h) - e_i(h*_i) and E_j(h, h*_i) = e_j(h) - e_j(h*_i), rho_ij is the smallest
rho >= 1 with c E_i(h)^(1/rho) >= E_j(h, h*_i) for all h of the class. 1: what is good for i is as good for j; large: a
hypothesis must be very good for i before it is any good for j. It is not symmetric.

Estimator. For c = 1 the condition on one h with 0 < E_i, E_j < 1 reads rho >= log E_i(h) / log E_j(h, h*_i), so

    rho_ij = max(1, max over the h at hand of log E_i(h) / log E_j(h, h*_i)),

where h*_i is the best of them on i. An excess at or below `floor_i` or `floor_j`, the resolution of the test sets, is
taken for 0; where no h is left that loses on both tasks there is no estimate. For nets an h is a backbone with heads fitted
to each task: another object than the theorem's, one hypothesis with one set of labels.

Limits. The maximum runs over a few hypotheses, not the whole class: the estimate is a lower one. The risks are those of
test sets: noise in the largest ratio pushes it up. A larger c would make every exponent smaller: compare exponents with
each other, not with theory.
"""

import math
from collections.abc import Sequence


def exponent(
    risks_i: Sequence[float], risks_j: Sequence[float], floor_i: float = 0.0, floor_j: float = 0.0
) -> float | None:
    """The estimate from the risks of the same hypotheses on both tasks; None where they cannot tell.

    >>> exponent([0.0, 0.04, 0.25], [0.0, 0.2, 0.5])
    2.0
    """
    best = min(range(len(risks_i)), key=lambda place: (risks_i[place], risks_j[place]))
    ratios = []
    for risk_i, risk_j in zip(risks_i, risks_j, strict=True):
        excess_i, excess_j = risk_i - risks_i[best], risk_j - risks_j[best]
        if floor_i < excess_i < 1 and floor_j < excess_j < 1 and excess_j > 0 < excess_i:
            ratios.append(math.log(excess_i) / math.log(excess_j))
    return round(max(1.0, *ratios), 6) if ratios else None


def resolution(risk: float, samples: int) -> float:
    """The standard error of a difference of two risks near `risk`, each measured on `samples` test samples.

    >>> round(resolution(0.5, 500), 4)
    0.0316
    """
    share = min(max(risk, 1 / samples), 1 - 1 / samples)
    return math.sqrt(2 * share * (1 - share) / samples)


def estimate_noise(risk: float, samples: int) -> float:
    """The least excess over `risk` that counts: two standard errors."""
    return 2 * resolution(risk, samples)
