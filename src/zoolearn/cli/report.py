"""`zoo report DIR...`: one table of many runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from zoolearn.cli.flags import parse
from zoolearn.report import RENDERERS, find_runs, report, text
from zoolearn.results import Results


@dataclass
class ReportOptions:
    """Which runs, and how to print them."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="DIR...", help="run folders, or folders that hold run folders at any depth"),
    ]
    format: Annotated[Literal["text", "markdown", "latex"], tyro.conf.arg(help="what to print")] = "text"


def main(arguments: Sequence[str]) -> None:
    """Prints one table, a row for each group of runs that differ only in their seed."""
    options = parse(ReportOptions, arguments, "zoo report", "One table of many runs: mean and deviation over seeds.")
    table = report([Results.load(path) for path in find_runs(options.runs or (Path("runs"),))])
    console = Console()
    if options.format == "text" and console.is_terminal:
        print(text(table, console.width))
    else:
        print(RENDERERS[options.format](table))
