"""`zoo paper TABLE`: the paper's tables, run as far as they are missing, with the paper's numbers beside ours."""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated

import tyro

from zoolearn.cli import output
from zoolearn.cli.bars import follow_all
from zoolearn.cli.flags import DataRoot, about, flag, parse
from zoolearn.cli.place import PlaceOptions
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import save_text
from zoolearn.lab.paper import board, equal
from zoolearn.lab.paper.compare import FLOAT32, all_runs, comparison, precision, remarks, runs_of
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import FIGURES, TABLES
from zoolearn.lab.tables import text
from zoolearn.runs.execute import Plan, check_failures, execute_all
from zoolearn.runs.jobs import Done, Failed
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec
from zoolearn.words import duration

ALL = "all"


@dataclass
class PaperOptions:
    """A table, or what to make of all that was run."""

    table: Annotated[str, tyro.conf.Positional, about("see --list", "[TABLE]")] = ""
    list: bool = flag("the tables and their rows", default=False)
    rows: tuple[str, ...] = flag(
        "run what is missing of these rows, of rows of these benchmarks, or of all", "ROW...", "run nothing", default=()
    )
    seeds: int = flag("number of seeds, from 0", default=3)
    data: DataRoot = None
    runs: tuple[Path, ...] = flag("where finished runs are looked for", "DIR...", "runs and results", default=())
    out: Path = flag("where new runs go, a folder each", "DIR", default=Path("runs/paper"))
    place: PlaceOptions = field(default_factory=PlaceOptions)
    write: Path | None = flag("write how much is reproduced, and a page a table beside it", "FILE", "no")
    beyond: Path | None = flag("write what goes beyond the paper as Markdown", "FILE", "no")
    collect: Path | None = flag("add all finished runs to the records there, a file a benchmark", "DIR", "no")
    html: Path | None = flag("write the page of all runs and studies", "FILE", "no")


def main(arguments: Sequence[str]) -> None:
    """Shows a table and runs what is missing of it, or writes down what there is."""
    options = parse(PaperOptions, arguments, "zoo paper", "The paper's tables: run what is missing, compare.")
    folders = [path for path in (options.runs or (Path("runs"), Path("results"), options.out)) if path.exists()]
    if options.seeds < 1:
        raise SettingsError(f"seeds is {options.seeds}; give 1 or more")
    if options.list or not (options.table or options.write or options.beyond or options.collect or options.html):
        _list()
    if options.table:
        if options.table == equal.NAME:
            _board(options, folders)
        elif options.table not in TABLES:
            raise SettingsError(unknown_name("table", options.table, [*TABLES, equal.NAME]))
        else:
            _table(TABLES[options.table], options, folders)
    if options.collect is not None:
        from zoolearn.lab.paper.collect import collect

        there = collect(folders, options.collect)
        print(f"{options.collect}: {there.records} records, {there.new} new, {there.replaced} replaced")
        folders = [options.collect]
    if options.write is not None:
        _write(options.write, folders)
    if options.beyond is not None:
        from zoolearn.lab.paper.beyond import beyond
        from zoolearn.lab.paper.judged import load_judged
        from zoolearn.lab.studies.study import find_studies

        page = beyond(all_runs(folders), load_judged(folders), find_studies(folders).values())
        save_text(options.beyond, page)
    if options.html is not None:
        from zoolearn.cli.report import write_page

        write_page(folders, options.html, ["zoo", "report", *map(str, folders), "--html", str(options.html)])


def _list() -> None:
    for table in TABLES.values():
        print(f"{table.name}  ({table.where}) {table.title}")
        for benchmark in dict.fromkeys(row.spec.benchmark for row in table.rows):
            names = [row.name for row in table.rows if row.spec.benchmark == benchmark]
            print(f"    {benchmark}: {', '.join(names)}")
    print(f"{equal.NAME}  {board.TITLE}")
    for budget, meaning in equal.BUDGETS.items():
        print(f"    {budget}: {', '.join(entry.name for entry in equal.ENTRIES if entry.budget == budget)} ({meaning})")
    print("\nfigures of the paper:")
    for what, command in FIGURES.items():
        print(f"    {what}: {command}")


