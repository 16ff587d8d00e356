"""`zoo plot DIR... --to figures/`: every figure as a file for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli.flags import flag, optional, parse
from zoolearn.cli.folders import check_no_zoo, is_zoo
from zoolearn.cli.report import read_names
from zoolearn.errors import SettingsError
from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.lab.plots import WIDTH, Format, Print, save_figures
from zoolearn.lab.report import gather
from zoolearn.lab.run_figures import figures
from zoolearn.zoo import Zoo
from zoolearn.zoo.learning.scores import Scores

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
    to: Path = flag("where the files go", "DIR", default=Path("figures"))
    format: Format = flag("kind of file", default="pdf")
    only: tuple[str, ...] = flag(
        "only figures whose name has one of these words, as `ranking`", "WORD...", "all", default=()
    )
    width: float = flag("inches", default=WIDTH)
    height: float | None = flag("of each figure", "INCHES", "as it suits the figure")
    title: bool = flag("say above each figure what it shows", default=True)
    names: tuple[str, ...] = flag(
        "other words for titles, axes, methods and tasks", "OLD=NEW...", "as they are", default=()
    )


def main(arguments: Sequence[str]) -> None:
    """Writes a file for each figure, and its data beside it."""
    options = parse(PlotOptions, arguments, "zoo plot", IDEA)
    how = Print(options.width, options.height, read_names(options.names), options.title)
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
        scores = {name: zoo.scores(name) for name in zoo.tasks}
        return [draw(name, each) for name, each in scores.items() for draw in (_confusion, _calibration)]
    check_no_zoo(folders, "zoo plot", "alone, its figures are drawn")
    results, studies = gather(folders)
    return [*(figures(results) if results else ()), *studies]


def _confusion(name: str, scores: Scores) -> Figure:
    """Shares of each class's rows; right answers are in bold."""
    totals = [max(1, sum(counts)) for counts in scores.confusion]
    shares = [[100 * count / total for count in counts] for counts, total in zip(scores.confusion, totals, strict=True)]
    notes = [[f"{count:,} rows" for count in counts] for counts in scores.confusion]
    own = [[row == column for column in scores.classes] for row in scores.classes]
    chart = Map(
        scores.classes, scores.classes, shares, "class", "answered", "% of the rows of a class", notes=notes,
        marks=own, mark_label="right", mark_style="bold",
    )  # fmt: skip
    caption = f"Rows of a class (down) by what was answered (across), on {scores.rows:,} held-out rows."
    return Figure(f"confusion {name}", f"{name}: what is taken for what", caption, {"": chart})


def _calibration(name: str, scores: Scores) -> Figure:
    """Answers of about one chance, and how many of them were right; on the line, chances hold."""
    shares = [part.accuracy for part in scores.bins]
    places = [100 * part.confidence for part in scores.bins]
    middle, half = ([50 * (share.high + sign * share.low) for share in shares] for sign in (1, -1))
    rows = [f"{share.rows:,} answers" for share in shares]
    series = [
        Series("as sure as right", [0, 100], [0, 100], style="dashes", colour=6),
        Series("where it lies with 95 % certainty", places, middle, half, style="crosses", colour=5),
        Series("right", places, [100 * share.value for share in shares], style="points", notes=rows),
    ]
    caption = f"Expected calibration error {scores.calibration_error:.1%}, on {scores.rows:,} held-out rows."
    plot = Plot([Panel("", series, x_label="chance of the class that is named, %")], "right, %")
    return Figure(f"calibration {name}", f"{name}: what chances are worth", caption, {"": plot})
