"""What all studies need to be told: the benchmark, how nets are trained, on how much data, with which seeds, and where."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.lab.figures import Chart, Figure, Map, Number
from zoolearn.runs.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings of a study; `tasks` are the names of the benchmark's tasks."""

    study: str
    benchmark: str
    tasks: tuple[str, ...]
    epochs: int
    seeds: tuple[int, ...] = (0, 1, 2)
    backbone: str = "small-conv"
    samples_per_class: int | None = None
    classes: int = 5  # of a task
    precision: str = "auto"
    first_tasks: int | None = None  # set where `tasks` are not all of the benchmark
    data: Path | None = None
    command: str = ""  # that makes the study

    def __post_init__(self) -> None:
        if not self.seeds:
            raise SettingsError("a study without seeds; give at least one")

    def spec(
        self,
        method: str,
        seed: int,
        *,
        first_tasks: int | None = None,
        only: Sequence[int] = (),
        validation: int | None = None,
        **settings: Json,
    ) -> RunSpec:
        """A run with the settings of the study and a few of its own; its seed picks the samples too."""
        options: dict[str, Json] = {"samples_per_class": self.samples_per_class, "samples_seed": seed}
        options |= {"only": list(only)} if only else {"first_tasks": first_tasks or self.first_tasks}
        options["validation"] = validation
        recipe = {"backbone": self.backbone, "epochs": self.epochs, "precision": self.precision}
        return RunSpec(method, self.benchmark, {**recipe, **settings}, options, seed)

    @property
    def tasks_per_episode(self) -> int:
        """The paper's b: 5, but 2 where there are only five tasks."""
        return 2 if len(self.tasks) <= 5 else 5

    @property
    def conditions(self) -> str:
        """The settings in a sentence."""
        samples = (
            f"{self.samples_per_class} training samples per class" if self.samples_per_class else "all training data"
        )
        epochs = "one epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        seeds = "one seed, so no error is known" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        arithmetic = "" if self.precision == "auto" else f", {self.precision}"
        return f"{self.backbone}, {epochs}, {samples}, {seeds}{arithmetic}"

    def map(
        self,
        columns: Sequence[str],
        samples: Mapping[tuple[int, int], Sequence[float]],
        labels: tuple[str, str, str],
        **more: Any,
    ) -> Map:
        """Tasks by columns, the mean of each cell's samples and, with several seeds, its error; a cell without any is empty.

        The labels are of rows, columns and values; `more` is what else a map takes.
        """
        values: list[list[Number]] = [[None] * len(columns) for _ in self.tasks]
        errors: list[list[Number]] = [[None] * len(columns) for _ in self.tasks]
        for (row, column), found in samples.items():
            values[row][column], errors[row][column] = mean_and_error(found)
        return Map(self.tasks, columns, values, *labels, spread=errors if len(self.seeds) > 1 else (), **more)

    def figure(self, kind: str, title: str, caption: str, chart: Chart) -> Figure:
        name, section = f"{self.benchmark}-{kind}", f"Studies on {self.benchmark}"
        return Figure(name, title, caption, {"": chart}, commands=[self.command], section=section)

    def record(self) -> dict[str, Json]:
        return {
            "epochs": self.epochs,
            "seeds": list(self.seeds),
            "backbone": self.backbone,
            "samples_per_class": self.samples_per_class,
        }


def mean_and_error(values: Sequence[float]) -> tuple[float, Number]:
    """Mean and standard error of the mean; one value alone has no error.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([2.0])
    ((2.0, 1.0), (2.0, None))
    """
    return fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
