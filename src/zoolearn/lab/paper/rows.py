"""What a table of the paper is: rows, each a run with the numbers that it is to reproduce, in percent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zoolearn.files import Json
from zoolearn.runs.spec import RunSpec

Numbers = Mapping[str, float | None]  # measure -> the paper's number, None where it has none

FIVE_TASKS = ("rotated-mnist", "permuted-mnist", "split-mnist", "split-cifar10")


ROWS_OF_A_TASK = {
    **dict.fromkeys(("rotated-mnist", "permuted-mnist"), 60_000),
    "split-mnist": 12_000,
    "split-cifar10": 10_000,
    **dict.fromkeys(("split-cifar100", "coarse-cifar100"), 2_500),
    "split-miniimagenet": 2_400,
}  # to train on, in the paper


@dataclass(frozen=True)
class Row:
    """One line of a table: a name to call it by, the run, the paper's numbers, and where the run differs from the paper's."""

    name: str
    spec: RunSpec
    numbers: Numbers
    differs: str = ""
    stands_in_for: str = ""  # the row of the paper whose place it takes with another net or a smaller budget
    apart: str = ""  # what of net, epochs, tasks or data is not the paper's: then there is no difference to tell
    bootstraps: bool = False  # each seed draws samples of its own

    def run(self, seed: int) -> RunSpec:
        options = {**self.spec.options, "samples_seed": seed} if self.bootstraps else self.spec.options
        return replace(self.spec, seed=seed, options=options)

    def __str__(self) -> str:
        return f"{self.name} on {self.spec.benchmark}"


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
