"""The paper's numbers compared with ours: which finished runs reproduce which cell."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from zoolearn.lab.groups import newness
from zoolearn.lab.paper.rows import ROWS_OF_A_TASK, PaperTable, Row
from zoolearn.lab.paper.tables import TABLES
from zoolearn.lab.tables import Table
from zoolearn.methods.registry import METHODS
from zoolearn.runs.execute import find_finished
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

FLOAT32 = "float32"
POINT = 1.0
WITHIN, ABOVE, BELOW, STAND_IN, NOT_RUN = "within a point", "above", "below", "stand-in", "not run"
MEASURES = {"average_accuracy": "accuracy", "forgetting": "forgetting", "forward_transfer": "forward"}


@dataclass(frozen=True)
class Cell:
    """One number of the paper, and the numbers of our runs."""

    row: Row
    measure: str
    paper: float | None
    ours: tuple[float, ...]
    apart: str = ""  # what of net, epochs, tasks or data is not the paper's

    @property
    def mean(self) -> float | None:
        return fmean(self.ours) if self.ours else None

    @property
    def text(self) -> str:
        if self.mean is None:
            return "-"
        return f"{self.mean:.2f}" + (f" ± {stdev(self.ours):.2f}" if len(self.ours) > 1 else "")

    @property
    def difference(self) -> str:
        """Ours less the paper's; if they are of different things, what differs."""
        if self.mean is None or self.paper is None:
            return "-"
        return f"({self.apart})" if self.apart else f"{self.mean - self.paper:+z.2f}"

    @property
    def paper_text(self) -> str:
        return "-" if self.paper is None else f"{self.paper:.2f}"

    @property
    def verdict(self) -> str:
        """Within a point of the paper's as printed, above or below it, or not run."""
        if self.mean is None or self.paper is None:
            return NOT_RUN
        apart = round(self.mean - self.paper, 2)
        return WITHIN if abs(apart) <= POINT else ABOVE if apart > 0 else BELOW


def all_runs(folders: Iterable[Path]) -> list[Results]:
    """The finished runs below the folders, each once."""
    return list(find_finished(folders).values())


def runs_of(row: Row, runs: Iterable[Results]) -> list[Results]:
    """The runs of a row by seed: same method, settings, data and order of tasks, and none of the caller's code.

    All have one precision and one set of data, which a row does not fix: those of most seeds, float32 if equal.
    Older records lack their data; it is taken to be that of the others if these agree.
    """
    if row.spec.method not in METHODS:
        return []
    mine = [
        run
        for run in runs
        if not run.source
        and (run.method, run.benchmark) == (row.spec.method, row.spec.benchmark)
        and _ignore_precision(run.spec) == _ignore_precision(row.run(run.spec.seed))
    ]
    most = max((sum(run.train_samples) for run in mine), default=0)
    whole = [run for run in mine if sum(run.train_samples) in (0, most)]  # others saw a part of the data only
    known = {run.data for run in whole} - {""}
    alike: dict[tuple[bool, str, str], dict[int, Results]] = {}
    for run in whole:
        data = run.data if len(known) > 1 else ""
        same = alike.setdefault((precision(run) != FLOAT32, precision(run), data), {})
        if run.spec.seed not in same or newness(run) > newness(same[run.spec.seed]):
            same[run.spec.seed] = run
    by_seed = max((alike[kind] for kind in sorted(alike)), key=len, default={})
    return [by_seed[seed] for seed in sorted(by_seed)]


def precision(run: Results) -> str:
    """The precision of a run; by default float32 on a CPU and mixed float16 on a GPU."""
    recipe = run.settings.get("recipe", {})
    on_gpu = run.environment.get("gpu") is not None and recipe.get("device", "auto") != "cpu"
    named: str = recipe.get("precision", "auto")
    return named if named != "auto" else "float16" if on_gpu else FLOAT32


def commits(runs: Iterable[Results]) -> str:
    """The commits whose source made runs, each once; with a plus where it was changed."""
    return ", ".join(dict.fromkeys(map(_commit, runs)))


