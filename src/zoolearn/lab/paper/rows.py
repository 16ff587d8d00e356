"""What a table of the paper is: rows, each a run with the numbers that it is to reproduce, in percent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoolearn.files import Json
from zoolearn.lab.studies.trials import Trial

Numbers = Mapping[str, float | None]  # measure -> what the paper says, None where it is silent

FIVE_TASKS = ("rotated-mnist", "permuted-mnist", "split-mnist", "split-cifar10")


@dataclass(frozen=True)
class Row:
    """One line of a table: a name to call it by, the run, the paper's numbers, and where the run differs from the paper's."""

    name: str
    method: str
    benchmark: str
    numbers: Numbers
    learner: Mapping[str, Json] = field(default_factory=dict)
    recipe: Mapping[str, Json] = field(default_factory=dict)
    samples_per_class: int | None = None
    differs: str = ""
    tasks: Mapping[str, Json] = field(default_factory=dict)  # which of the benchmark's, if not all: as in a preset
    stands_in_for: str = ""  # the row of the paper whose place it takes with another net or a smaller budget

    def trial(self, seed: int) -> Trial:
        """The run with this seed."""
        return Trial(
            method=self.method,
            benchmark=self.benchmark,
            learner=self.learner,
            recipe=self.recipe,
            seed=seed,
            samples_per_class=self.samples_per_class or self.tasks.get("samples_per_class"),
            samples_seed=0 if "samples_per_class" in self.tasks else None,
            length=self.tasks.get("tasks"),
            first_tasks=self.tasks.get("first_tasks"),
            after_tasks=self.tasks.get("after_tasks"),
        )


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper."""

    name: str
    where: str
    title: str
    rows: tuple[Row, ...]
    of_paper: bool = True  # else its numbers are others', or quoted beside runs that were never meant to give them


def three(accuracy: float, forgetting: float, forward: float) -> dict[str, float]:
    """The numbers of a table that has all three."""
    return {"average_accuracy": accuracy, "forgetting": forgetting, "forward_transfer": forward}


def accuracy_of(value: float | None) -> dict[str, float | None]:
    """The numbers of a table that has the accuracy alone."""
    return {"average_accuracy": value}


def paper_b(benchmark: str) -> dict[str, Json]:
    """The paper's b where it is not 5."""
    return {"tasks_per_episode": 2} if benchmark in FIVE_TASKS else {}
