"""Runs side by side: one row per method, benchmark and settings, mean and standard deviation over seeds."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zoolearn.errors import DataError, StoreError
from zoolearn.lab.figures import Figure
from zoolearn.lab.groups import Group, episodes_of, group_runs, one_per_seed
from zoolearn.lab.labels import differing_settings, own_settings, shorten_settings
from zoolearn.lab.streams import streams_of_groups, tasks_of_groups
from zoolearn.lab.studies.study import find_studies
from zoolearn.lab.tables import Table, human, mean, percent, seconds
from zoolearn.runs.records import iter_contents, iter_runs
from zoolearn.runs.results import Results

MEASURES = ("average_accuracy", "forgetting", "forward_transfer", "backward_transfer")
CLASS_INCREMENTAL = {
    "class_incremental_accuracy": "task not told",
    "class_incremental_inferred": "task inferred",
    "class_incremental_statistics": "not told, by statistics",
}  # in tables and figures of runs that recorded it, and what it is called where there is little room
CLASS_INCREMENTAL_NOTE = (
    "Class incremental: task not told, all classes of all tasks are candidates; after the last episode only."
)
LEARNING = "Forward transfer: the accuracy of a task just learned (learning accuracy)."
SEARCH = "tune.json"  # in the folder of a search


def find_runs(paths: Iterable[Path | str]) -> dict[Path, Results]:
    """The runs at or below the paths, by location, without repeats.

    That is the folder of a `results.json` (the path itself, or all below it), or a file of records and a name in
    it.
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
    """Whether a run is a trial of a search, which counts only if the search itself is reported."""
    above = folder.parent
    return above != below and below in above.parents and (above / SEARCH).is_file()


def report(results: Sequence[Results]) -> Table:
    """One row for each group of runs, sorted by benchmark; the best values of a benchmark are marked.

    Unfinished runs get their own row. Of two runs with the same seed the one further along counts, and a note says
    so: counting a seed twice would make the deviation too small.
    """
    if not results:
        raise DataError("there are no runs to report; give at least one")
    counted = one_per_seed(results)
    groups = sorted(group_runs(counted), key=lambda group: group.first.stream)
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
    """The rows with the best mean of a measure among finished runs on the same tasks, if there are several."""
    alike: dict[str, dict[int, float]] = {}
    for row, (group, tasks) in enumerate(zip(groups, tasks_of_groups(groups), strict=True)):
        value = group.mean(measure)
        if group.first.finished and value is not None:
            alike.setdefault(tasks, {})[row] = value
    for means in alike.values():
        top = min(means.values()) if measure == "forgetting" else max(means.values())
        yield from (row for row, value in means.items() if value == top and len(means) > 1)


def _columns(groups: Sequence[Group]) -> dict[str, list[str]]:
    settings = shorten_settings(groups, differing_settings(groups), own_settings(groups))
    columns = {
        "method": [group.first.method for group in groups],
        "benchmark": streams_of_groups(groups),
        "settings": settings,
        "seeds": [group.seeds for group in groups],
        "episodes": [episodes_of(group.first) for group in groups],
    }
    for measure in measures_of(groups):
        columns[measure.replace("_", " ")] = [percent(group.values(measure)) for group in groups]
    columns["stored samples"] = [mean(group.values("stored_samples")) for group in groups]
    columns["params"] = [mean(group.values("num_parameters"), human) for group in groups]
    columns["seconds"] = [mean([sum(run.seconds.values()) for run in group.runs], seconds) for group in groups]
    if not any(settings):
        del columns["settings"]
    if all(group.first.finished for group in groups) and _same_length(groups):
        del columns["episodes"]
    return columns


def measures_of(groups: Iterable[Group]) -> list[str]:
    """The measures of the matrix, and the class-incremental ones that some run has."""
    summaries = [run.summary() for group in groups for run in group.runs]
    return [*MEASURES, *(name for name in CLASS_INCREMENTAL if any(summary[name] is not None for summary in summaries))]


def _same_length(groups: Sequence[Group]) -> bool:
    lengths = {(group.first.stream, len(group.first.tasks)) for group in groups}
    return len(lengths) == len({benchmark for benchmark, _ in lengths})


def _notes(left_out: int, groups: Sequence[Group]) -> tuple[str, ...]:
    notes = [LEARNING, *([CLASS_INCREMENTAL_NOTE] if len(measures_of(groups)) > len(MEASURES) else [])]
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
    """A sentence for each failed run; diverged ones are counted in their row."""
    lost = [run for group in groups for run in group.lost if run.failed]
    return [f"{run.method} on {run.benchmark}, seed {run.spec.seed}, failed: {run.failed}" for run in lost]


def gather(folders: Sequence[Path]) -> tuple[list[Results], list[Figure]]:
    """Runs, and figures of studies; runs that are parts of a study are left out."""
    for folder in folders:
        if not folder.exists():
            raise StoreError(f"{folder} does not exist; give the folder of a run or of a study, or one that holds such")
    studies = find_studies(folders)
    results = [run for place, run in _runs(folders).items() if not _inside(place, studies)]
    if not results and not studies:
        raise StoreError(f"no run and no study in {', '.join(map(str, folders))}")
    seen: list[Figure] = []
    for figure in (figure for study in studies.values() for figure in study.figures):
        if figure not in seen:  # a study may be there twice, as a copy or with the same simulation
            seen.append(figure)
    return results, seen


def _runs(folders: Sequence[Path]) -> dict[Path, Results]:
    return find_runs(folder for folder in folders if any(iter_contents(folder)))


def _inside(path: Path, studies: Iterable[Path]) -> bool:
    return any(study.resolve() in path.resolve().parents for study in studies)
