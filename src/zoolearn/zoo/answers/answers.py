"""What a zoo says about inputs of a task: one answer of all members, what each of them says, and "none of these"."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from zoolearn.files import Json
from zoolearn.zoo.answers.none_of_these import Why, why_none


@dataclass(frozen=True, eq=False)
class Answers:
    """Probabilities of a task's classes for some rows, and each member's own by its number, with the weight of its vote.

    A row is none of the classes where the likeliest has a chance below `sure`, or where it is `strange`: like nothing stored.
    """

    task: str
    generation: int  # of the zoo that gave them
    classes: tuple[str, ...]
    probabilities: Tensor
    votes: dict[int, Tensor]
    weights: dict[int, float]
    strange: Tensor | None = None  # where rows were compared with what is stored
    sure: float = 0.0

    def select(self, first: int, count: int, sure: float) -> "Answers":
        """Those for `count` rows from the first one on, that have to be so sure."""
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
        """The most probable class of each row, however unlikely."""
        return [self.classes[place] for place in self.probabilities.argmax(dim=1).tolist()]

    @property
    def labels(self) -> list[str | None]:
        """The class of each row, None where it is none of them."""
        return [None if why else name for name, why in zip(self.likeliest, self.reasons, strict=True)]

    def to_json(self, *, votes: bool) -> list[dict[str, Json]]:
        """An object for each row, with what each member says if that is asked for."""
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
        """Probabilities by names; a member knows the first classes only where others came after it."""
        best = max(probabilities)
        by_name = dict(zip(self.classes, probabilities, strict=False))
        return {"class": self.classes[probabilities.index(best)], "probability": best, "probabilities": by_name}
