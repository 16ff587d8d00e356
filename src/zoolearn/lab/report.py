"""Runs side by side: one row per method, benchmark and settings, mean and standard deviation over seeds."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from zoolearn.errors import DataError, StoreError
from zoolearn.lab.presets import preset_of
from zoolearn.lab.tables import MISSING, Table, human, percent, seconds, text
from zoolearn.runs.records import iter_runs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import DATA_SEEDS

MEASURES = ("average_accuracy", "forgetting", "forward_transfer", "backward_transfer")
LEARNING = "Forward transfer: the accuracy of a task just learned (learning accuracy)."
SEEDS = ("seed", *DATA_SEEDS)  # of the learner, the data and the task order
SEARCH = "tune.json"  # in the folder of a search
LONGEST_VALUE = 24
LONGEST_NUMBER = 8  # what a search proposes has 17 digits
LONGEST_LABEL = 48


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, and have come equally far."""

    runs: tuple[Results, ...]

    @property
    def first(self) -> Results:
        """The run that speaks for the group's method, benchmark and settings."""
        return self.runs[0]


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
    """One row per group of runs, sorted by benchmark and otherwise as given.

    Runs that have come less far get their own row, since they answer for fewer tasks. Of two runs with the same seed the
    one further along counts, and a note says so: a seed that counts twice would make the deviation too small.
    """
    if not results:
        raise DataError("there are no runs to report; give at least one")
    counted = _one_per_seed(results)
    groups = grouped(counted)
    columns = _columns(groups)
    return Table(
        header=tuple(columns),
        rows=tuple(zip(*columns.values(), strict=True)),
        labels=list(columns).index("average accuracy"),
        notes=_notes(len(results) - len(counted), groups),
    )


def grouped(results: Sequence[Results]) -> list[Group]:
    """The runs by what they differ in beside their seed, sorted by benchmark; each seed counts once."""
    return sorted(_groups(_one_per_seed(results)), key=lambda group: group.first.benchmark)


def labels(groups: Sequence[Group]) -> list[str]:
    """A name for each group that no other of its benchmark has: the method, and what tells it from others of the method.

    That are the settings that are not the default, or the name of the preset that has them if they are many.
    """
    told = _differing_settings(groups, within_method=True)
    settings = _in_short(groups, told, told)
    methods = [(group.first.benchmark, group.first.method) for group in groups]
    names = [
        f"{group.first.method} ({shown})" if shown and methods.count(method) > 1 else group.first.method
        for group, method, shown in zip(groups, methods, settings, strict=True)
    ]
    return [
        name if group.first.finished else f"{name}, {_episodes(group.first)} episodes"
        for group, name in zip(groups, names, strict=True)
    ]


