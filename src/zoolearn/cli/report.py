"""`zoo report DIR...`: one table of many runs, or a page with every figure; of a zoo folder, its page."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from zoolearn.cli import output
from zoolearn.cli.flags import optional, parse
from zoolearn.cli.folders import check_no_zoo, is_zoo
from zoolearn.cli.words import counted
from zoolearn.files import save_text
from zoolearn.lab.report import find_runs, report
from zoolearn.lab.tables import RENDERERS, Table, text


@dataclass
class ReportOptions:
    """Which runs, and how to print them."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="DIR...",
            help="run folders, files of records, or folders that hold such at any depth",
            help_behavior_hint="(default: runs)",
        ),
    ]
    format: Annotated[Literal["text", "markdown", "latex"], tyro.conf.arg(help="what to print")] = "text"
    html: Annotated[
        Path | None,
        optional("FILE", "write one self-contained page with every figure; also of one zoo folder", "print a table"),
    ] = None


def main(arguments: Sequence[str]) -> None:
    """Prints one table, a row for each group of runs that differ only in their seed; or writes a page."""
    options = parse(ReportOptions, arguments, "zoo report", "One table of many runs: mean and deviation over seeds.")
    folders = options.runs or (Path("runs"),)
    zoos = [folder for folder in folders if is_zoo(folder)]
    if zoos and options.html is not None and len(folders) == 1:
        write_zoo_page(zoos[0], options.html)
        return
    check_no_zoo(folders, "zoo report", "`--html FILE` makes a page of one zoo")
    if options.html is not None:
        write_page(folders, options.html, ["zoo", "report", *arguments])
        return
    table = report(list(find_runs(folders).values()))
    print(text(table, output.width()) if options.format == "text" else RENDERERS[options.format](table))


def write_zoo_page(folder: Path, file: Path) -> None:
    """Writes the page of somebody's own zoo."""
    from zoolearn.zoo import Zoo
    from zoolearn.zoo.describing import snapshot
    from zoolearn.zoo.serve.page import report as zoo_page

    zoo = Zoo(folder)
    save_text(file, zoo_page(snapshot(zoo)))
    size = file.stat().st_size / 1e6
    print(f"{file}: {counted(len(zoo.tasks), 'task')}, {size:.2f} MB, no network needed", file=sys.stderr)


def write_page(folders: Sequence[Path], file: Path, command: Sequence[str]) -> None:
    """Writes the page of all runs and studies below the folders, and says how much it weighs."""
    from zoolearn.lab.pages import page
    from zoolearn.lab.pages.sources import gathered

    results, figures = gathered(folders)
    tables: list[tuple[str, Table]] = [("Runs", report(results))] if results else []
    save_text(file, page("zoolearn: runs and studies", tables, figures, command))
    size = file.stat().st_size / 1e6
    print(f"{file}: {len(results)} runs, {len(figures)} figures, {size:.2f} MB, no network needed", file=sys.stderr)
