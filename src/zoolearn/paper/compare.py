"""The paper's numbers beside ours: which finished runs answer for which cell."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

from zoolearn.files import Json
from zoolearn.methods import METHODS
from zoolearn.paper.tables import PaperTable, Row
from zoolearn.report import SEEDS
from zoolearn.results import Results
from zoolearn.tables import Table

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
    """The finished runs below the folders; one for each seed, if a run is there twice."""
    found: dict[str, Results] = {}
    for folder in folders:
        for file in sorted(folder.rglob(Results.FILE)):
            results = Results.load(file)
            if results.finished:
                found.setdefault(json.dumps([_identity(results), results.settings.get("seed")]), results)
    return list(found.values())


def runs_of(row: Row, runs: Iterable[Results]) -> list[Results]:
    """The runs that are this row, by seed."""
    if row.method not in METHODS:
        return []
    trial = row.trial(0)
    wanted = _without_seeds(row.method, row.benchmark, trial.settings())
    return sorted((run for run in runs if _identity(run) == wanted), key=lambda run: int(run.settings.get("seed", 0)))


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


def _identity(results: Results) -> str:
    return _without_seeds(results.method, results.benchmark, results.settings)


def _without_seeds(method: str, benchmark: str, settings: Mapping[str, Json]) -> str:
    """What a run is beside its seeds. Settings that came later have their defaults in older records."""
    defaults = _defaults(method)
    recipe = {**defaults.get("recipe", {}), **settings.get("recipe", {})}
    options = {
        name: value for name, value in (settings.get("benchmark") or {}).items() if f"benchmark.{name}" not in SEEDS
    }
    whole = {**defaults, **settings, "recipe": recipe, "benchmark": options}
    return json.dumps(
        [method, benchmark, {name: value for name, value in whole.items() if name != "seed"}], sort_keys=True
    )


@cache
def _defaults(method: str) -> dict[str, Json]:
    return METHODS[method]().settings() if method in METHODS else {}
