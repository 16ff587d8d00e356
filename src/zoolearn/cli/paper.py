"""`zoo paper TABLE`: the paper's tables, run as far as they are missing, with the paper's numbers beside ours."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli import output
from zoolearn.cli.flags import optional, parse
from zoolearn.cli.place import PlaceOptions
from zoolearn.cli.watch import duration
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import save_text
from zoolearn.lab.paper.compare import FLOAT32, all_runs, comparison, precision, remarks, runs_of
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import FIGURES, TABLES
from zoolearn.lab.studies.estimate import seconds
from zoolearn.lab.studies.trials import Trial, attempts
from zoolearn.lab.tables import text
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results


@dataclass
class PaperOptions:
    """A table, or what to make of all that was run."""

    table: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[TABLE]", help="see --list")] = ""
    list: Annotated[bool, tyro.conf.arg(help="the tables and their rows")] = False
    rows: Annotated[
        tuple[str, ...], optional("ROW...", "only these rows, or rows of these benchmarks", "all that fit")
    ] = ()
    seeds: Annotated[int, tyro.conf.arg(help="so many seeds, from 0")] = 3
    hours: Annotated[float, tyro.conf.arg(help="rows with a longer estimate are shown, and run only when named")] = 2.0
    estimate: Annotated[bool, tyro.conf.arg(help="only say what is there and what the rest would take")] = False
    data: Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")] = None
    runs: Annotated[tuple[Path, ...], optional("DIR...", "where finished runs are looked for", "runs and results")] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="where new runs go, a folder each")] = Path("runs/paper")
    place: PlaceOptions = field(default_factory=PlaceOptions)
    write: Annotated[
        Path | None, optional("FILE", "write how much is reproduced, and a page a table beside it", "no")
    ] = None
    beyond: Annotated[Path | None, optional("FILE", "write what goes beyond the paper as Markdown", "no")] = None
    collect: Annotated[
        Path | None, optional("DIR", "add all finished runs to the records there, a file a benchmark", "no")
    ] = None
    html: Annotated[Path | None, optional("FILE", "write the page of all runs and studies", "no")] = None


def main(arguments: Sequence[str]) -> None:
    """Runs what is missing of a table, or writes down what there is."""
    options = parse(PaperOptions, arguments, "zoo paper", "The paper's tables: run what is missing, compare.")
    folders = [path for path in (options.runs or (Path("runs"), Path("results"), options.out)) if path.exists()]
    if options.seeds < 1:
        raise SettingsError(f"seeds is {options.seeds}; give 1 or more")
    if options.list or not (options.table or options.write or options.beyond or options.collect or options.html):
        _list()
    if options.table:
        if options.table not in TABLES:
            raise SettingsError(unknown_name("table", options.table, TABLES))
        _table(TABLES[options.table], options, folders)
    if options.collect is not None:
        from zoolearn.lab.paper.collect import collect

        there = collect(folders, options.collect)
        print(f"{options.collect}: {there.records} records, {there.new} new, {there.replaced} replaced")
        folders = [options.collect]
    if options.write is not None:
        _write(options.write, folders)
    if options.beyond is not None:
        from zoolearn.lab.paper.beyond import all_judged, beyond

        save_text(options.beyond, beyond(all_runs(folders), all_judged(folders)))
    if options.html is not None:
        from zoolearn.cli.report import write_page

        write_page(folders, options.html, ["zoo", "report", *map(str, folders), "--html", str(options.html)])


def _list() -> None:
    for table in TABLES.values():
        print(f"{table.name}  ({table.where}) {table.title}")
        for benchmark in dict.fromkeys(row.benchmark for row in table.rows):
            names = [row.name for row in table.rows if row.benchmark == benchmark]
            print(f"    {benchmark}: {', '.join(names)}")
    print("\nfigures of the paper:")
    for what, command in FIGURES.items():
        print(f"    {what}: {command}")


def _table(table: PaperTable, options: PaperOptions, folders: Sequence[Path]) -> None:
    rows = _chosen(table, options.rows)
    runs = all_runs(folders)
    trials = _missing(rows, runs, options)
    if trials and not options.estimate:
        done: list[Results] = []
        try:
            for trial, results in attempts(trials, options.out, data=options.data, place=options.place.place()):
                done.append(results)
                print(f"{len(done)} of {len(trials)}: {trial.name}", file=sys.stderr)
        finally:
            _show(table, rows, [*runs, *done])
    else:
        _show(table, rows, runs)


def _show(table: PaperTable, rows: Sequence[Row], runs: Sequence[Results]) -> None:
    print(text(comparison(table, runs, rows), output.width()))
    for row in rows:
        for remark in remarks(row, runs_of(row, runs)):
            print(remark)


def _chosen(table: PaperTable, names: Sequence[str]) -> list[Row]:
    known = [known for row in table.rows for known in (row.name, row.benchmark)]
    for name in names:
        if name not in known:
            raise SettingsError(unknown_name("row", name, set(known)))
    rows = {name for name in names if any(row.name == name for row in table.rows)}
    benchmarks = set(names) - rows
    return [
        row for row in table.rows if (not rows or row.name in rows) and (not benchmarks or row.benchmark in benchmarks)
    ]


def _missing(rows: Sequence[Row], runs: Sequence[Results], options: PaperOptions) -> list[Trial]:
    """The trials still to run, after saying for each row what is there and what the rest would take."""
    wanted: list[Trial] = []
    total = 0.0
    for row in rows:
        if row.method not in METHODS:
            print(f"{row.name} on {row.benchmark}: the method {row.method} is not here", file=sys.stderr)
            continue
        there = {run.settings.get("seed") for run in runs_of(row, runs)}
        if len(there) < options.seeds:  # the others are run in float32, and are never averaged with what is not
            there = {run.settings.get("seed") for run in runs_of(row, [r for r in runs if precision(r) == FLOAT32])}
        trials = [row.trial(seed) for seed in range(options.seeds) if seed not in there]
        if not trials:
            continue
        each = seconds(trials[0])
        named = row.name in options.rows
        runs_now = named or each <= 3600 * options.hours
        advice = (
            "" if runs_now else f"; more than --hours {options.hours:g}, so only when named (--rows); a GPU is the way"
        )
        print(
            f"{row.name} on {row.benchmark}: {len(there)} of {options.seeds} seeds there, about {duration(each)} "
            f"for each of the others on one free core{advice}",
            file=sys.stderr,
        )
        if runs_now:
            wanted += trials
            total += each * len(trials)
    if wanted:
        print(f"to run: {len(wanted)}, about {duration(total)} of one core in all", file=sys.stderr)
    return wanted


def _write(file: Path, folders: Sequence[Path]) -> None:
    from zoolearn.lab.paper.reproduction import write_reproduction
    from zoolearn.lab.studies.study import find_studies

    runs = all_runs(folders)
    studies = find_studies(folders).values()
    pages = write_reproduction(file, runs, studies)
    print(f"{file} and {len(pages) - 1} pages: {len(runs)} runs, {len(studies)} studies")
