"""The measures on matrices done by hand, and the identities that hold for every matrix."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolearn.errors import DataError
from zoolearn.runs import metrics

# Task 0: 0.8, then 0.9, then 0.6. Task 1: 0.7, then 0.5. Task 2: 0.9.
BY_HAND = [[0.8], [0.9, 0.7], [0.6, 0.5, 0.9]]

# A learner that trains once at the end has nothing to say before.
ONLY_AT_THE_END = [[None], [None, None], [0.5, 0.75, 1.0]]

OF_A_MATRIX = [
    metrics.average_accuracy,
    metrics.forgetting,
    metrics.forward_transfer,
    metrics.backward_transfer,
]


def matrices(smallest=1, largest=7):
    accuracies = st.floats(0, 1)
    return st.integers(smallest, largest).flatmap(
        lambda size: st.tuples(*(st.lists(accuracies, min_size=k + 1, max_size=k + 1) for k in range(size)))
    )


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (metrics.average_accuracy, (0.6 + 0.5 + 0.9) / 3),
        (metrics.forgetting, ((0.9 - 0.6) + (0.7 - 0.5)) / 2),
        (metrics.forward_transfer, (0.8 + 0.7 + 0.9) / 3),
        (metrics.backward_transfer, ((0.6 - 0.8) + (0.5 - 0.7)) / 2),
    ],
)
def test_a_matrix_done_by_hand(measure, expected):
    assert measure(BY_HAND) == pytest.approx(expected)


def test_forgetting_counts_a_best_at_the_end_as_nothing_lost():
    matrix = [[0.5], [0.6, 0.4], [0.9, 0.4, 0.7]]
    assert metrics.forgetting(matrix) == 0.0


def test_the_running_average_is_the_mean_of_each_row():
    assert metrics.running_average(BY_HAND) == pytest.approx([0.8, 0.8, 2.0 / 3])
    assert metrics.running_average(ONLY_AT_THE_END) == [None, None, 0.75]


def test_a_learner_that_answers_only_at_the_end_has_an_accuracy_and_no_transfer():
    assert metrics.average_accuracy(ONLY_AT_THE_END) == 0.75
    for measure in OF_A_MATRIX[1:]:
        assert measure(ONLY_AT_THE_END) is None


def test_one_missing_answer_silences_only_the_measures_that_need_it():
    matrix = [[0.8], [None, 0.7], [0.6, 0.5, 0.9]]
    assert metrics.forgetting(matrix) is None
    assert metrics.average_accuracy(matrix) == metrics.average_accuracy(BY_HAND)
    assert metrics.forward_transfer(matrix) == metrics.forward_transfer(BY_HAND)
    assert metrics.backward_transfer(matrix) == metrics.backward_transfer(BY_HAND)


def test_with_one_task_there_is_nothing_earlier_to_forget_or_improve():
    for measure in (metrics.forgetting, metrics.backward_transfer):
        assert measure([[0.4]]) is None
    assert metrics.average_accuracy([[0.4]]) == metrics.forward_transfer([[0.4]]) == 0.4


def test_before_the_first_episode_nothing_can_be_said():
    assert [measure([]) for measure in OF_A_MATRIX] == [None] * len(OF_A_MATRIX)
    assert metrics.running_average([]) == []


def test_numbers_of_numpy_are_numbers():
    assert metrics.average_accuracy([[np.float32(0.5)]]) == 0.5


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5], [0.5]], r"row 1 of the accuracy matrix has 1 entry; .* so give 2"),
        ([[0.5, 0.5]], r"row 0 of the accuracy matrix has 2 entries; .* so give 1"),
        ([[0.5], [0.5, 73.67]], r"row 1 .* holds 73.67 for task 1; accuracies are fractions"),
        ([[-0.1]], r"holds -0.1 for task 0"),
        ([[math.nan]], r"holds nan for task 0"),
        ([[True]], r"holds True for task 0"),
        ([["0.5"]], r"holds '0.5' for task 0"),
    ],
)
@pytest.mark.parametrize("measure", [*OF_A_MATRIX, metrics.running_average])
def test_what_is_not_a_triangle_of_fractions_is_refused(measure, matrix, message):
    with pytest.raises(DataError, match=message):
        measure(matrix)


@given(matrices())
def test_final_accuracy_is_accuracy_when_learned_plus_what_came_after(matrix):
    size = len(matrix)
    after = (size - 1) / size * (metrics.backward_transfer(matrix) or 0.0)
    assert metrics.average_accuracy(matrix) == pytest.approx(metrics.forward_transfer(matrix) + after, abs=1e-12)


@given(matrices(smallest=2))
def test_forgetting_is_never_negative_nor_less_than_what_was_lost_since_learning(matrix):
    assert metrics.forgetting(matrix) >= 0
    assert metrics.forgetting(matrix) >= -metrics.backward_transfer(matrix) - 1e-12


@given(matrices(smallest=2))
def test_forgetting_mirrors_backward_transfer_when_tasks_are_best_just_learned(matrix):
    sinking = [[min(value, matrix[task][task]) for task, value in enumerate(row)] for row in matrix]
    assert metrics.forgetting(sinking) == pytest.approx(-metrics.backward_transfer(sinking), abs=1e-12)


@given(st.floats(0, 1), st.integers(2, 8))
def test_a_constant_matrix_neither_forgets_nor_transfers(accuracy, size):
    matrix = [[accuracy] * (k + 1) for k in range(size)]
    assert metrics.forgetting(matrix) == metrics.backward_transfer(matrix) == 0
    assert metrics.average_accuracy(matrix) == pytest.approx(accuracy)


@given(matrices(smallest=2))
def test_forgetting_equals_its_formula_in_exact_arithmetic(matrix):
    size = len(matrix)
    total = sum(max(Fraction(matrix[k][j]) for k in range(j, size)) - Fraction(matrix[-1][j]) for j in range(size - 1))
    assert metrics.forgetting(matrix) == pytest.approx(float(total / (size - 1)), abs=1e-12)


# Task 0 comes, then task 1, then more of task 0, then more of task 1, then task 2.
IN_PARTS = [[0.8], [0.9, 0.7], [0.6, 0.5], [0.7, 0.4], [0.5, 0.3, 1.0]]
ARRIVALS = [0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (metrics.average_accuracy, (0.5 + 0.3 + 1.0) / 3),
        (metrics.forward_transfer, (0.8 + 0.7 + 0.6 + 0.4 + 1.0) / 5),
        (metrics.forgetting, ((0.7 - 0.5) + (0.4 - 0.3)) / 2),  # the 0.9 was of fewer classes
        (metrics.backward_transfer, ((0.5 - 0.6) + (0.3 - 0.4)) / 2),
    ],
)
def test_a_task_that_came_in_parts_is_measured_as_it_is_since_the_last_of_them(measure, expected):
    assert measure(IN_PARTS, ARRIVALS) == pytest.approx(expected)


def test_the_running_average_is_over_the_tasks_as_they_were_then():
    assert metrics.running_average(IN_PARTS, ARRIVALS) == pytest.approx([0.8, 0.8, 0.55, 0.55, 0.6])


@given(matrices())
def test_where_every_episode_brings_a_new_task_arrivals_change_nothing(matrix):
    for measure in OF_A_MATRIX:
        assert measure(matrix, range(len(matrix))) == measure(matrix)


def test_a_row_of_parts_holds_the_tasks_met():
    with pytest.raises(
        DataError, match="row 2 of the accuracy matrix has 3 entries; row k holds the tasks met, so give 2"
    ):
        metrics.check([[0.5], [0.5, 0.5], [0.5, 0.5, 0.5]], [0, 1, 0])
