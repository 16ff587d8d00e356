"""A study: what many small runs say together, as figures with standard errors, in one JSON file of its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.lab.figures import Figure
from zoolearn.runs.decode import decode, plain
from zoolearn.runs.environment import environment
from zoolearn.runs.records import STUDIES, find_files, iter_records
from zoolearn.runs.results import NotNegative


@dataclass(frozen=True)
class Study:
    """What was studied on which benchmark, with which settings, and the figures that came of it."""

    FILE: ClassVar[str] = "study.json"
    FORMAT: ClassVar[int] = 1

    name: str
    benchmark: str
    settings: Mapping[str, Json]
    figures: Sequence[Figure]
    seconds: float = 0.0
    environment: Mapping[str, Json] = field(default_factory=environment)

    def save(self, folder: Path) -> None:
        content = {
            "format": self.FORMAT,
            "study": self.name,
            "benchmark": self.benchmark,
            "settings": dict(self.settings),
            "seconds": self.seconds,
            "environment": dict(self.environment),
            "figures": [figure.to_json() for figure in self.figures],
        }
        save_json(folder / self.FILE, plain(content, "study"))

    @classmethod
    def load(cls, folder: Path) -> "Study":
        return cls.from_json(load_json(folder / cls.FILE), str(folder / cls.FILE))

    @classmethod
    def from_json(cls, content: Mapping[str, Json], where: str) -> "Study":
        """What a record says, as `save` wrote it; an error names where it was read."""
        if content.get("format") != cls.FORMAT:
            raise StoreError(f"{where} has format {content.get('format')!r}, this zoolearn reads {cls.FORMAT}")
        file = decode(content, StudyFile, where, "the record of a study")
        figures = [Figure.from_json(figure, where) for figure in file.figures]
        return cls(file.study, file.benchmark, file.settings, figures, file.seconds, file.environment)


class StudyFile(msgspec.Struct):
    """What `study.json` holds, beside its format."""

    study: str
    benchmark: str
    settings: dict[str, Json]
    figures: list[Json]
    seconds: NotNegative
    environment: dict[str, Json]


def find_studies(folders: Iterable[Path]) -> dict[Path, Study]:
    """The studies at any depth below the folders, by where they lie: their folder, or a file of records and their name."""
    return {place: Study.from_json(content, str(place)) for place, content in study_contents(folders).items()}


def study_contents(folders: Iterable[Path]) -> dict[Path, dict[str, Json]]:
    """The studies as they were recorded."""
    found: dict[Path, dict[str, Json]] = {}
    for folder in folders:
        found |= {file.parent: load_json(file) for file in find_files(folder, Study.FILE)}
        for file in find_files(folder, STUDIES):
            found |= {file / name: content for name, content in iter_records(file)}
    return found
