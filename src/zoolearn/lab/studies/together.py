"""One net for the first 1, 2, ... n tasks: how each task fares as more are trained with it (the paper's figures 2 and A2)."""

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import structs

from zoolearn.lab.figures import Figure, Number
from zoolearn.lab.studies.setup import Setup
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def specs(setup: Setup) -> list[RunSpec]:
    """Multi-Head on the first tasks, for every number of them."""
    return [_spec(setup, seed, count) for seed in setup.seeds for count in range(1, len(setup.tasks) + 1)]


def _spec(setup: Setup, seed: int, count: int) -> RunSpec:
    return setup.spec("multi-head", seed, first_tasks=count)


def figures(setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
    """Accuracy of every task in every column, coloured against the median of its row."""
    columns = [str(number) for number in range(1, len(setup.tasks) + 1)]
    samples = {}
    for column in range(len(columns)):
        runs = [outcome[_spec(setup, seed, column + 1).name] for seed in setup.seeds]
        for row in range(column + 1):
            known = [value for run in runs if (value := run.accuracy[-1][row]) is not None]
            samples[row, column] = [100 * value for value in known]
    chart = setup.map(columns, samples, ("task", "tasks trained together", "accuracy, %"), centred=True)
    chart = structs.replace(chart, shades=[_against_median(row) for row in chart.values])
    caption = (
        "Test accuracy of every task (row) when one Multi-Head net is trained from scratch on the first n "
        f"tasks (column; {setup.conditions}). Colour is the difference from the median of the row: blue above, "
        "orange below. A row that only rose would mean that more tasks always help."
    )
    return [setup.figure("together", "One net for more and more tasks", caption, chart)]


def _against_median(row: Sequence[Number]) -> list[Number]:
    middle = median([value for value in row if value is not None])
    return [None if value is None else value - middle for value in row]
