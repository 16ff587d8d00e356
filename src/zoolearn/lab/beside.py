"""Several learners compared: one table and one figure of their accuracies and costs."""

from collections.abc import Sequence

from zoolearn.lab.figures import Figure, Panel, Plot, Series
from zoolearn.lab.tables import MISSING, Table, human, spent
from zoolearn.runs.standing import Standing


def beside_table(standings: Sequence[Standing], notes: Sequence[str] = ()) -> Table:
    """A row for each learner; the best accuracy, and all that are not significantly below it, in bold."""
    rows = tuple(
        (
            each.name,
            f"{100 * each.accuracy:.1f}",
            f"{100 * each.low:.0f}-{100 * each.high:.0f}",
            f"{100 * each.balanced:.1f}",
            spent(each.seconds),
            MISSING if each.rows_trained is None else human(each.rows_trained),
            f"{each.megabytes:.2f}",
            f"{each.rows_kept:,}",
        )
        for each in standings
    )
    header = ("", "accuracy, %", "95 %", "balanced, %", "training", "rows trained", "MB", "rows kept")
    best = max(standings, key=lambda each: each.accuracy)
    alike = frozenset((row, 1) for row, each in enumerate(standings) if each.high >= best.accuracy)
    return Table(header, rows, labels=1, notes=tuple(notes), best=alike)


def beside_figure(standings: Sequence[Standing], title: str) -> Figure:
    """Accuracy, and balanced accuracy, against time, rows trained and size."""
    costs: dict[str, tuple[str, Sequence[float | None]]] = {
        "training time": ("seconds", [each.seconds for each in standings]),
        "rows trained": ("rows", [each.rows_trained for each in standings]),
        "size": ("megabytes", [each.megabytes for each in standings]),
    }
    panels = []
    for name, (label, values) in costs.items():
        known = [(each, value) for each, value in zip(standings, values, strict=True) if value is not None]
        colour = {each.name: place for place, each in enumerate(standings)}
        series = [
            Series(
                each.name, [value], [100 * each.accuracy], [50 * (each.high - each.low)], "points", colour[each.name]
            )
            for each, value in known
        ]
        taken, balanced = [value for _, value in known], [100 * each.balanced for each, _ in known]
        series.append(Series("each, balanced", taken, balanced, (), "points", len(standings)))
        panels.append(Panel(name, series, label, log_x=all(value for value in values)))
    caption = "Mean accuracy over the tasks, with its 95 % interval, and balanced accuracy, against what it took."
    return Figure("compared", title, caption, {"": Plot(panels, "accuracy, %", columns=3)})
