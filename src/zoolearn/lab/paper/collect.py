"""`zoo paper --collect`: what is small and says all of finished runs and studies, a line each in one file a benchmark."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolearn.files import Json
from zoolearn.lab.paper.compare import is_row
from zoolearn.lab.paper.judged import iter_judged
from zoolearn.lab.studies.study import Study, study_contents
from zoolearn.runs.records import ENDING, JUDGED, STUDIES, find_files, iter_contents, load_records, save_records
from zoolearn.runs.results import Results
from zoolearn.runs.spec import short_name

Records = dict[str, dict[str, Json]]


@dataclass
class Collected:
    """How many records there are now, and how many of them are new or other than before."""

    records: int = 0
    new: int = 0
    replaced: int = 0


def collect(folders: Sequence[Path], to: Path) -> Collected:
    """Adds what lies below the folders to the files of records in `to`.

    A run that is there already is replaced and keeps its name; whatever else is there stays. Of the runs that a study
    consists of, only those are taken that are also rows of a table.
    """
    before = {file: load_records(file) for file in find_files(to, f"*{ENDING}")}
    after: dict[Path, Records] = {file: {**records} for file, records in before.items()}
    names = _collect_runs(folders, to, after)
    for place, content in _outside(to, study_contents(folders).items()):
        after.setdefault(to / STUDIES, {})[_study_name(Study.from_json(content, str(place)))] = _strip_study(content)
    for folder in folders:
        for place, content in _outside(to, iter_judged(folder).items()):
            after.setdefault(to / JUDGED, {})[names.get(place, place.name)] = content
    collected = Collected()
    for file, records in after.items():
        old = before.get(file, {})
        collected.records += len(records)
        collected.new += len(records.keys() - old.keys())
        collected.replaced += sum(records[name] != content for name, content in old.items())
        if records != old:
            save_records(file, records)
    return collected


def _collect_runs(folders: Sequence[Path], to: Path, files: dict[Path, Records]) -> dict[Path, str]:
    """Puts runs into the records of their files; returns their names there by where they were found."""
    studies = [place.resolve() for place in study_contents(folders)]
    named = {
        Results.from_json(content, str(file / name)).identity: name
        for file, records in files.items()
        if file.name not in (STUDIES, JUDGED)
        for name, content in records.items()
    }
    names: dict[Path, str] = {}
    seen: dict[str, Path] = {}
    for place, content in _outside(to, (found for folder in folders for found in iter_contents(folder))):
        run = Results.from_json(content, str(place))
        in_study = any(study in place.resolve().parents for study in studies)
        if run.finished and (not in_study or is_row(run)) and seen.setdefault(run.identity, place) == place:
            records = files.setdefault(to / f"{run.benchmark}{ENDING}", {})
            name = named.get(run.identity) or _find_unused_name(run.spec.name, records)
            records[name] = _strip_folders(content)
            names[place] = name
    return names


def _strip_folders(content: dict[str, Json]) -> dict[str, Json]:
    """A run's record whose commands do not say where it was written: that is a place on one machine."""
    commands = {"command": _without_folder(content["command"])} if content.get("command") else {}
    sittings = [_strip_folders(sitting) for sitting in content.get("sittings", ())]
    return {**content, **commands, **({"sittings": sittings} if sittings else {})}


def _strip_study(content: dict[str, Json]) -> dict[str, Json]:
    figures = [{**figure, "commands": [*map(_without_folder, figure["commands"])]} for figure in content["figures"]]
    return {**content, "figures": figures}


def _without_folder(command: str) -> str:
    return re.sub(r" --out \S+", "", command)


def _outside(to: Path, found: Iterable[tuple[Path, dict[str, Json]]]) -> Iterator[tuple[Path, dict[str, Json]]]:
    return ((place, content) for place, content in found if to.resolve() not in place.resolve().parents)


def _find_unused_name(name: str, records: Records) -> str:
    """The name, with a number behind it where other runs have it: data of which a part is missing has no word in it."""
    number, unused = 1, name
    while unused in records:
        number += 1
        unused = f"{name}-{number}"
    return unused


def _study_name(study: Study) -> str:
    words = [f"{name.replace('_', '')}{value}" for name, value in study.settings.items() if name != "seeds"]
    return short_name("-".join(["study", study.name, study.benchmark, *words]))
