"""Runs side by side: one row per method, benchmark and settings, mean and standard deviation over seeds."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from zoolearn.errors import DataError, StoreError
from zoolearn.lab.presets import preset_of
from zoolearn.lab.tables import MISSING, Table, human, percent, seconds
from zoolearn.runs.records import iter_runs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import DATA_SEEDS, ORDERS

MEASURES = ("average_accuracy", "forgetting", "forward_transfer", "backward_transfer")
UNTOLD = {
    "class_incremental_accuracy": "task not told",
    "class_incremental_inferred": "task inferred",
}  # in tables and figures of runs that recorded it, and what it is called where there is little room
NOT_TOLD = "Class incremental: task not told, all classes of all tasks are candidates; after the last episode only."
LEARNING = "Forward transfer: the accuracy of a task just learned (learning accuracy)."
SEARCH = "tune.json"  # in the folder of a search
LONGEST_VALUE = 24
LONGEST_NUMBER = 8  # what a search proposes has 17 digits
LONGEST_LABEL = 28


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, and have come equally far."""

    runs: tuple[Results, ...]
    lost: tuple[Results, ...] = ()  # others like them, which diverged or failed

    @property
    def first(self) -> Results:
        """The run that speaks for the group's method, benchmark and settings."""
        return (self.runs or self.lost)[0]

    @property
    def seeds(self) -> str:
        """How many there are, in how many orders if there are several, and how many diverged or failed."""
        diverged = sum(bool(run.diverged) for run in self.lost)
        known = {"diverged": diverged, "failed": len(self.lost) - diverged}
        whole = len(self.runs) + len(self.lost)
        return ", ".join(
            [count_seeds(self.runs), *(f"{count} of {whole} {how}" for how, count in known.items() if count)]
        )


def count_seeds(runs: Sequence[Results]) -> str:
    """How many runs there are, which differ in seeds; where those are seeds of orders, how many orders."""
    orders = len({order_of(run) for run in runs})
    if orders < 2:
        return str(len(runs))
    return f"{orders} orders" if orders == len(runs) else f"{len(runs)}, {orders} orders"


def order_of(run: Results) -> str:
    """The order of tasks, classes and pixels that a run met, as one word."""
    return json.dumps([run.meetings, *(run.spec.options.get(name) for name in ORDERS)])


def find_runs(paths: Iterable[Path | str]) -> dict[Path, Results]:
    """The runs at or below the paths, by where they lie; none twice, in the order given.

    That is the folder of a `results.json` (the path itself, or else all below it), or a file of records and a name in it.
    """
    found: dict[Path, tuple[Path, Results]] = {}
    for path in map(Path, paths):
        for place, results in _runs_below(path):
            found.setdefault(place.resolve(), (place, results))
    return dict(found.values())


def _runs_below(path: Path) -> list[tuple[Path, Results]]:
    if not path.exists():
        raise StoreError(f"{path} does not exist; give the folder of a run, or one that holds such folders")
    if (path / Results.FILE).is_file():
        return [(path, Results.load(path))]
    runs = [(place, results) for place, results in iter_runs(path) if not _is_trial(place, path)]
    if not runs:
        raise StoreError(f"no run in {path}: neither it nor a folder below holds a {Results.FILE} or a file of records")
    return runs


def _is_trial(folder: Path, below: Path) -> bool:
    """Whether a run is a trial of a search, judged by training data; they count where their search itself is looked at."""
    above = folder.parent
    return above != below and below in above.parents and (above / SEARCH).is_file()


def report(results: Sequence[Results]) -> Table:
    """One row per group of runs, sorted by benchmark and otherwise as given; the best of a benchmark's measures are marked.

    Runs that have come less far get their own row, since they answer for fewer tasks. Of two runs with the same seed the
    one further along counts, and a note says so: a seed that counts twice would make the deviation too small.
    """
    if not results:
        raise DataError("there are no runs to report; give at least one")
    counted = _one_per_seed(results)
    groups = sorted(_groups(counted), key=lambda group: group.first.stream)
    columns = _columns(groups)
    first = list(columns).index("average accuracy")
    return Table(
        header=tuple(columns),
        rows=tuple(zip(*columns.values(), strict=True)),
        labels=first,
        notes=_notes(len(results) - len(counted), groups),
        best=frozenset(
            (row, first + place) for place, measure in enumerate(measures_of(groups)) for row in _best(groups, measure)
        ),
    )


