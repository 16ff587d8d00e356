"""Figures of one task of a zoo: what is taken for what, and what chances are worth."""

from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.zoo.scores import Scores


def task_figures(name: str, scores: Scores) -> list[Figure]:
    """Of how a task is answered on its held-out rows."""
    return [_confusion(name, scores), _calibration(name, scores)]


def _confusion(name: str, scores: Scores) -> Figure:
    """Counts, shaded by their share of a class's rows; right answers are in bold."""
    shares = [[100 * count / max(1, sum(row)) for count in row] for row in scores.confusion]
    own = [[row == column for column in scores.classes] for row in scores.classes]
    chart = Map(
        scores.classes, scores.classes, scores.confusion, "class", "answered", "held-out rows", shades=shares,
        marks=own, mark_label="right", mark_style="bold",
    )  # fmt: skip
    caption = f"Rows of a class (down) by what was answered (across), on {scores.rows:,} held-out rows."
    return Figure(f"confusion {name}", f"{name}: what is taken for what", caption, {"": chart})


def _calibration(name: str, scores: Scores) -> Figure:
    """Answers of about one chance, and how many of them were right; on the line, chances hold."""
    places = [100 * part.confidence for part in scores.bins]
    right = [100 * part.accuracy.value for part in scores.bins]
    spread = [50 * (part.accuracy.high - part.accuracy.low) for part in scores.bins]
    rows = [f"{part.accuracy.rows:,} answers" for part in scores.bins]
    series = [
        Series("as sure as right", [0, 100], [0, 100], colour=6),
        Series(name, places, right, spread, style="points", notes=rows),
    ]
    caption = f"Expected calibration error {scores.calibration_error:.1%}, on {scores.rows:,} held-out rows."
    plot = Plot([Panel("", series, x_label="chance of the class that is named, %")], "right, %")
    return Figure(f"calibration {name}", f"{name}: what chances are worth", caption, {"": plot})
