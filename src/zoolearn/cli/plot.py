"""`zoo plot DIR... --to figures/`: every figure as a file for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli.flags import parse
from zoolearn.cli.folders import check_no_zoo
from zoolearn.lab.pages.sources import gathered
from zoolearn.lab.plots import Format, save_figures


@dataclass
class PlotOptions:
    """Which runs, and where the figures go."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="DIR...",
            help="folders that hold runs or studies at any depth",
            help_behavior_hint="(default: runs)",
        ),
    ]
    to: Annotated[Path, tyro.conf.arg(metavar="DIR", help="where the files go")] = Path("figures")
    format: Annotated[Format, tyro.conf.arg(help="kind of file")] = "pdf"


def main(arguments: Sequence[str]) -> None:
    """Writes a file for each figure, and its data beside it."""
    options = parse(PlotOptions, arguments, "zoo plot", "Every figure of runs and studies as a file for print.")
    check_no_zoo(options.runs, "zoo plot")
    _, figures = gathered(options.runs or (Path("runs"),))
    for path in save_figures(figures, options.to, options.format):
        print(path)
    for figure in figures:
        (options.to / f"{figure.name}.csv").write_text(figure.csv(), encoding="utf-8")
