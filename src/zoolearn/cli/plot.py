"""`zoo plot DIR... --to figures/`: every figure as a file for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli.flags import about, optional, parse
from zoolearn.cli.folders import check_no_zoo, is_zoo
from zoolearn.cli.report import other_words
from zoolearn.cli.task_figures import task_figures
from zoolearn.errors import SettingsError
from zoolearn.lab.figures import Figure
from zoolearn.lab.plots import WIDTH, Format, Print, save_figures
from zoolearn.lab.report import gather
from zoolearn.lab.run_figures import figures
from zoolearn.zoo import Zoo

IDEA = """Every figure of runs and studies as a file for print, or of one zoo: what each task takes for what, and what its chances
are worth."""


@dataclass
class PlotOptions:
    """Which runs, and where the figures go."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        optional("DIR...", "folders that hold runs or studies at any depth, or one zoo", "runs"),
    ]
    to: Annotated[Path, about("where the files go", "DIR")] = Path("figures")
    format: Annotated[Format, about("kind of file")] = "pdf"
    only: Annotated[
        tuple[str, ...], optional("WORD...", "only figures whose name has one of these words, as `ranking`", "all")
    ] = ()
    width: Annotated[float, about("inches")] = WIDTH
    height: Annotated[float | None, optional("INCHES", "of each figure", "as it suits the figure")] = None
    title: Annotated[bool, about("say above each figure what it shows")] = True
    names: Annotated[
        tuple[str, ...], optional("OLD=NEW...", "other words for titles, axes, methods and tasks", "as they are")
    ] = ()


def main(arguments: Sequence[str]) -> None:
    """Writes a file for each figure, and its data beside it."""
    options = parse(PlotOptions, arguments, "zoo plot", IDEA)
    how = Print(options.width, options.height, other_words(options.names), options.title)
    drawn = _figures(options.runs or (Path("runs"),))
    chosen = [figure for figure in drawn if not options.only or any(word in figure.name for word in options.only)]
    if not chosen:
        known = ", ".join(figure.name for figure in drawn)
        raise SettingsError(f"no figure has {' or '.join(map(repr, options.only))} in its name; there are: {known}")
    for path in save_figures(chosen, options.to, options.format, how):
        print(path)


def _figures(folders: Sequence[Path]) -> list[Figure]:
    if len(folders) == 1 and is_zoo(folders[0]):
        zoo = Zoo(folders[0])
        return [figure for name in zoo.tasks for figure in task_figures(name, zoo.scores(name))]
    check_no_zoo(folders, "zoo plot", "alone, its figures are drawn")
    results, studies = gather(folders)
    return [*(figures(results) if results else ()), *studies]
