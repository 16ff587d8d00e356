"""`zoo report DIR...`: one table of many runs, the runs as data for other tools, or a page that opens on what was found.

Of one zoo folder, `--html` writes its page.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from zoolearn.cli import output
from zoolearn.cli.flags import flag, optional, parse
from zoolearn.cli.folders import check_no_zoo, is_zoo
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import save_text
from zoolearn.lab.differences import differences
from zoolearn.lab.frames import rows_as_csv, run_rows, save_parquet
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.labels import labels
from zoolearn.lab.one_run import matrix
from zoolearn.lab.report import find_runs, report
from zoolearn.lab.streams import select_benchmarks
from zoolearn.lab.tables import RENDERERS, Table, choose, rename, text
from zoolearn.runs.results import Results
from zoolearn.words import plural


@dataclass
class ReportOptions:
    """Which runs, and how to print them."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        optional("DIR...", "run folders, files of records, or folders that hold such at any depth", "runs"),
    ]
    format: Literal["text", "markdown", "latex", "csv", "parquet"] = flag(
        "a table of means, or (csv, parquet) a row a run with unrounded numbers", default="text"
    )
    benchmark: tuple[str, ...] = flag(
        "runs on these, or on all; a table for elsewhere wants it where there are several",
        "NAME...",
        "the only one",
        default=(),
    )
    columns: tuple[str, ...] = flag("these columns, in this order", "NAME...", "all", default=())
    names: tuple[str, ...] = flag(
        "other words for columns, methods and benchmarks", "OLD=NEW...", "as they are", default=()
    )
    against: str | None = flag("differences from this one, seed by seed, with intervals", "METHOD", "no")
    matrix: bool = flag("the accuracy matrix of each group of runs instead", default=False)
    out: Path | None = flag("write it there", "FILE", "print it")
    html: Path | None = flag(
        "write one self-contained page with every figure; also of one zoo folder", "FILE", "print a table"
    )


def main(arguments: Sequence[str]) -> None:
    """Prints one table, a row for each group of runs that differ only in their seed; or writes a page or data."""
    options = parse(ReportOptions, arguments, "zoo report", "One table of many runs: mean and deviation over seeds.")
    folders = options.runs or (Path("runs"),)
    zoos = [folder for folder in folders if is_zoo(folder)]
    if zoos and options.html is not None and len(folders) == 1:
        write_zoo_page(zoos[0], options.html)
        return
    check_no_zoo(folders, "zoo report", "`--html FILE` makes a page of one zoo")
    words = read_names(options.names)
    if options.html is not None:
        if options != ReportOptions(options.runs, html=options.html):
            raise SettingsError("--html is a page of its own; leave out what chooses and prints a table")
        write_page(folders, options.html, ["zoo", "report", *arguments])
        return
    results = list(find_runs(folders).values())
    if options.benchmark or options.format != "text":
        results = select_benchmarks(results, options.benchmark)
    if options.format in ("csv", "parquet"):
        _give_rows(results, options)
        return
    tables = []
    for table in _tables(results, options):
        _check_benchmark_shown([dict(zip(table.header, row, strict=True)) for row in table.rows], options.columns)
        tables.append(choose(table, options.columns or table.header))
    _check_names(words, tables)
    wide = None if options.out else output.width()
    chosen = [rename(table, words) for table in tables]
    shown = [text(table, wide) if options.format == "text" else RENDERERS[options.format](table) for table in chosen]
    _give("\n\n".join(shown), options.out)


def _tables(results: Sequence[Results], options: ReportOptions) -> list[Table]:
    if options.matrix and options.against:
        raise SettingsError("--matrix and --against are two tables; give one of them")
    if options.matrix:
        groups = group_by_settings(results)
        return [matrix(name, group) for name, group in zip(labels(groups), groups, strict=True)]
    return [differences(results, options.against) if options.against else report(results)]


def _check_names(words: Mapping[str, str], tables: Sequence[Table]) -> None:
    """Raises on a name that stands in none of the tables: its other name would be seen nowhere."""
    shown = {name for table in tables for name in table.header}
    shown |= {cell for table in tables for row in table.rows for cell in row[: table.labels]}
    for old in words:
        if old not in shown:
            raise SettingsError(f"no row or column is called {old!r}; --names takes what the table prints: er=ER")


def _give_rows(results: Sequence[Results], options: ReportOptions) -> None:
    if options.matrix or options.against or options.names:
        raise SettingsError(f"--format {options.format} has a row a run; leave out --matrix, --against and --names")
    rows = run_rows(results)
    for name in options.columns:
        if name not in rows[0]:
            raise SettingsError(unknown_name("column", name, rows[0]))
    _check_benchmark_shown(rows, options.columns)
    rows = [{name: row[name] for name in options.columns or row} for row in rows]
    if options.format == "csv":
        _give(rows_as_csv(rows).rstrip("\n"), options.out)
    elif options.out is None:
        raise SettingsError("Parquet is no text to print; say where it goes with --out FILE")
    else:
        save_parquet(options.out, rows)


def _check_benchmark_shown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Refuses rows of several benchmarks that would not tell which they are of."""
    names = [*dict.fromkeys(row["benchmark"] for row in rows if "benchmark" in row)]
    if len(names) > 1 and columns and "benchmark" not in columns:
        raise SettingsError(
            f"the rows are of {len(names)} benchmarks ({'; '.join(names)}), and --columns leaves out which; add benchmark, "
            "or choose one with --benchmark"
        )


def _give(shown: str, file: Path | None) -> None:
    if file is None:
        print(shown)
    else:
        save_text(file, f"{shown}\n")


def read_names(pairs: Sequence[str]) -> Mapping[str, str]:
    """What `OLD=NEW` pairs say; the last `=` counts, since settings have some.

    >>> read_names(["model-zoo (replay=0.1)=Zoo", "er=ER"])
    {'model-zoo (replay=0.1)': 'Zoo', 'er': 'ER'}
    """
    for pair in pairs:
        if "=" not in pair:
            raise SettingsError(f"{pair!r} does not say what is to be called what; give OLD=NEW")
    return {old: new for old, _, new in (pair.rpartition("=") for pair in pairs)}


def write_zoo_page(folder: Path, file: Path) -> None:
    """Writes the page of somebody's own zoo."""
    from zoolearn.zoo import Zoo
    from zoolearn.zoo.serve.page import report as zoo_page
    from zoolearn.zoo.summary import snapshot

    zoo = Zoo(folder)
    save_text(file, zoo_page(snapshot(zoo)))
    size = file.stat().st_size / 1e6
    print(f"{file}: {plural(len(zoo.tasks), 'task')}, {size:.2f} MB, no network needed", file=sys.stderr)


def write_page(folders: Sequence[Path], file: Path, command: Sequence[str]) -> None:
    """Writes the page of all runs and studies below the folders, and says how much it weighs."""
    from zoolearn.lab.pages import page
    from zoolearn.lab.report import gather

    results, figures = gather(folders)
    save_text(file, page("Runs and studies" if figures else "Runs", results, figures, command))
    size = file.stat().st_size / 1e6
    print(f"{file}: {len(results)} runs, {size:.2f} MB, no network needed", file=sys.stderr)
