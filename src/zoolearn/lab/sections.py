"""Sections of comparable runs: one benchmark, one way to cut it, its groups best first, and a conclusion."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoolearn.lab.differences import ONE_ORDER, Difference, pair_groups
from zoolearn.lab.groups import Group, group_by_settings
from zoolearn.lab.labels import equal_settings, labels, settings_apart
from zoolearn.lab.report import CLASS_INCREMENTAL, CLASS_INCREMENTAL_NOTE, failures, measures_of
from zoolearn.lab.streams import tasks_of_groups
from zoolearn.lab.tables import MISSING, Table, human, mean, percent, spent
from zoolearn.runs.results import Results

MOST = 8  # lines in a chart that can be told apart

Named = Sequence[tuple[str, Group]]


@dataclass(frozen=True)
class Section:
    """Groups on the same tasks: finished ones best first, then unfinished ones.

    The `lost` are groups whose runs all diverged or failed: they have a row, and no value.
    """

    title: str
    named: Named
    lost: Named = ()

    @property
    def runs(self) -> list[Results]:
        """All that were begun, also those that are lost."""
        return [run for _, group in (*self.named, *self.lost) for run in (*group.runs, *group.lost)]

    @property
    def finished(self) -> Named:
        """The groups that have met all tasks and answered for them."""
        return [(name, group) for name, group in self.named if _score(group) is not None]

    @property
    def shown(self) -> Named:
        """As many groups as one chart can show: all, or the best of each method, then the next best."""
        methods: set[str] = set()
        first: list[int] = []
        later: list[int] = []
        for place, (_, group) in enumerate(self.named):
            (later if group.first.method in methods else first).append(place)
            methods.add(group.first.method)
        return [self.named[place] for place in sorted([*first, *later][:MOST])]


def sections(results: Sequence[Results]) -> list[Section]:
    """The runs by benchmark and by how it was cut; each seed counts once."""
    apart: dict[str, list[Group]] = {}
    every_group = group_by_settings(results, lost=True)
    for tasks, group in zip(tasks_of_groups(every_group), every_group, strict=True):
        apart.setdefault(tasks, []).append(group)
    found = []
    for title, groups in apart.items():
        every = [*zip(labels(groups), groups, strict=True)]
        named = sorted((each for each in every if each[1].runs), key=lambda each: _rank(each[1]))
        found.append(Section(title, named, [each for each in every if not each[1].runs]))
    return found


def _score(group: Group) -> float | None:
    return group.mean() if group.first.finished else None


def _rank(group: Group) -> tuple[bool, float]:
    score = _score(group)
    return score is None, -(score or 0.0)


def conclusion(section: Section) -> str:
    """One sentence: the best group, its lead over the next, and whether it is significant."""
    finished = section.finished
    if not section.named:
        return "Every run diverged or failed."
    if not finished:
        return "No run has met all tasks yet."
    name, group = finished[0]
    reached = f"{percent(group.values())} % average accuracy over {len(group.first.tasks)} tasks"
    if len(finished) == 1:
        return f"{name} reaches {reached}, {len(group.runs)} seed{'s' * (len(group.runs) > 1)}."
    other_name, other = finished[1]
    difference, points = _gap(group, other)
    doubt = difference.interval if difference else "no seed in common, so no interval"
    apart = _list_different(group, other)
    above = f"{reached}, {points} points above {other_name} ({doubt}){apart}"
    if difference is None or difference.half is None:
        return f"{name} is highest: {above}."
    if difference.mean > difference.half:
        return f"{name} is best: {above}."
    both = f"{percent(group.values())} and {percent(other.values())} % average accuracy over {len(group.first.tasks)} tasks"
    return f"{name} and {other_name} cannot be told apart: {both} ({doubt} for the difference){apart}."


def _gap(group: Group, other: Group) -> tuple[Difference | None, str]:
    """The difference of two groups in points: over common seeds, or without an interval between the means."""
    difference = pair_groups(group, other)
    if difference is not None and difference.half is not None:
        return difference, f"{difference.mean:.2f}"
    return difference, f"{100 * ((group.mean() or 0.0) - (other.mean() or 0.0)):.2f}"


def overview(parts: Sequence[Section]) -> Table:
    """A row for each section: the highest group, and its lead."""
    rows = []
    for part in parts:
        first = [(name, percent(group.values())) for name, group in part.finished[:1]] or [("", MISSING)]
        above = ""
        if len(part.finished) > 1:
            (_, best), (_, other) = part.finished[:2]
            difference, points = _gap(best, other)
            above = str(difference) if difference and difference.half is not None else f"+{points}"
        rows.append((part.title, *first[0], above))
    return Table(("benchmark", "highest", "average accuracy", "above the next"), tuple(rows), labels=2)


def _list_different(group: Group, other: Group) -> str:
    """The settings that both have and that differ."""
    if group.first.method == other.first.method:
        return ""
    names = settings_apart(group.first, other.first)
    return f"; the two also differ in {', '.join(names[:4])}{' and more' if len(names) > 4 else ''}" if names else ""


def find_common(section: Section) -> str:
    """The settings that all groups share."""
    same = equal_settings([group for _, group in (*section.named, *section.lost)])
    return ", ".join(f"{name} {value}" for name, value in same.items())


def accuracies(section: Section) -> Table:
    """Average accuracy with its deviation, best first; then forgetting and what it cost."""
    extra = _class_incremental(section)
    extra_names = (CLASS_INCREMENTAL[measure] for measure in extra)
    header = ("method", "average accuracy", *extra_names, "forgetting", "training", "seeds")
    rows: list[tuple[str, ...]] = []
    for name, group in section.named:
        measures = (percent(group.values(measure)) for measure in ("average_accuracy", *extra, "forgetting"))
        rows.append((name, *measures, mean([run.seconds["train"] for run in group.runs], spent), group.seeds))
    rows += [(name, *[MISSING] * (len(header) - 2), group.seeds) for name, group in section.lost]
    one_order = len(section.named) > 1 and any(
        (difference := pair_groups(group, section.named[0][1])) and difference.one_order
        for _, group in section.named[1:]
    )
    marks = frozenset({(0, 1)}) if len(section.finished) > 1 else frozenset()
    notes = [*([ONE_ORDER] if one_order else []), *([CLASS_INCREMENTAL_NOTE] if extra else [])]
    notes += failures(group for _, group in (*section.named, *section.lost))
    return Table(header, tuple(rows), labels=1, notes=tuple(notes), best=marks)


def _class_incremental(section: Section) -> list[str]:
    return [measure for measure in measures_of(group for _, group in section.named) if measure in CLASS_INCREMENTAL]


def run_table(section: Section) -> Table:
    """Every run: accuracy, forgetting, cost."""
    extra = _class_incremental(section)
    header = (
        "method", "seed", "average accuracy", *(CLASS_INCREMENTAL[measure] for measure in extra), "forgetting", "learning accuracy",
        "training", "ms per answer", "params", "samples kept",
    )  # fmt: skip
    rows = []
    for name, group in section.named:
        for run in group.runs:
            summary = run.summary()
            shown = ("average_accuracy", *extra, "forgetting", "forward_transfer")
            measures = [percent([summary[key]]) for key in shown]
            ms = MISSING if run.ms_per_sample is None else f"{run.ms_per_sample:.2g}"
            costs = [spent(run.seconds["train"]), ms, human(run.num_parameters), f"{run.stored_samples:,}"]
            rows.append((name, str(run.settings.get("seed", "?")), *measures, *costs))
    return Table(header, tuple(rows), labels=2)
