"""Finished runs kept in few files: one `.jsonl` a benchmark, one line a run, sorted, so that a change shows as its lines.

results/split-cifar100.jsonl    the whole `results.json` of every run of the benchmark, and the name that the run has here
results/studies.jsonl           the `study.json` of every study
results/judged.jsonl            the `judged.json` of runs that were judged in more ways
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_text, seal, unseal
from zoolearn.runs.results import Results

ENDING = ".jsonl"
STUDIES, JUDGED, STEPS = (f"{name}{ENDING}" for name in ("studies", "judged", "steps"))  # the other ones are of runs


def iter_records(file: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """The name and the content of every record of a file; a damaged line is an error that names it."""
    seen: dict[str, int] = {}
    for number, line in enumerate(_lines(file), start=1):
        where = f"{file}, line {number},"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{where} is damaged ({error}); restore it from a copy") from error
        name = record.pop("name", None) if isinstance(record, dict) else None
        if not isinstance(name, str):
            raise StoreError(f"{where} is not a record of a run: it lacks a name; is it another program's file?")
        if name in seen:
            raise StoreError(f"{where} has the name of line {seen[name]}, {name!r}; remove one of the two")
        seen[name] = number
        yield name, unseal(record, where)


def save_records(file: Path, records: Mapping[str, Mapping[str, Json]]) -> None:
    """Writes records by their names, a line each, ordered by method, settings and seed."""
    ordered = sorted(records.items(), key=lambda record: _order(*record))
    lines = [json.dumps({"name": name, **seal(content)}, allow_nan=False) + "\n" for name, content in ordered]
    save_text(file, "".join(lines))


def load_records(file: Path) -> dict[str, dict[str, Json]]:
    """All records of a file by their names; none if there is no such file."""
    return dict(iter_records(file)) if file.exists() else {}


def iter_runs(path: Path) -> Iterator[tuple[Path, Results]]:
    """Every run at or below a path, with its folder, or its file of records and its name there."""
    for place, content in iter_contents(path):
        yield place, Results.from_json(content, str(place))


def iter_contents(path: Path) -> Iterator[tuple[Path, dict[str, Json]]]:
    """The record of every run at or below a path, folders first."""
    for file in find_files(path, Results.FILE):
        yield file.parent, load_json(file)
    for file in find_files(path, f"*{ENDING}"):
        if file.name not in (STUDIES, JUDGED, STEPS):
            for name, content in iter_records(file):
                yield file / name, content


def find_files(path: Path, pattern: str) -> list[Path]:
    """The files of this name at or below a path."""
    if path.is_file():
        return [path] if path.match(pattern) else []
    return sorted(file for file in path.rglob(pattern) if file.is_file())


def _lines(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().splitlines()
    except OSError as error:
        raise StoreError(f"{file} cannot be read ({error.strerror}); restore it from a copy") from error


def _order(name: str, content: Mapping[str, Json]) -> tuple[str, str, int, str]:
    settings = {**content.get("settings", content.get("run", {}))}
    seed = settings.pop("seed", 0)
    return content.get("method", ""), json.dumps(settings, sort_keys=True), int(seed), name
