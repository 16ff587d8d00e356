"""The board of equal conditions: every method with one net, one recipe and one pass over the data, at three memory budgets.

What is free of a method's settings (a learning rate, a strength, the size of memory batches) is chosen by one small search,
the same for all, on a development stream that is judged by training rows set aside. No test row is ever asked by a search.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from zoolearn.files import Json
from zoolearn.lab.paper.compare import runs_of
from zoolearn.lab.paper.rows import Row
from zoolearn.lab.published import CHAINS, FLIPS, ONE_PASS
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

NAME = "equal-conditions"
STREAMS = ("split-cifar100", "coarse-cifar100")
DEVELOPMENT: dict[str, Json] = {"first_tasks": 5, "validation": 20}  # of Coarse-CIFAR100: 25 of its 100 classes
DEVELOPMENT_STREAM = "coarse-cifar100"
SHARE = 4  # classes of the stream for each of the development stream
RECIPE: dict[str, Json] = {"backbone": "small-conv", "epochs": 1, "batch_size": 16}  # the rest is the recipe's default
MOST_TRIALS = 8

NONE, SOME, ALL = "no-memory", "memory-5000", "memory-all"
BUDGETS = {NONE: "no stored samples", SOME: "5,000 stored samples", ALL: "all samples stored"}
RATES = (0.003, 0.01, 0.03, 0.1)
FEW_RATES = (0.01, 0.03)
ADAM_RATES = (3e-4, 1e-3, 3e-3, 1e-2)

Grid = Mapping[str, tuple[Json, ...]]


@dataclass(frozen=True)
class Entry:
    """A method at a budget: what is fixed of its settings, and a grid of those that are chosen."""

    name: str
    method: str
    budget: str
    grid: Grid
    settings: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert len(self.points) <= MOST_TRIALS, self.name

    @property
    def points(self) -> list[dict[str, Json]]:
        """Every choice of the free settings."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    def trial(self, point: Mapping[str, Json]) -> RunSpec:
        """The run on the development stream that tries some settings; a memory that is counted in all has its share there."""
        settings = {**RECIPE, **self.settings, **point}
        if "memory_per" not in settings and "memory_size" in settings:
            settings["memory_size"] = int(settings["memory_size"]) // SHARE
        return RunSpec(self.method, DEVELOPMENT_STREAM, settings, DEVELOPMENT)

    @property
    def trials(self) -> list[RunSpec]:
        return [self.trial(point) for point in self.points]

    def row(self, stream: str, point: Mapping[str, Json]) -> Row:
        """The runs of the board, with settings that were chosen."""
        return Row(self.name, RunSpec(self.method, stream, {**RECIPE, **self.settings, **point}), {})


def _memory(budget: str) -> dict[str, Json]:
    return {"memory_size": 5_000 if budget == SOME else 50_000}


BY_CLASS: dict[str, Json] = {"memory_size": 50, "memory_per": "class"}  # 5,000 of 100 classes
REPLAY: Grid = {"lr": RATES, "memory_batch": (0, 32)}
GUIDED: Grid = {"lr": RATES, "memory_batch": (64, 256)}
TRICKS: dict[str, Json] = {"heads": "refit", "flip_tta": True}  # of preset beyond, for a net that is there already
BEYOND: dict[str, Json] = {**ONE_PASS, **CHAINS, **FLIPS}  # with one chain, a single net that learns on answers
APART: dict[str, Json] = {  # a chain for each task: nets that share nothing, with all of beyond that such nets can have
    "grow": "warm-start", "chains": 20, "replay": 0.0, "tasks_per_episode": 1, "all_tasks": False,
    "whiten": True, "read_layers": True, **FLIPS,
}  # fmt: skip
ONE_RATE: Grid = {"lr": RATES}