def _best(groups: Sequence[Group], measure: str) -> Iterator[int]:
    """The rows with the best mean of a measure among finished runs on the same tasks, where there are others."""
    alike: dict[str, dict[int, float]] = {}
    for row, group in enumerate(groups):
        values = [run.summary()[measure] for run in group.runs]
        known = [value for value in values if value is not None]
        if group.first.finished and known and len(known) == len(values):
            alike.setdefault(tasks_of(group.first), {})[row] = fmean(known)
    for means in alike.values():
        top = min(means.values()) if measure == "forgetting" else max(means.values())
        yield from (row for row, mean in means.items() if mean == top and len(means) > 1)


def tasks_of(run: Results) -> str:
    """The benchmark, and how it was cut: what runs must share to be compared.

    >>> cut = {"benchmark": {"first_tasks": 4, "task_order": 1}}
    >>> tasks_of(Results(method="er", benchmark="toys", tasks=["a"], settings=cut))
    'toys, first tasks 4'
    """
    options = run.spec.shown_options
    cuts = [f"{name.replace('_', ' ')} {_short(str(value))}" for name, value in options.items() if name != "task_order"]
    return ", ".join([run.stream, *cuts])


def grouped(results: Sequence[Results], lost: bool = False) -> list[Group]:
    """The runs by what they differ in beside their seed, sorted by benchmark; each seed counts once.

    Groups of which every run diverged or failed are left out, unless the `lost` are asked for too: they have no values.
    """
    found = [group for group in _groups(_one_per_seed(results)) if group.runs or lost]
    return sorted(found, key=lambda group: group.first.stream)


def labels(groups: Sequence[Group]) -> list[str]:
    """A name for each group that no other of its benchmark has: the method, and what tells it from others of the method.

    That are the settings that are not the default, or the name of the preset that has them if they are many; and a
    number where that is not enough.
    """
    told = _own_settings(groups)
    settings = _in_short(groups, told, told)
    methods = [(group.first.stream, group.first.method) for group in groups]
    names: list[tuple[str, str]] = []
    for group, method, shown in zip(groups, methods, settings, strict=True):
        name = f"{group.first.method} ({shown})" if shown and methods.count(method) > 1 else group.first.method
        name += "" if group.first.finished or not group.runs else f", {episodes_of(group.first)} episodes"
        tasks = tasks_of(group.first)
        same = sum(other == (tasks, name) or other[1].startswith(f"{name} #") for other in names if other[0] == tasks)
        names.append((tasks, f"{name} #{same + 1}" if same else name))
    return [name for _, name in names]


