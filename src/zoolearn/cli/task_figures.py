"""Figures of one task of a zoo: what is taken for what, and what chances are worth."""

from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.zoo.learning.scores import Scores


def task_figures(name: str, scores: Scores) -> list[Figure]:
    """Of how a task is answered on its held-out rows."""
    return [_confusion(name, scores), _calibration(name, scores)]


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