ENTRIES: tuple[Entry, ...] = (
    Entry("fine-tune", "fine-tune", NONE, ONE_RATE),
    Entry("isolated", "isolated", NONE, ONE_RATE),
    Entry("stable-sgd", "stable-sgd", NONE, {"lr": (0.03, 0.1), "lr_decay": (0.8, 0.9)}),
    Entry("lwf", "lwf", NONE, {"lr": FEW_RATES, "strength": (0.3, 1.0, 3.0, 10.0)}),
    Entry("ewc", "ewc", NONE, {"lr": FEW_RATES, "strength": (10.0, 100.0, 1000.0, 10_000.0)}),
    Entry("si", "si", NONE, {"lr": FEW_RATES, "strength": (0.1, 1.0, 10.0, 100.0)}),
    Entry("ogd", "ogd", NONE, ONE_RATE),
    Entry("tag", "tag", NONE, {"lr": (1e-4, 2.5e-4, 5e-4, 1e-3), "contrast": (3.0, 5.0)}),
    Entry("hat", "hat", NONE, {"lr": (0.01, 0.03, 0.1, 0.3), "sparsity": (0.25, 0.75)}),
    Entry("rmn", "rmn", NONE, ONE_RATE),
    Entry("progressive", "progressive", NONE, ONE_RATE),
    Entry("apd", "apd", NONE, {"lr": ADAM_RATES}),
    Entry("fedweit", "fedweit", NONE, {"lr": ADAM_RATES}),
    Entry("isolated, with the tricks of beyond", "model-zoo", NONE, ONE_RATE, APART),
    Entry("model-zoo, preset beyond", "model-zoo", NONE, ONE_RATE, {**BEYOND, "replay": 0.0}),
    Entry("er", "er", SOME, REPLAY, _memory(SOME)),
    Entry("er, heads refit, mirror images", "er", SOME, REPLAY, {**_memory(SOME), **TRICKS}),
    Entry(
        "derpp", "derpp", SOME, {"lr": FEW_RATES, "logit_weight": (0.2, 0.5), "label_weight": (0.5, 1.0)}, _memory(SOME)
    ),
    Entry("a-gem", "a-gem", SOME, GUIDED, BY_CLASS),
    Entry("mega-ii", "mega-ii", SOME, GUIDED, BY_CLASS),
    Entry("gem", "gem", SOME, ONE_RATE, BY_CLASS),
    Entry("mc-sgd", "mc-sgd", SOME, {"lr": FEW_RATES, "line_lr": (0.002, 0.005), "line_start": (0.5, 0.8)}, BY_CLASS),
    Entry("model-zoo", "model-zoo", SOME, ONE_RATE, {"replay": 0.1}),
    Entry("model-zoo, preset beyond", "model-zoo", SOME, ONE_RATE, {**BEYOND, "replay": 0.1}),
    Entry("er", "er", ALL, REPLAY, _memory(ALL)),
    Entry("er, heads refit, mirror images", "er", ALL, REPLAY, {**_memory(ALL), **TRICKS}),
    Entry("multi-head", "multi-head", ALL, ONE_RATE),
    Entry("multi-head, 2 epochs", "multi-head", ALL, ONE_RATE, {"epochs": 2, "augment": "no"}),
    Entry("multi-head, 5 epochs", "multi-head", ALL, ONE_RATE, {"epochs": 5, "augment": "no"}),
    Entry(
        *("multi-head, 5 epochs, heads refit, mirror images", "multi-head", ALL, ONE_RATE),
        {"epochs": 5, "augment": "no", **TRICKS},
    ),
    Entry("model-zoo", "model-zoo", ALL, ONE_RATE),
    Entry("model-zoo, preset beyond", "model-zoo", ALL, ONE_RATE, BEYOND),
    Entry("model-zoo, preset beyond, one chain", "model-zoo", ALL, ONE_RATE, {**BEYOND, "chains": 1}),
)


def search_state(entry: Entry, runs: Iterable[Results]) -> tuple[list[RunSpec], dict[str, Json] | None]:
    """The trials that are missing, and the choice once none is: the settings that answer best for rows set aside."""
    found = {run.spec.identity: run for run in runs if run.finished and "validation" in run.spec.options}
    missing = [trial for trial in entry.trials if trial.identity not in found]
    if missing:
        return missing, None

    def right(point: Mapping[str, Json]) -> float:
        return found[entry.trial(point).identity].summary()["average_accuracy"] or 0.0

    return [], max(entry.points, key=right)


@dataclass(frozen=True)
class Line:
    """An entry on a stream: the settings that were chosen, if the search is over, and the runs with them."""

    entry: Entry
    stream: str
    chosen: Mapping[str, Json] | None
    runs: Sequence[Results]

    @property
    def row(self) -> Row | None:
        return None if self.chosen is None else self.entry.row(self.stream, self.chosen)


def board(runs: Sequence[Results], entries: Sequence[Entry] = ENTRIES) -> list[Line]:
    """Every entry on every stream with what there is of it."""
    trials = [run for run in runs if run.benchmark == DEVELOPMENT_STREAM]
    lines = []
    for entry in entries:
        _, chosen = search_state(entry, trials)
        for stream in STREAMS:
            here = [] if chosen is None else runs_of(entry.row(stream, chosen), runs)
            lines.append(Line(entry, stream, chosen, here))
    return lines


def missing_runs(line: Line, seeds: int) -> list[RunSpec]:
    """The runs of a line that are still to be made."""
    row = line.row
    there = {run.spec.seed for run in line.runs}
    return [] if row is None else [replace(row.spec, seed=seed) for seed in range(seeds) if seed not in there]
