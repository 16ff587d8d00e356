"""`zoo plot DIR... --to figures/`: every figure as a file for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli.flags import optional, parse
from zoolearn.cli.folders import check_no_zoo
from zoolearn.cli.report import other_words
from zoolearn.errors import SettingsError
from zoolearn.lab.pages.sources import gathered
from zoolearn.lab.plots import WIDTH, Format, Print, save_figures
from zoolearn.lab.run_figures import figures


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
    only: Annotated[
        tuple[str, ...], optional("WORD...", "only figures whose name has one of these words, as `ranking`", "all")
    ] = ()
    width: Annotated[float, tyro.conf.arg(help="inches")] = WIDTH
    height: Annotated[float | None, optional("INCHES", "of each figure", "as it suits the figure")] = None
    title: Annotated[bool, tyro.conf.arg(help="say above each figure what it shows")] = True
    names: Annotated[
        tuple[str, ...], optional("OLD=NEW...", "other words for titles, axes, methods and tasks", "as they are")
    ] = ()


def main(arguments: Sequence[str]) -> None:
    """Writes a file for each figure, and its data beside it."""
    options = parse(PlotOptions, arguments, "zoo plot", "Every figure of runs and studies as a file for print.")
    check_no_zoo(options.runs, "zoo plot")
    how = Print(options.width, options.height, other_words(options.names), options.title)
    results, studies = gathered(options.runs or (Path("runs"),))
    drawn = [*(figures(results) if results else ()), *studies]
    chosen = [figure for figure in drawn if not options.only or any(word in figure.name for word in options.only)]
    if not chosen:
        known = ", ".join(figure.name for figure in drawn)
        raise SettingsError(f"no figure has {' or '.join(map(repr, options.only))} in its name; there are: {known}")
    for path in save_figures(chosen, options.to, options.format, how):
        print(path)
