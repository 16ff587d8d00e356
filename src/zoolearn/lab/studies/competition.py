"""Which tasks help and which hurt each other: every pair trained together, against each task alone (the paper's figure A1)."""

from collections.abc import Mapping
from itertools import combinations

from zoolearn.lab.figures import Figure, Map, Number
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import mean_and_error
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def specs(setup: Setup) -> list[RunSpec]:
    """Multi-Head on every task alone and on every pair."""
    places = range(len(setup.tasks))
    groups = [(place,) for place in places] + list(combinations(places, 2))
    return [_spec(setup, seed, *group) for seed in setup.seeds for group in groups]


def _spec(setup: Setup, seed: int, *places: int) -> RunSpec:
    return setup.spec("multi-head", seed, only=sorted(places))


def figures(setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
    """The matrix of gains: accuracy of the row task beside the column task, less the row task alone."""
    count = len(setup.tasks)
    gains: list[list[Number]] = [[None] * count for _ in range(count)]
    errors: list[list[Number]] = [[None] * count for _ in range(count)]
    notes = [[""] * count for _ in range(count)]
    for row in range(count):
        alone = [_accuracy(setup, outcome, seed, row, row) for seed in setup.seeds]
        for column in range(count):
            if row == column:
                continue
            together = [_accuracy(setup, outcome, seed, row, row, column) for seed in setup.seeds]
            differences = [pair - single for pair, single in zip(together, alone, strict=True)]
            gains[row][column], errors[row][column] = mean_and_error(differences)
            means = mean_and_error(alone)[0], mean_and_error(together)[0]
            notes[row][column] = f"alone {means[0]:.2f} %, with {setup.tasks[column]} {means[1]:.2f} %"
    clear = [[_is_clear(gains[row][column], errors[row][column]) for column in range(count)] for row in range(count)]
    chart = Map(
        setup.tasks,
        setup.tasks,
        gains,
        "task",
        "trained with",
        "gain over alone, points",
        spread=errors if len(setup.seeds) > 1 else (),
        centred=True,
        marks=clear if len(setup.seeds) > 1 else (),
        mark_style="bold",
        mark_label="beyond two standard errors",
        notes=notes,
    )
    return [
        setup.figure(
            "competition",
            "Pairwise competition: what a second task does to the first",
            "Test accuracy of the row task when a Multi-Head net is trained on it and on the column task, less its "
            f"accuracy when trained alone, in points ({setup.conditions}). Cold colours are gain, warm ones loss. The differences "
            "are taken seed by seed. Bold cells are more than two standard errors from 0; among so many, some are by chance.",
            chart,
        )
    ]


def _accuracy(setup: Setup, outcome: Mapping[str, Results], seed: int, task: int, *places: int) -> float:
    results = outcome[_spec(setup, seed, *places).name]
    value = results.accuracy[-1][results.tasks.index(setup.tasks[task])]
    assert value is not None
    return 100 * value


def _is_clear(mean: Number, error: Number) -> bool:
    return mean is not None and error is not None and abs(mean) > 2 * error
