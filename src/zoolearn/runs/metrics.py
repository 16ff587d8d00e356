"""What is read off an accuracy matrix: the paper's four measures.

Row k of the matrix holds, after episode k, the fraction of test samples answered rightly for each of the tasks 0 to k.
An entry is None where a learner had no answer yet; a measure that needs such an entry is None, and so is one that has
nothing to average over (forgetting needs an earlier task). The formulas count T rows and T tasks from 0:

    R[k][j]   accuracy on task j after episode k, j <= k
    D(j) = R[j][j]        right after learning task j
    E(j) = R[T-1][j]      at the end

A task can come in parts. `arrivals` then tells for every episode the number of the task that it brought more of, and row k
holds the tasks met by then, each as it was then: an accuracy among four classes is no sequel of one among three. So D(j) is
right after the last part of task j, forgetting looks back no further, and forward transfer is the mean over all episodes.

A matrix that is not such a triangle of fractions is a DataError.
"""

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from statistics import fmean
from typing import Any

from zoolearn.errors import DataError

Row = Sequence[float | None]
Matrix = Sequence[Row]
Arrivals = Sequence[int] | None


def average_accuracy(matrix: Matrix, arrivals: Arrivals = None) -> float | None:
    """Mean accuracy over all tasks at the end: (1/T) sum_j E(j).

    >>> average_accuracy([[0.75], [0.5, 1.0]])
    0.75
    """
    check(matrix, arrivals)
    return _mean(matrix[-1]) if matrix else None


def running_average(matrix: Matrix, arrivals: Arrivals = None) -> list[float | None]:
    """Mean accuracy over the tasks met so far, after each episode: A(k) = (1/(k+1)) sum_{j<=k} R[k][j].

    >>> running_average([[0.75], [0.5, 1.0]])
    [0.75, 0.75]
    """
    check(matrix, arrivals)
    return [_mean(row) for row in matrix]


def forgetting(matrix: Matrix, arrivals: Arrivals = None) -> float | None:
    """How far the earlier tasks ended below their best: (1/(T-1)) sum_{j<T-1} (max_k R[k][j] - E(j)), never negative.

    >>> forgetting([[0.75], [0.5, 1.0]])
    0.25
    >>> forgetting([[0.5], [0.75, 1.0]])
    0.0
    """
    check(matrix, arrivals)
    since = _since_learned(matrix, arrivals)
    return _mean([_minus(_highest(column), column[-1]) for column in since])


def forward_transfer(matrix: Matrix, arrivals: Arrivals = None) -> float | None:
    """Mean accuracy right after a task is learned, which others call learning accuracy: (1/T) sum_j D(j).

    >>> forward_transfer([[0.75], [0.5, 1.0]])
    0.875
    >>> forward_transfer([[0.75], [0.5, 1.0], [0.25, 1.0]], arrivals=[0, 1, 0])
    0.6666666666666666
    """
    check(matrix, arrivals)
    return _mean([row[task] for row, task in zip(matrix, _places(matrix, arrivals), strict=True)])


def backward_transfer(matrix: Matrix, arrivals: Arrivals = None) -> float | None:
    """How much later episodes moved the earlier tasks, up is good: (1/(T-1)) sum_{j<T-1} (E(j) - D(j)).

    >>> backward_transfer([[0.75], [0.5, 1.0]])
    -0.25
    """
    check(matrix, arrivals)
    return _mean([_minus(column[-1], column[0]) for column in _since_learned(matrix, arrivals)])


def check(matrix: Matrix, arrivals: Arrivals = None) -> None:
    """Raises if a matrix is not a triangle of fractions, naming the row.

    >>> check([[0.5], [0.5]])
    Traceback (most recent call last):
    zoolearn.errors.DataError: row 1 of the accuracy matrix has 1 entry; row k holds the tasks 0 to k, so give 2
    """
    places = _places(matrix, arrivals)
    for episode, row in enumerate(matrix):
        met = 1 + max(places[: episode + 1])
        if len(row) != met:
            entries = "1 entry" if len(row) == 1 else f"{len(row)} entries"
            held = "the tasks 0 to k" if arrivals is None else "the tasks met"
            raise DataError(f"row {episode} of the accuracy matrix has {entries}; row k holds {held}, so give {met}")
        _check_row(row, f"row {episode} of the accuracy matrix")


def _places(matrix: Matrix, arrivals: Arrivals) -> Sequence[int]:
    """The number of the task of each episode."""
    return range(len(matrix)) if arrivals is None else arrivals[: len(matrix)]


def _since_learned(matrix: Matrix, arrivals: Arrivals) -> list[Row]:
    """The accuracies of each task from its last arrival on, without the last episode's task."""
    last = {task: episode for episode, task in enumerate(_places(matrix, arrivals))}
    earlier = sorted(task for task, episode in last.items() if episode < len(matrix) - 1)
    return [[row[task] for row in matrix[last[task] :]] for task in earlier]


def _check_row(row: Row, where: str) -> None:
    numbers: Any = row
    if {*map(type, row)} == {float} and isfinite(sum(numbers)) and min(numbers) >= 0.0 and max(numbers) <= 1.0:
        return  # the usual case, at once
    for task, value in enumerate(row):
        if value is not None and not _is_fraction(value):
            raise DataError(f"{where} holds {value!r} for task {task}; accuracies are fractions from 0 to 1, or None")


def _is_fraction(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1


def _highest(values: Row) -> float | None:
    present = _present(values)
    return max(present) if present else None


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _mean(values: Row) -> float | None:
    present = _present(values)
    return fmean(present) if present else None


def _present(values: Row) -> list[float]:
    """The values; empty if one is missing."""
    present = [value for value in values if value is not None]
    return present if len(present) == len(values) else []