def _in_short(groups: Sequence[Group], told: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """Settings that take too long to tell by the name of their preset, with the epochs where several have that name."""
    presets = [
        preset_of(group.first.spec) if len(shown) > LONGEST_LABEL else ""
        for group, shown in zip(groups, told, strict=True)
    ]
    names = [(group.first.stream, group.first.method, preset) for group, preset in zip(groups, presets, strict=True)]
    short = []
    for group, shown, brief, name in zip(groups, told, otherwise, names, strict=True):
        preset = name[-1]
        if preset and names.count(name) > 1:
            preset += f", epochs={group.first.settings.get('recipe', {}).get('epochs')}"
        short.append(shown if len(shown) <= LONGEST_LABEL else preset or brief)
    return short


def _one_per_seed(results: Sequence[Results]) -> list[Results]:
    furthest: dict[tuple[str, str], Results] = {}
    for place, (run, identity) in enumerate(zip(results, _identities(results), strict=True)):
        seed = seeds_of(run) if "seed" in run.settings else f"unknown {place}"
        kept = furthest.get((identity, seed))
        if kept is None or len(run.accuracy) > len(kept.accuracy):
            furthest[identity, seed] = run
    return list(furthest.values())


def seeds_of(run: Results) -> str:
    """The seeds of learner, samples and order, as one word."""
    return json.dumps([run.spec.seed, *(run.spec.options.get(name) for name in DATA_SEEDS)])


def _groups(results: Sequence[Results]) -> list[Group]:
    alike: dict[tuple[str, int], list[Results]] = {}
    lost: dict[str, list[Results]] = {}
    for run, identity in zip(results, _identities(results), strict=True):
        if run.diverged or run.failed:
            lost.setdefault(identity, []).append(run)
        else:
            alike.setdefault((identity, len(run.accuracy)), []).append(run)
    furthest = dict(sorted(alike, key=lambda key: key[1]))
    groups = [
        Group(tuple(runs), tuple(lost.pop(identity, ())) if furthest[identity] == length else ())
        for (identity, length), runs in alike.items()
    ]
    return [*groups, *(Group((), tuple(runs)) for runs in lost.values())]


def _identities(results: Sequence[Results]) -> list[str]:
    """What runs must share to be averaged: all but the seeds, and the order of tasks that a seed may decide.

    A record that is older does not tell its data; it is taken for the data of others like it, if all of them have the same.
    """
    families = [json.dumps([run.spec.family, sorted(run.tasks), _code(run), run.parameters]) for run in results]
    known: dict[str, set[str]] = {}
    for run, family in zip(results, families, strict=True):
        known.setdefault(family, set()).update({run.data} - {""})
    return [
        json.dumps([family, run.data or (*known[family], "")[0] if len(known[family]) < 2 else run.data])
        for run, family in zip(results, families, strict=True)
    ]


def _code(run: Results) -> dict[str, str]:
    """The source of what is not ours, but for the function of a benchmark: its data say more."""
    return {name: digest for name, digest in run.source.items() if not (run.data and name.startswith("benchmark "))}


def _columns(groups: Sequence[Group]) -> dict[str, list[str]]:
    settings = _in_short(groups, _differing_settings(groups), _own_settings(groups))
    columns = {
        "method": [group.first.method for group in groups],
        "benchmark": [group.first.stream for group in groups],
        "settings": settings,
        "seeds": [group.seeds for group in groups],
        "episodes": [episodes_of(group.first) for group in groups],
    }
    for measure in measures_of(groups):
        columns[measure.replace("_", " ")] = [
            percent([run.summary()[measure] for run in group.runs]) for group in groups
        ]
    columns["stored samples"] = [_mean(group, lambda run: run.stored_samples, "{:,.0f}".format) for group in groups]
    columns["params"] = [_mean(group, lambda run: run.num_parameters, human) for group in groups]
    columns["seconds"] = [_mean(group, lambda run: sum(run.seconds.values()), seconds) for group in groups]
    if not any(settings):
        del columns["settings"]
    if all(group.first.finished for group in groups) and _same_length(groups):
        del columns["episodes"]
    return columns


def measures_of(groups: Iterable[Group]) -> list[str]:
    """The measures of the matrix, and of those without the task told the ones that some run recorded."""
    told = [run.summary() for group in groups for run in group.runs]
    return [*MEASURES, *(name for name in UNTOLD if any(summary[name] is not None for summary in told))]


def _same_length(groups: Sequence[Group]) -> bool:
    """Whether groups of one benchmark have equally many tasks."""
    lengths = {(group.first.stream, len(group.first.tasks)) for group in groups}
    return len(lengths) == len({benchmark for benchmark, _ in lengths})


def episodes_of(run: Results) -> str:
    """How many of its tasks a run has met."""
    return f"{len(run.accuracy)}/{len(run.meetings)}"


def _mean(group: Group, measure: Callable[[Results], float], told: Callable[[float], str]) -> str:
    return told(fmean(measure(run) for run in group.runs)) if group.runs else MISSING


def _notes(left_out: int, groups: Sequence[Group]) -> tuple[str, ...]:
    notes = [LEARNING, *([NOT_TOLD] if len(measures_of(groups)) > len(MEASURES) else [])]
    if left_out:
        notes.append(f"{left_out} left out: another run with the same settings and seed has come as far or further.")
    if not all(group.first.finished for group in groups if group.runs):
        notes.append("Unfinished runs answer only for the tasks met so far; do not compare them with finished ones.")
    notes += failures(groups)
    for run in (run for group in groups for run in group.runs if run.changes):
        seed = run.settings.get("seed")
        notes.append(f"{run.method}, seed {seed}, was continued under other conditions: {'; '.join(run.changes)}.")
    return tuple(notes)


def failures(groups: Iterable[Group]) -> list[str]:
    """A sentence for each run that failed; one that diverged is counted in its row."""
    lost = [run for group in groups for run in group.lost if run.failed]
    return [f"{run.method} on {run.benchmark}, seed {run.spec.seed}, failed: {run.failed}" for run in lost]


def _own_settings(groups: Sequence[Group]) -> list[str]:
    """For each group, its settings that are not the default and that not all groups of its method and benchmark share."""
    flat = [_changed(group.first) for group in groups]
    kinds = [(group.first.stream, group.first.method) for group in groups]
    shown = []
    for kind, mine in zip(kinds, flat, strict=True):
        alike = [own for other, own in zip(kinds, flat, strict=True) if other == kind]
        told = [name for name, value in mine.items() if any(own.get(name) != value for own in alike)]
        shown.append(", ".join(f"{name}={_short(mine[name])}" for name in told))
    return shown


def _changed(run: Results) -> dict[str, str]:
    """What is not the default of the method, and how the benchmark was cut, under the names that flags have."""
    shown = {*run.spec.changes, *run.spec.shown_options} - {"seed"}
    return {name: value for name, value in _told(run).items() if name in shown}


def _differing_settings(groups: Sequence[Group]) -> list[str]:
    """For each group, its values of the settings in which the groups of its benchmark differ."""
    flat = [_told(group.first) for group in groups]
    kinds = [(group.first.stream, group.first.method) for group in groups]
    shown = [
        [path for path in mine if path != "seed" and _differs(path, kind, kinds, flat)]
        for kind, mine in zip(kinds, flat, strict=True)
    ]
    return [
        ", ".join(f"{path}={_short(mine[path])}" for path in paths) for mine, paths in zip(flat, shown, strict=True)
    ]


def _differs(
    path: str, kind: tuple[str, str], kinds: Sequence[tuple[str, str]], flat: Sequence[dict[str, str]]
) -> bool:
    """Whether groups of this stream have other values; only the same method can differ by lacking the setting."""
    stream, method = kind
    values = {
        settings.get(path)
        for (its_stream, its_method), settings in zip(kinds, flat, strict=True)
        if its_stream == stream and (its_method == method or path in settings)
    }
    return len(values) > 1


def equal_settings(groups: Sequence[Group]) -> dict[str, str]:
    """The settings that every group has with one value."""
    flat = [_told(group.first) for group in groups]
    same = [path for path in flat[0] if path != "seed" and {mine.get(path) for mine in flat} == {flat[0][path]}]
    return {path: _short(flat[0][path]) for path in same}


def settings_apart(run: Results, other: Results) -> list[str]:
    """The settings that both runs have, with other values."""
    mine, theirs = _told(run), _told(other)
    return [path for path in mine if path in theirs and path != "seed" and mine[path] != theirs[path]]


def _told(run: Results) -> dict[str, str]:
    """The settings of a run, with the seed of its order as what it is: an order that is not the benchmark's own."""
    said = {**run.spec.settings, **run.spec.shown_options}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}


def _short(value: str) -> str:
    if len(value) > LONGEST_NUMBER and re.fullmatch(r"-?\d+\.\d+", value):
        return f"{float(value):.4g}"
    return value if len(value) <= LONGEST_VALUE else f"…{value[1 - LONGEST_VALUE :]}"
