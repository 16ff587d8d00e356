"""What is read off an accuracy matrix: the paper's four measures.

Row k of the matrix holds, after episode k, the fraction of test samples answered rightly for each of the tasks 0 to k.
An entry is None where a learner had no answer yet; a measure that needs such an entry is None, and so is one that has
nothing to average over (forgetting needs an earlier task). The formulas count T rows and T tasks from 0:

    R[k][j]   accuracy on task j after episode k, j <= k
    D(j) = R[j][j]        right after learning task j
    E(j) = R[T-1][j]      at the end

A matrix that is not such a triangle of fractions is a DataError.
"""

from collections.abc import Sequence
from numbers import Real
from statistics import fmean

from zoolearn.errors import DataError

Row = Sequence[float | None]
Matrix = Sequence[Row]


def average_accuracy(matrix: Matrix) -> float | None:
    """Mean accuracy over all tasks at the end: (1/T) sum_j E(j).

    >>> average_accuracy([[0.75], [0.5, 1.0]])
    0.75
    """
    check(matrix)
    return _mean(matrix[-1]) if matrix else None


def running_average(matrix: Matrix) -> list[float | None]:
    """Mean accuracy over the tasks met so far, after each episode: A(k) = (1/(k+1)) sum_{j<=k} R[k][j].

    >>> running_average([[0.75], [0.5, 1.0]])
    [0.75, 0.75]
    """
    check(matrix)
    return [_mean(row) for row in matrix]


def forgetting(matrix: Matrix) -> float | None:
    """How far the earlier tasks ended below their best: (1/(T-1)) sum_{j<T-1} (max_k R[k][j] - E(j)), never negative.

    >>> forgetting([[0.75], [0.5, 1.0]])
    0.25
    >>> forgetting([[0.5], [0.75, 1.0]])
    0.0
    """
    return _mean(_drops(matrix))


def forward_transfer(matrix: Matrix) -> float | None:
    """Mean accuracy right after a task is learned, which others call learning accuracy: (1/T) sum_j D(j).

    >>> forward_transfer([[0.75], [0.5, 1.0]])
    0.875
    """
    check(matrix)
    return _mean([row[-1] for row in matrix])


def backward_transfer(matrix: Matrix) -> float | None:
    """How much later episodes moved the earlier tasks, up is good: (1/(T-1)) sum_{j<T-1} (E(j) - D(j)).

    >>> backward_transfer([[0.75], [0.5, 1.0]])
    -0.25
    """
    return _mean(_gains(matrix)[:-1])


def check(matrix: Matrix) -> None:
    """Refuses what is not a triangle of fractions, naming the row.

    >>> check([[0.5], [0.5]])
    Traceback (most recent call last):
    zoolearn.errors.DataError: row 1 of the accuracy matrix has 1 entry; row k holds the tasks 0 to k, so give 2
    """
    for episode, row in enumerate(matrix):
        if len(row) != episode + 1:
            entries = "1 entry" if len(row) == 1 else f"{len(row)} entries"
            raise DataError(
                f"row {episode} of the accuracy matrix has {entries}; row k holds the tasks 0 to k, so give {episode + 1}"
            )
        _check_row(row, f"row {episode} of the accuracy matrix")


def _check_row(row: Row, where: str) -> None:
    if all(type(value) is float and 0.0 <= value <= 1.0 for value in row):  # the usual case, at once
        return
    for task, value in enumerate(row):
        if value is not None and not _is_fraction(value):
            raise DataError(f"{where} holds {value!r} for task {task}; accuracies are fractions from 0 to 1, or None")


def _is_fraction(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1


def _gains(matrix: Matrix) -> list[float | None]:
    check(matrix)
    learned = [row[-1] for row in matrix]
    return [_minus(end, first) for end, first in zip(matrix[-1], learned, strict=True)] if matrix else []


def _drops(matrix: Matrix) -> list[float | None]:
    check(matrix)
    columns = [[row[task] for row in matrix[task:]] for task in range(len(matrix) - 1)]
    return [_minus(_highest(column), column[-1]) for column in columns]


def _highest(values: Row) -> float | None:
    present = _present(values)
    return max(present) if present else None


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _mean(values: Row) -> float | None:
    present = _present(values)
    return fmean(present) if present else None


def _present(values: Row) -> list[float]:
    """The values, or none of them where one is missing."""
    present = [value for value in values if value is not None]
    return present if len(present) == len(values) else []
