"""A study: what many small runs say together, as figures with standard errors, in one JSON file of its own."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import ClassVar

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.lab.figures import Figure, Number
from zoolearn.runs.environment import environment
from zoolearn.runs.results import plain


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
        """Writes `study.json` into the folder."""
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
        """Reads what `save` wrote."""
        content = load_json(folder / cls.FILE)
        if content.get("format") != cls.FORMAT:
            raise StoreError(
                f"{folder / cls.FILE} has format {content.get('format')!r}, this zoolearn reads {cls.FORMAT}"
            )
        return cls(
            content["study"],
            content["benchmark"],
            content["settings"],
            [Figure.from_json(figure) for figure in content["figures"]],
            content["seconds"],
            content["environment"],
        )


def find_studies(folders: Iterable[Path]) -> list[Path]:
    """The folders that hold a study, at any depth below the given ones."""
    found = {file.parent: None for folder in folders for file in sorted(folder.rglob(Study.FILE))}
    return list(found)


def mean_and_error(values: Sequence[float]) -> tuple[float, Number]:
    """Mean and standard error of the mean; one value alone has no error.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([2.0])
    ((2.0, 1.0), (2.0, None))
    """
    mean = round(fmean(values), 3)
    return mean, round(stdev(values) / math.sqrt(len(values)), 3) if len(values) > 1 else None
