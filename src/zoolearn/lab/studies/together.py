"""One net for the first 1, 2, ... n tasks: how each task fares as more are trained with it (the paper's figures 2 and A2)."""

from collections.abc import Mapping
from statistics import median

from zoolearn.lab.figures import Figure, Map, Number
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import mean_and_error
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def specs(setup: Setup) -> list[RunSpec]:
    """Multi-Head on the first tasks, for every number of them."""
    return [_spec(setup, seed, count) for seed in setup.seeds for count in range(1, len(setup.tasks) + 1)]


def _spec(setup: Setup, seed: int, count: int) -> RunSpec:
    return setup.spec("multi-head", seed, first_tasks=count)


def figures(setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
    """Accuracy of every task in every column, coloured against the median of its row."""
    count = len(setup.tasks)
    values: list[list[Number]] = [[None] * count for _ in range(count)]
    errors: list[list[Number]] = [[None] * count for _ in range(count)]
    for column in range(count):
        runs = [outcome[_spec(setup, seed, column + 1).name] for seed in setup.seeds]
        for row in range(column + 1):
            accuracies = [value for run in runs if (value := run.accuracy[-1][row]) is not None]
            values[row][column], errors[row][column] = mean_and_error([100 * value for value in accuracies])
    chart = Map(
        setup.tasks,
        [str(number) for number in range(1, count + 1)],
        values,
        "task",
        "tasks trained together",
        "accuracy, %",
        spread=errors if len(setup.seeds) > 1 else (),
        shades=[_against_median(row) for row in values],
        centred=True,
    )
    return [
        setup.figure(
            "together",
            "One net for more and more tasks",
            "Test accuracy of every task (row) when one Multi-Head net is trained from scratch on the first n "
            f"tasks (column; {setup.conditions}). Colour is the difference from the median of the row: blue above, "
            "orange below. A row that only rose would mean that more tasks always help.",
            chart,
        )
    ]


def _against_median(row: list[Number]) -> list[Number]:
    middle = median([value for value in row if value is not None])
    return [None if value is None else value - middle for value in row]