def _commit(run: Results) -> str:
    commit = run.environment.get("commit")
    if not isinstance(commit, str):
        return "unknown"
    sha, _, dirty = commit.partition("-")
    return sha[:8] + ("+" if dirty else "")


def pair_precisions(runs: Iterable[Results]) -> list[tuple[list[Results], list[Results]]]:
    """Runs that differ in precision only, seed by seed, each the newest: those in float32, and those in another."""
    alike: dict[tuple[str, int], dict[str, dict[int, Results]]] = {}
    for run in sorted(runs, key=newness):
        same = alike.setdefault((_ignore_precision(replace(run.spec, seed=0)), sum(run.train_samples)), {})
        same.setdefault(precision(run), {})[run.spec.seed] = run
    pairs = []
    for same in alike.values():
        exact = same.pop(FLOAT32, {})
        for mixed in same.values():
            seeds = sorted(exact.keys() & mixed.keys())
            pairs.append(([exact[seed] for seed in seeds], [mixed[seed] for seed in seeds]))
    return [pair for pair in pairs if pair[0]]


def remarks(row: Row, runs: Sequence[Results]) -> list[str]:
    """Sentences on how the runs of a row differ from the paper's."""
    mixed = runs and precision(runs[0]) != FLOAT32
    return [
        *([f"{row}: {row.differs}"] if row.differs and runs else []),
        *([f"{row}: trained in mixed precision ({precision(runs[0])}), the paper's is mixed too"] if mixed else []),
        *([sentence] if (sentence := missing_data(row, runs)) else []),
    ]


def missing_data(row: Row, runs: Sequence[Results]) -> str:
    """A sentence if runs were made with a part of the paper's training data; else empty."""
    counts = [fmean(run.train_samples) for run in runs if run.train_samples]
    paper = ROWS_OF_A_TASK.get(row.spec.benchmark, 0)
    if "samples_per_class" in row.spec.options or not counts or min(counts) > 0.9 * paper:
        return ""
    return f"{row}: {fmean(counts):,.0f} training rows a task, the paper's {paper:,}"


def is_row(run: Results) -> bool:
    """Whether a run is of a row of any table."""
    return any(runs_of(row, [run]) for table in TABLES.values() for row in table.rows)


def cells(row: Row, runs: Sequence[Results]) -> list[Cell]:
    """The numbers of a row beside those of its runs."""
    apart = row.apart or ("data" if missing_data(row, runs) else "")
    return [Cell(row, measure, paper, _percents(runs, measure), apart) for measure, paper in row.numbers.items()]


def _percents(runs: Sequence[Results], measure: str) -> tuple[float, ...]:
    return tuple(100 * value for run in runs if (value := run.summary()[measure]) is not None)


def tally(table: PaperTable, runs: Sequence[Results]) -> Counter[str]:
    """How many numbers of a table are reproduced, above, below or not run.

    Numbers answered only by a substitute row, or by runs on a part of the data, are neither reproduced nor missed.
    """
    verdicts: dict[tuple[str, str, str], str] = {}
    for row in table.rows:
        here = runs_of(row, runs)
        for cell in cells(row, here):
            key = (row.stands_in_for or row.name, row.spec.benchmark, cell.measure)
            if cell.paper is None or verdicts.get(key, NOT_RUN) != NOT_RUN:
                continue
            verdicts[key] = STAND_IN if cell.apart and cell.verdict != NOT_RUN else cell.verdict
    return Counter(verdicts.values())


def comparison(table: PaperTable, runs: Sequence[Results], rows: Sequence[Row] = ()) -> Table:
    """A table of the paper with ours and the difference."""
    lines = []
    for row in rows or table.rows:
        here = runs_of(row, runs)
        for cell in cells(row, here):
            numbers = (MEASURES[cell.measure], cell.paper_text, cell.text, cell.difference, str(len(here)))
            lines.append((row.name, row.spec.benchmark, *numbers))
    header = ("row", "benchmark", "measure", "paper", "ours", "difference", "seeds")
    return Table(header, tuple(lines), labels=3)


def _ignore_precision(spec: RunSpec) -> str:
    return replace(spec, settings={**spec.settings, "precision": "any"}).identity
