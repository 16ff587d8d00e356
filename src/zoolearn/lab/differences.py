"""Paired differences between methods, over runs with the same seeds, with a confidence interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.groups import Group, count_seeds, group_by_settings, mean_accuracy, order_of, seeds_of
from zoolearn.lab.labels import labels
from zoolearn.lab.streams import tasks_of_groups
from zoolearn.lab.tables import MISSING, Table, percent
from zoolearn.runs.results import Results

CONFIDENCE = 0.95
ONE_ORDER = "All seeds met the tasks in one order: the intervals say nothing about other orders."


@dataclass(frozen=True)
class Difference:
    """Mean difference in average accuracy over the seeds that both have, in points, and half of its 95 % interval."""

    mean: float
    half: float | None  # None for a single pair
    pairs: int
    one_order: bool
    over: str  # "3 seeds", or "3 orders"

    @property
    def interval(self) -> str:
        """Both ends of the interval, or why there is none."""
        if self.half is None:
            return "one seed in common, so no interval"
        return f"95 % interval {self.mean - self.half:+.2f} to {self.mean + self.half:+.2f} over {self.over}"

    def __str__(self) -> str:
        ends = "" if self.half is None else f" [{self.mean - self.half:+.2f}, {self.mean + self.half:+.2f}]"
        return f"{self.mean:+.2f}{ends}"


def pair_groups(group: Group, other: Group) -> Difference | None:
    """The mean difference of two groups over common seeds; None if there is none.

    The interval is Student's for the mean of paired differences, which assumes that they are normal.
    """
    known = {seeds_of(run): run for run in other.runs}
    pairs = [(run, known[seeds_of(run)]) for run in group.runs if seeds_of(run) in known]
    points = [100 * (mean_accuracy(mine) - mean_accuracy(theirs)) for mine, theirs in pairs]
    if not points:
        return None
    orders = {order_of(run) for pair in pairs for run in pair}
    over = count_seeds([run for run, _ in pairs])
    over = over if over.endswith("orders") else f"{over} seeds"
    return Difference(fmean(points), half_interval(points), len(points), len(pairs) > 1 and len(orders) == 1, over)


def half_interval(values: Sequence[float]) -> float | None:
    """Half of Student's 95 % interval for the mean of values; one value alone has none.

    >>> round(half_interval([1.0, 2.0, 3.0]), 3), half_interval([1.0])
    (2.484, None)
    """
    from scipy.special import stdtrit  # comes with scikit-learn

    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * stdev(values) / math.sqrt(len(values)))


def differences(results: Sequence[Results], reference: str) -> Table:
    """The difference of every group from a reference on the same tasks, best first.

    The reference is a method, or a name as in the table if there are several groups of the method.
    """
    groups = group_by_settings(results, lost=True)
    apart: dict[str, list[Group]] = {}
    for tasks, group in zip(tasks_of_groups(groups), groups, strict=True):
        apart.setdefault(tasks, []).append(group)
    rows: list[tuple[float, tuple[str, ...]]] = []
    known: dict[str, list[str]] = {}
    one_order = is_known = False
    lost: list[str] = []
    for tasks, alike in apart.items():
        known[tasks] = labels(alike)
        named = list(zip(known[tasks], alike, strict=True))
        chosen = [each for each in named if reference in (each[0], each[1].first.method) and each[1].first.finished]
        exact = [each for each in chosen if each[0] == reference] or chosen
        if len(exact) > 1:
            names = ", ".join(repr(name) for name, _ in exact)
            raise SettingsError(f"{reference!r} is {len(exact)} groups of runs on {tasks}; give one of {names}")
        is_known = is_known or bool(exact)
        lost += [f"Of {reference} on {tasks}{group.losses}." for _, group in exact if group.losses]
        for name, group in named if exact else ():
            if group is not exact[0][1] and (group.first.finished or not group.runs):
                difference = pair_groups(group, exact[0][1])
                one_order = one_order or (difference is not None and difference.one_order)
                rows.append(_difference_row(tasks, name, group, difference))
    if is_known and not rows:
        raise SettingsError(f"{reference!r} is alone on its tasks and data; give finished runs of others, too")
    if not rows:
        raise SettingsError(unknown_name("reference", reference, {name for names in known.values() for name in names}))
    rows.sort(key=lambda row: (row[1][0], -row[0]))
    header = ("benchmark", "method", "average accuracy", f"above {reference}", "seeds in common")
    notes = ["Points of average accuracy, and the 95 % interval of their mean over seeds that both have."]
    notes += [*([ONE_ORDER] if one_order else []), *lost]
    return Table(header, tuple(row for _, row in rows), 2, tuple(notes))


def _difference_row(
    tasks: str, name: str, group: Group, difference: Difference | None
) -> tuple[float, tuple[str, ...]]:
    shown = (MISSING, "0") if difference is None else (str(difference), difference.over.removesuffix(" seeds"))
    shown = (shown[0], shown[1] + group.losses)
    return difference.mean if difference else -math.inf, (tasks, name, percent(group.values()), *shown)
