"""The answers of a zoo for inputs of a task: combined probabilities, the votes of members, and "none of these"."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from zoolearn.files import Json
from zoolearn.zoo.answers.none_of_these import Why, why_none


@dataclass(frozen=True, eq=False)
class Answers:
    """Probabilities of a task's classes for some rows, and each member's votes with their weights.

    A row is none of the classes if the likeliest has a probability below `sure`, or if it is `strange`: unlike all
    stored rows.
    """

    task: str
    generation: int  # of the zoo that gave them
    classes: tuple[str, ...]
    probabilities: Tensor
    votes: dict[int, Tensor]
    weights: dict[int, float]
    strange: Tensor | None = None  # if rows were compared with stored ones
    sure: float = 0.0

    def select(self, first: int, count: int, sure: float) -> "Answers":
        """The answers for `count` rows from `first` on, at this `sure`."""
        rows = slice(first, first + count)
        strange = None if self.strange is None else self.strange[rows]
        votes = {member: vote[rows] for member, vote in self.votes.items()}
        return replace(self, probabilities=self.probabilities[rows], votes=votes, strange=strange, sure=sure)

    @cached_property
    def reasons(self) -> list[Why | None]:
        """Why each row is none of the classes; None where it is one of them."""
        return why_none(self.probabilities, self.sure, self.strange)

    @property
    def likeliest(self) -> list[str]:
        """The most probable class of each row, whatever its probability."""
        return [self.classes[place] for place in self.probabilities.argmax(dim=1).tolist()]

    @property
    def labels(self) -> list[str | None]:
        """The class of each row, None if it is none of them."""
        return [None if why else name for name, why in zip(self.likeliest, self.reasons, strict=True)]

    def to_json(self, *, votes: bool) -> list[dict[str, Json]]:
        """An object for each row, with the votes of members if asked for."""
        rows = [
            {**self._row_to_json(row), "class": label, "none_of_these": why}
            for row, label, why in zip(self.probabilities.tolist(), self.labels, self.reasons, strict=True)
        ]
        if votes:
            for place, row in enumerate(rows):
                row["votes"] = [
                    {"member": member, "weight": self.weights[member], **self._row_to_json(vote[place].tolist())}
                    for member, vote in self.votes.items()
                ]
        return rows

    def _row_to_json(self, probabilities: Sequence[float]) -> dict[str, Json]:
        """Probabilities by class name; a member may know only the first classes."""
        best = max(probabilities)
        by_name = dict(zip(self.classes, probabilities, strict=False))
        return {"class": self.classes[probabilities.index(best)], "probability": best, "probabilities": by_name}