def _in_short(groups: Sequence[Group], told: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """Settings that take too long to tell by the name of their preset, with the epochs where several have that name."""
    presets = [
        preset_of(group.first.spec) if len(shown) > LONGEST_LABEL else ""
        for group, shown in zip(groups, told, strict=True)
    ]
    names = [(group.first.benchmark, group.first.method, preset) for group, preset in zip(groups, presets, strict=True)]
    short = []
    for group, shown, brief, name in zip(groups, told, otherwise, names, strict=True):
        preset = name[-1]
        if preset and names.count(name) > 1:
            preset += f", epochs={group.first.settings.get('recipe', {}).get('epochs')}"
        short.append(shown if len(shown) <= LONGEST_LABEL else preset or brief)
    return short


def _one_per_seed(results: Sequence[Results]) -> list[Results]:
    furthest: dict[tuple[str, str], Results] = {}
    for place, run in enumerate(results):
        spec = run.spec
        known = [spec.seed, *(spec.options.get(name) for name in DATA_SEEDS)]
        seed = json.dumps(known) if "seed" in run.settings else f"unknown {place}"
        kept = furthest.get((_identity(run), seed))
        if kept is None or len(run.accuracy) > len(kept.accuracy):
            furthest[_identity(run), seed] = run
    return list(furthest.values())


def _groups(results: Iterable[Results]) -> list[Group]:
    alike: dict[tuple[str, int], list[Results]] = {}
    for run in results:
        alike.setdefault((_identity(run), len(run.accuracy)), []).append(run)
    return [Group(tuple(runs)) for runs in alike.values()]


def _identity(run: Results) -> str:
    """What runs must share to be averaged: all but the seeds, and the order of tasks that a seed may decide."""
    return json.dumps([run.spec.family, sorted(run.tasks)])


def _columns(groups: Sequence[Group]) -> dict[str, list[str]]:
    settings = _in_short(groups, _differing_settings(groups), _differing_settings(groups, within_method=True))
    columns = {
        "method": [group.first.method for group in groups],
        "benchmark": [group.first.benchmark for group in groups],
        "settings": settings,
        "seeds": [str(len(group.runs)) for group in groups],
        "episodes": [_episodes(group.first) for group in groups],
    }
    for measure in MEASURES:
        columns[measure.replace("_", " ")] = [
            percent([run.summary()[measure] for run in group.runs]) for group in groups
        ]
    columns["stored samples"] = [f"{_mean(group, lambda run: run.stored_samples):,.0f}" for group in groups]
    columns["params"] = [human(_mean(group, lambda run: run.num_parameters)) for group in groups]
    columns["seconds"] = [seconds(_mean(group, lambda run: sum(run.seconds.values()))) for group in groups]
    if not any(settings):
        del columns["settings"]
    if all(group.first.finished for group in groups) and _same_length(groups):
        del columns["episodes"]
    return columns


def _same_length(groups: Sequence[Group]) -> bool:
    """Whether groups of one benchmark have equally many tasks."""
    lengths = {(group.first.benchmark, len(group.first.tasks)) for group in groups}
    return len(lengths) == len({benchmark for benchmark, _ in lengths})


def _episodes(run: Results) -> str:
    return f"{len(run.accuracy)}/{len(run.tasks)}"


def _mean(group: Group, measure: Callable[[Results], float]) -> float:
    return fmean(measure(run) for run in group.runs)


def _notes(left_out: int, groups: Sequence[Group]) -> tuple[str, ...]:
    notes = [LEARNING]
    if left_out:
        notes.append(f"{left_out} left out: another run with the same settings and seed has come as far or further.")
    if not all(group.first.finished for group in groups):
        notes.append("Unfinished runs answer only for the tasks met so far; do not compare them with finished ones.")
    for run in (run for group in groups for run in group.runs if run.changes):
        seed = run.settings.get("seed")
        notes.append(f"{run.method}, seed {seed}, was continued under other conditions: {'; '.join(run.changes)}.")
    return tuple(notes)


def _differing_settings(groups: Sequence[Group], within_method: bool = False) -> list[str]:
    """For each group, its values of the settings in which the groups of its benchmark differ.

    Within a method, groups of other methods do not count, and a value that is the default is not worth a word.
    """
    flat = [_told(group.first) for group in groups]
    shown = [
        [path for path in mine if path not in SEEDS and _differs(path, group, groups, flat, within_method)]
        for group, mine in zip(groups, flat, strict=True)
    ]
    if within_method:
        changed = [{**group.first.spec.changes, **group.first.spec.options, "order": "shuffled"} for group in groups]
        shown = [[path for path in paths if path in other] for paths, other in zip(shown, changed, strict=True)]
    return [
        ", ".join(f"{path}={_short(mine[path])}" for path in paths) for mine, paths in zip(flat, shown, strict=True)
    ]


def _differs(
    path: str, group: Group, groups: Sequence[Group], flat: Sequence[dict[str, str]], within_method: bool
) -> bool:
    """Whether groups of this benchmark have other values; only the same method can differ by lacking the setting."""
    values = {
        settings.get(path)
        for other, settings in zip(groups, flat, strict=True)
        if other.first.benchmark == group.first.benchmark
        and (other.first.method == group.first.method or (path in settings and not within_method))
    }
    return len(values) > 1


def _told(run: Results) -> dict[str, str]:
    """The settings of a run, with the seed of its order as what it is: an order that is not the benchmark's own."""
    said = {**run.spec.settings, **run.spec.options}
    if said.pop("order_seed", None) is not None:
        said["order"] = "shuffled"
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}


def _short(value: str) -> str:
    if len(value) > LONGEST_NUMBER and re.fullmatch(r"-?\d+\.\d+", value):
        return f"{float(value):.4g}"
    return value if len(value) <= LONGEST_VALUE else f"…{value[1 - LONGEST_VALUE :]}"


def per_task(results: Results) -> Table:
    """Accuracy of each task met, in percent: just learned, at the end, and the change between; then their means."""
    summary = results.summary()
    learned = [row[-1] for row in results.accuracy]
    final = results.accuracy[-1] if results.accuracy else []
    tasks = zip(results.tasks, learned, final, strict=False)  # ends with the tasks met
    means = ("mean", summary["forward_transfer"], summary["average_accuracy"])
    return Table(
        header=("task", "just learned", "final", "change"),
        rows=tuple(
            (name, percent([first]), percent([last]), _change(first, last)) for name, first, last in [*tasks, means]
        ),
        labels=1,
    )


def _change(first: float | None, last: float | None) -> str:
    return MISSING if first is None or last is None else f"{100 * (last - first):+z.2f}"


def single_run(results: Results, width: int | None = None) -> str:
    """One run as text: what it was, the accuracy of each task, and the measures."""
    summary = results.summary()
    state = "" if results.finished else f", {_episodes(results)} episodes so far"
    measures = {
        "forward transfer (learning accuracy)": percent([summary["forward_transfer"]]),
        "forgetting": percent([summary["forgetting"]]),
        "backward transfer": percent([summary["backward_transfer"]]),
        "stored samples": f"{results.stored_samples:,}",
        "params": human(results.num_parameters),
        "seconds": seconds(sum(results.seconds.values())),
    }
    return "\n".join(
        [
            f"{results.method} on {results.benchmark}{state}",
            text(per_task(results), width),
            ", ".join(f"{name} {value}" for name, value in measures.items()),
        ]
    )