def _table(table: PaperTable, options: PaperOptions, folders: Sequence[Path]) -> None:
    rows = _choose_rows(table, options.rows)
    runs = all_runs(folders)
    specs = [spec for row in rows for spec in _find_missing(row, runs, options.seeds)]
    failed = _execute(specs if options.rows else [], options, runs)
    print(text(comparison(table, runs, rows), output.width()))
    for row in rows:
        for remark in remarks(row, runs_of(row, runs)):
            print(remark)
    check_failures(failed, len(specs))


def _board(options: PaperOptions, folders: Sequence[Path]) -> None:
    """The searches first, then what they chose; both as far as they are missing."""
    entries = equal.ENTRIES
    known = {ALL, *equal.BUDGETS, *equal.STREAMS, *(entry.name for entry in entries)}
    _check_names(options.rows, known)
    budgets, streams, names = ({*options.rows} & {*kind} for kind in (equal.BUDGETS, equal.STREAMS, known))
    names -= {ALL, *budgets, *streams}
    entries = tuple(
        entry for entry in entries if (not budgets or entry.budget in budgets) and (not names or entry.name in names)
    )
    runs = all_runs(folders)
    trials = [trial for entry in entries for trial in equal.search_state(entry, runs)[0]] if options.rows else []
    failed = _execute(trials, options, runs, keep=False)
    lines = [line for line in equal.board(runs, entries) if not streams or line.stream in streams]
    specs = [spec for line in lines for spec in equal.missing_runs(line, options.seeds)] if options.rows else []
    failed += _execute(specs, options, runs)
    lines = equal.board(runs, entries)
    for stream in equal.STREAMS:
        print(f"{stream}\n{text(board.table(lines, stream), output.width())}")
        print(board.name_missing(lines, stream))
    check_failures(failed, len(trials) + len(specs))


def _execute(specs: Sequence[RunSpec], options: PaperOptions, runs: list[Results], keep: bool = True) -> list[Failed]:
    """Makes runs and adds them to those that there are; gives those that failed."""
    if not specs:
        return []
    by_name = {spec.name: spec for spec in specs}
    events = execute_all(by_name, options.out, Plan(data=options.data, keep=keep), options.place.place())
    ends = follow_all(events, output.console(stderr=True), f"what there is is kept in {options.out}")
    runs += [end.result for end in ends if isinstance(end, Done)]
    return [end for end in ends if isinstance(end, Failed)]


def _check_names(names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise SettingsError(unknown_name("row", name, {*known}))


def _choose_rows(table: PaperTable, names: Sequence[str]) -> list[Row]:
    _check_names(names, [ALL, *(known for row in table.rows for known in (row.name, row.spec.benchmark))])
    rows = {name for name in names if any(row.name == name for row in table.rows)}
    benchmarks = set(names) - rows - {ALL}
    return [
        row
        for row in table.rows
        if (not rows or row.name in rows) and (not benchmarks or row.spec.benchmark in benchmarks)
    ]


def _find_missing(row: Row, runs: Sequence[Results], seeds: int) -> list[RunSpec]:
    """The runs of a row that are still to be made, after saying so, and how long the others took."""
    here = runs_of(row, runs)
    if len(here) < seeds:  # the others are run in float32, and are never averaged with what is not
        here = runs_of(row, [run for run in runs if precision(run) == FLOAT32])
    there = {run.spec.seed for run in here}
    missing = [row.run(seed) for seed in range(seeds) if seed not in there]
    if missing:
        took = f"; they took {duration(fmean(sum(run.seconds.values()) for run in here))} each" if here else ""
        print(f"{row}: {len(there)} of {seeds} seeds there{took}", file=sys.stderr)
    return missing


def _write(file: Path, folders: Sequence[Path]) -> None:
    from zoolearn.lab.paper.reproduction import write_reproduction
    from zoolearn.lab.studies.study import find_studies

    runs = all_runs(folders)
    studies = find_studies(folders).values()
    pages = write_reproduction(file, runs, studies)
    print(f"{file} and {len(pages) - 1} pages: {len(runs)} runs, {len(studies)} studies")
