"""What there is to show below some folders: runs, and the studies made of runs."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from zoolearn.errors import StoreError
from zoolearn.lab.figures import Figure
from zoolearn.lab.report import find_runs
from zoolearn.lab.studies.study import find_studies
from zoolearn.runs.records import iter_contents
from zoolearn.runs.results import Results


def gather(folders: Sequence[Path]) -> tuple[list[Results], list[Figure]]:
    """Runs, and the figures of studies; the runs that are parts of a study are shown by the study alone."""
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
