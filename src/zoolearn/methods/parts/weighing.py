"""How often past tasks come up again: their weights, made of the zoo's losses."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Weigh = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def boosted(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's weights, exp(mean negative log-likelihood): tasks that the zoo finds hard come up more often.

    >>> boosted(np.array([0.0, np.log(3.0)])).tolist()
    [0.25, 0.75]
    """
    weights = np.exp(losses - losses.max())
    return np.asarray(weights / weights.sum())


def released(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of the authors' code: exp((loss - mean) / |mean|), kept within 1e-4 and 1e3."""
    mean = losses.mean()
    relative = (losses - mean) / abs(mean) if mean else np.zeros_like(losses)
    weights = np.clip(np.exp(np.minimum(relative, 50.0)), 1e-4, 1e3)
    return np.asarray(weights / weights.sum())


def uniform(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same weight for every past task."""
    return np.full(len(losses), 1.0 / len(losses))


WEIGH: dict[str, Weigh] = {"boosted": boosted, "released": released, "uniform": uniform}
