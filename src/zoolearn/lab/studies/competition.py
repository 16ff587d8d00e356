"""Which tasks help and which hurt each other: every pair trained together, against each task alone (the paper's figure A1)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from zoolearn.lab.figures import Figure
from zoolearn.lab.studies.setup import Setup, mean_and_error
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
    gains: dict[tuple[int, int], list[float]] = {}
    notes = [[""] * count for _ in range(count)]
    for row in range(count):
        alone = [_accuracy(setup, outcome, seed, row, row) for seed in setup.seeds]
        for column in range(count):
            if row != column:
                together = [_accuracy(setup, outcome, seed, row, row, column) for seed in setup.seeds]
                gains[row, column] = [pair - single for pair, single in zip(together, alone, strict=True)]
                pair = f"with {setup.tasks[column]} {fmean(together):.2f} %"
                notes[row][column] = f"alone {fmean(alone):.2f} %, {pair}"
    clear = [[_is_clear(gains.get((row, column), ())) for column in range(count)] for row in range(count)]
    marks = {
        "marks": clear if len(setup.seeds) > 1 else (),
        "mark_style": "bold",
        "mark_label": "beyond two standard errors",
    }
    labels = ("task", "trained with", "gain over alone, points")
    chart = setup.map(setup.tasks, gains, labels, centred=True, notes=notes, **marks)
    caption = (
        "Test accuracy of the row task when a Multi-Head net is trained on it and on the column task, less its "
        f"accuracy when trained alone, in points ({setup.conditions}). Cold colours are gain, warm ones loss. The differences "
        "are taken seed by seed. Bold cells are more than two standard errors from 0; among so many, some are by chance."
    )
    title = "Pairwise competition: what a second task does to the first"
    return [setup.figure("competition", title, caption, chart)]


def _accuracy(setup: Setup, outcome: Mapping[str, Results], seed: int, task: int, *places: int) -> float:
    results = outcome[_spec(setup, seed, *places).name]
    value = results.accuracy[-1][results.tasks.index(setup.tasks[task])]
    assert value is not None
    return 100 * value


def _is_clear(gains: Sequence[float]) -> bool:
    mean, error = mean_and_error(gains) if gains else (0.0, None)
    return error is not None and abs(mean) > 2 * error
