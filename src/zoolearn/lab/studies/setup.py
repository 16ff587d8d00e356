"""What all studies need to be told: the benchmark, how nets are trained, on how much data, with which seeds, and where."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.lab.studies.trials import Trial


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
    first_tasks: int | None = None  # set where `tasks` are not all of the benchmark
    options: Mapping[str, Json] = field(default_factory=dict)
    data: Path | None = None

    def __post_init__(self) -> None:
        if not self.seeds:
            raise SettingsError("a study without seeds; give at least one")

    def trial(
        self,
        method: str,
        seed: int,
        *,
        first_tasks: int | None = None,
        only: tuple[int, ...] = (),
        keep: bool = True,
        validation: int | None = None,
        **learner: Json,
    ) -> Trial:
        """A run with the settings of the study and a few of its own."""
        backbone = {} if self.backbone == "small-conv" else {"backbone": self.backbone}
        return Trial(
            method=method,
            benchmark=self.benchmark,
            learner={**backbone, **learner},
            recipe={"epochs": self.epochs},
            seed=seed,
            samples_per_class=self.samples_per_class,
            first_tasks=None if only else first_tasks or self.first_tasks,
            only=only,
            keep=keep,
            validation=validation,
        )

    @property
    def tasks_per_episode(self) -> int:
        """The paper's b: 5, but 2 where there are only five tasks."""
        return 2 if len(self.tasks) <= 5 else 5

    @property
    def command(self) -> str:
        """The command that makes the study."""
        words = [
            "zoo",
            "study",
            self.study,
            self.benchmark,
            "--epochs",
            str(self.epochs),
            "--seeds",
            str(len(self.seeds)),
        ]
        if self.seeds[0]:
            words += ["--seed", str(self.seeds[0])]
        words += ["--samples-per-class", str(self.samples_per_class or 0)]
        if self.first_tasks is not None:
            words += ["--first-tasks", str(self.first_tasks)]
        if self.backbone != "small-conv":
            words += ["--backbone", self.backbone]
        return shlex.join(words)

    @property
    def conditions(self) -> str:
        """The settings in a sentence."""
        samples = (
            f"{self.samples_per_class} training samples per class" if self.samples_per_class else "all training data"
        )
        epochs = "one epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        seeds = "one seed, so no error is known" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return f"{self.backbone}, {epochs}, {samples}, {seeds}"

    def record(self) -> dict[str, Json]:
        """The settings as plain data."""
        return {
            "epochs": self.epochs,
            "seeds": list(self.seeds),
            "backbone": self.backbone,
            "samples_per_class": self.samples_per_class,
            **self.options,
        }
