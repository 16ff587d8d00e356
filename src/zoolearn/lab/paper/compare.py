"""The paper's numbers beside ours: which finished runs answer for which cell."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

from zoolearn.files import Json
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import TABLES
from zoolearn.lab.studies.estimate import SIZES
from zoolearn.lab.tables import Table
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results

MEASURES = {"average_accuracy": "accuracy", "forgetting": "forgetting", "forward_transfer": "forward"}


@dataclass(frozen=True)
class Cell:
    """One number of the paper and what our runs say."""

    row: Row
    measure: str
    paper: float | None
    ours: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        """Ours, over seeds."""
        return fmean(self.ours) if self.ours else None

    @property
    def text(self) -> str:
        """Ours as it is read: mean, and deviation where there are several seeds."""
        if self.mean is None:
            return "-"
        return f"{self.mean:.2f}" + (f" ± {stdev(self.ours):.2f}" if len(self.ours) > 1 else "")

    @property
    def difference(self) -> str:
        """Ours less the paper's."""
        return "-" if self.mean is None or self.paper is None else f"{self.mean - self.paper:+z.2f}"

    @property
    def paper_text(self) -> str:
        """The paper's as it is read."""
        return "-" if self.paper is None else f"{self.paper:.2f}"


def all_runs(folders: Iterable[Path]) -> list[Results]:
    """The finished runs below the folders, each once."""
    found: dict[str, Results] = {}
    for folder in folders:
        for file in sorted(folder.rglob(Results.FILE)):
            results = Results.load(file)
            if results.finished:
                identity = _identity(results.method, results.benchmark, results.settings)
                found.setdefault(json.dumps([identity, results.train_samples]), results)
    return list(found.values())


def runs_of(row: Row, runs: Iterable[Results]) -> list[Results]:
    """The runs that are this row, by seed: the data and the order of tasks are those of the row too."""
    if row.method not in METHODS:
        return []
    mine = [
        run
        for run in runs
        if (run.method, run.benchmark) == (row.method, row.benchmark)
        and _identity(run.method, run.benchmark, run.settings) == _wanted(row, int(run.settings.get("seed", 0)))
    ]
    most = max((sum(run.train_samples) for run in mine), default=0)
    whole = [run for run in mine if sum(run.train_samples) in (0, most)]  # others saw a part of the data only
    return sorted(whole, key=lambda run: int(run.settings.get("seed", 0)))


def missing_data(row: Row, runs: Sequence[Results]) -> str:
    """A sentence where runs were made with a part of the paper's training data; nothing where they were not."""
    counts = [fmean(run.train_samples) for run in runs if run.train_samples]
    paper = SIZES[row.benchmark].train if row.benchmark in SIZES else 0
    if row.trial(0).samples_per_class is not None or not counts or min(counts) > 0.9 * paper:
        return ""
    return f"{row.name} on {row.benchmark}: {fmean(counts):,.0f} training rows a task, the paper's {paper:,}"


def is_row(run: Results) -> bool:
    """Whether a run is of a row of any table."""
    return any(runs_of(row, [run]) for table in TABLES.values() for row in table.rows)


def cells(row: Row, runs: Sequence[Results]) -> list[Cell]:
    """The numbers of a row beside those of its runs."""
    return [
        Cell(row, measure, paper, tuple(100 * value for run in runs if (value := run.summary()[measure]) is not None))
        for measure, paper in row.numbers.items()
    ]


def comparison(table: PaperTable, runs: Sequence[Results], rows: Sequence[Row] = ()) -> Table:
    """A table of the paper with ours and the difference."""
    lines = []
    for row in rows or table.rows:
        here = runs_of(row, runs)
        for cell in cells(row, here):
            lines.append(
                (
                    row.name,
                    row.benchmark,
                    MEASURES[cell.measure],
                    cell.paper_text,
                    cell.text,
                    cell.difference,
                    str(len(here)),
                )
            )
    header = ("row", "benchmark", "measure", "paper", "ours", "difference", "seeds")
    return Table(header, tuple(lines), labels=3)


def _wanted(row: Row, seed: int) -> str:
    return _identity(row.method, row.benchmark, row.trial(seed).settings())


def _identity(method: str, benchmark: str, settings: Mapping[str, Json]) -> str:
    """What a run is. Settings that came later have their defaults in older records."""
    defaults = _defaults(method)
    recipe = {**defaults.get("recipe", {}), **settings.get("recipe", {})}
    options = settings.get("benchmark") or {}
    whole = {**defaults, **settings, "recipe": recipe, "benchmark": options}
    return json.dumps([method, benchmark, whole], sort_keys=True)


@cache
def _defaults(method: str) -> dict[str, Json]:
    return METHODS[method]().settings() if method in METHODS else {}
