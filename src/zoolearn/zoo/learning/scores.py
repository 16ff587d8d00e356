"""Accuracies with confidence intervals, per class, beside the majority rate, and the calibration of confidences."""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import torch
from torch import Tensor

from zoolearn.files import Json

Z = 1.959964  # of a normal distribution: 95 % lie within this many deviations
BINS = 10
FEW = 1e-12  # the least probability that a log-loss counts with


@dataclass(frozen=True)
class Share:
    """`right` answers out of `rows`, with Wilson's 95 % interval for further rows.

    >>> one_of_two = Share(1, 2)
    >>> round(one_of_two.low, 2), one_of_two.value, round(one_of_two.high, 2)
    (0.09, 0.5, 0.91)
    """

    right: int
    rows: int

    @classmethod
    def of(cls, value: float, rows: int) -> "Share":
        """From a recorded accuracy."""
        return cls(round(value * rows), rows)

    @property
    def value(self) -> float:
        """The share itself; 0 of no rows."""
        return self.right / self.rows if self.rows else 0.0

    @property
    def low(self) -> float:
        return max(0.0, self._middle - self._half)

    @property
    def high(self) -> float:
        return min(1.0, self._middle + self._half)

    def to_json(self) -> dict[str, Json]:
        return {"accuracy": self.value, "low": self.low, "high": self.high, "right": self.right, "rows": self.rows}

    @property
    def _middle(self) -> float:
        return (self.right + Z**2 / 2) / (self.rows + Z**2)

    @property
    def _half(self) -> float:
        value = self.value
        return Z * math.sqrt(self.rows * value * (1 - value) + Z**2 / 4) / (self.rows + Z**2)


@dataclass(frozen=True)
class Change:
    """The difference of two accuracies on the same rows, from those that were gained and lost (Bonett and Price, 2012).

    >>> change = Change(gained=1, lost=0, rows=2)
    >>> change.in_points(" points"), change.difference
    ('+50.0 points (-56.3 to +100.0)', 'cannot be seen')
    """

    gained: int
    lost: int
    rows: int

    @classmethod
    def between(cls, before: Tensor, after: Tensor, labels: Tensor) -> "Change":
        """Of two answers on rows with these labels."""
        was, now = (answers.argmax(dim=1) == labels for answers in (before, after))
        return cls(int((now & ~was).sum()), int((was & ~now).sum()), len(labels))

    @property
    def value(self) -> float:
        """As a share of the rows."""
        return (self.gained - self.lost) / self.rows

    def interval(self, looks: int = 1) -> tuple[float, float]:
        """The 95 % interval, which is not centred at `value`; corrected for `looks` comparisons (Bonferroni)."""
        gained, lost, rows = self.gained + 1, self.lost + 1, self.rows + 2
        middle, certain = (gained - lost) / rows, NormalDist().inv_cdf(1 - 0.025 / looks)
        margin = certain * math.sqrt(gained + lost - (gained - lost) ** 2 / rows) / rows
        return max(-1.0, middle - margin), min(1.0, middle + margin)

    @property
    def low(self) -> float:
        return self.interval()[0]

    @property
    def high(self) -> float:
        return self.interval()[1]

    def in_points(self, unit: str = "", looks: int = 1) -> str:
        """The change and its interval in points of accuracy.

        >>> Change(gained=30, lost=10, rows=200).in_points()
        '+10.0 (+3.8 to +16.0)'
        """
        low, high = self.interval(looks)
        return f"{100 * self.value:+.1f}{unit} ({100 * low:+.1f} to {100 * high:+.1f})"

    @property
    def difference(self) -> str:
        """Whether the 95 % interval excludes 0, in words."""
        if not self.gained and not self.lost:
            return "none"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "cannot be seen"

    def is_below(self, limit: float, looks: int = 1) -> bool:
        """Whether significantly more than `limit` was lost, at 2.5 %, corrected for `looks` comparisons (Bonferroni)."""
        return self.interval(looks)[1] < -limit

    def to_json(self) -> dict[str, Json]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "difference": self.difference,
            "rows": self.rows,
        }


def balanced_accuracy(answers: Tensor, labels: Tensor) -> float:
    """The mean of the classes' accuracies, of those that have rows: each counts the same.

    >>> balanced_accuracy(torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0, 1, 1]))
    0.75
    """
    rows = torch.bincount(labels, minlength=answers.shape[1])
    right = torch.bincount(labels[answers.argmax(dim=1) == labels], minlength=answers.shape[1])
    return float((right[rows > 0].double() / rows[rows > 0]).mean())


@dataclass(frozen=True)
class Bin:
    """Answers of about one confidence: their mean confidence, and how many of them were right."""

    confidence: float
    accuracy: Share


@dataclass(frozen=True)
class Scores:
    """Scores of answers for one task on labelled rows.

    `confusion[true][predicted]` counts rows; `confidence` is the mean probability of the class that was named, and `log_loss`
    the mean of -log of the probability that the right class was given.

    >>> answers = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    >>> scores = Scores.of(answers, torch.tensor([0, 0, 1]), ("cat", "dog"))
    >>> scores.accuracy.right, scores.most_frequent, scores.majority.right
    (2, 'cat', 2)
    >>> scores.of_class("dog").right, scores.mistakes()
    (0, [('dog', 'cat', 1)])
    >>> scores.precision("cat"), scores.confused_with("dog")
    (Share(right=2, rows=3), 'cat')
    """

    classes: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    confidence: float
    log_loss: float
    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, probabilities: Tensor, labels: Tensor, classes: tuple[str, ...]) -> "Scores":
        """Of probabilities, one row an input, columns as the classes."""
        chosen, answered = probabilities.double().max(dim=1)
        count = len(classes)
        confusion = torch.bincount(labels * count + answered, minlength=count * count).view(count, count)
        given = probabilities.double().gather(1, labels[:, None])[:, 0]
        return cls(
            classes,
            tuple(map(tuple, confusion.tolist())),
            min(1.0, float(chosen.mean())),
            float(-given.clamp_min(FEW).log().mean()),
            _bins(chosen, answered == labels),
        )

    @property
    def rows(self) -> int:
        return sum(map(sum, self.confusion))

    @cached_property
    def accuracy(self) -> Share:
        return Share(sum(row[place] for place, row in enumerate(self.confusion)), self.rows)

    def of_class(self, name: str) -> Share:
        """The recall of a class."""
        place = self.classes.index(name)
        return Share(self.confusion[place][place], sum(self.confusion[place]))

    def precision(self, name: str) -> Share:
        place = self.classes.index(name)
        return Share(self.confusion[place][place], self._answered[place])

    @cached_property
    def _answered(self) -> list[int]:
        """How many rows were predicted as each class."""
        return [sum(column) for column in zip(*self.confusion, strict=True)]

    def confused_with(self, name: str) -> str | None:
        """The class that rows of a class are most often mistaken for; None if there is no mistake."""
        place = self.classes.index(name)
        count, nearest = max(
            (count, -answered) for answered, count in enumerate(self.confusion[place]) if answered != place
        )
        return self.classes[-nearest] if count else None

    @property
    def most_frequent(self) -> str:
        return max(self.classes, key=lambda name: self.of_class(name).rows)

    @property
    def majority(self) -> Share:
        """The accuracy of always predicting the most frequent class."""
        return Share(self.of_class(self.most_frequent).rows, self.rows)

    @property
    def balanced_accuracy(self) -> float:
        """The mean over the classes that have rows: each counts the same."""
        shares = [share for name in self.classes if (share := self.of_class(name)).rows]
        return sum(share.value for share in shares) / len(shares)

    @property
    def chance_log_loss(self) -> float:
        """The log-loss of predicting the class frequencies, whatever the input."""
        counts = [self.of_class(name).rows for name in self.classes]
        return -sum(count / self.rows * math.log(count / self.rows) for count in counts if count)

    @property
    def calibration_error(self) -> float:
        """How far confidence is from accuracy, averaged over the bins by their rows (expected calibration error)."""
        return sum(abs(part.confidence - part.accuracy.value) * part.accuracy.rows for part in self.bins) / self.rows

    def mistakes(self) -> list[tuple[str, str, int]]:
        """Triples of true class, predicted class and count of mistakes, the most frequent first."""
        found = [
            (true, answered, self.confusion[row][column])
            for row, true in enumerate(self.classes)
            for column, answered in enumerate(self.classes)
            if row != column and self.confusion[row][column]
        ]
        return sorted(found, key=lambda mistake: -mistake[2])

    def to_json(self) -> dict[str, Json]:
        return {
            **self.accuracy.to_json(),
            "majority": self.majority.value,
            "most_frequent": self.most_frequent,
            "balanced_accuracy": self.balanced_accuracy,
            "confidence": self.confidence,
            "log_loss": self.log_loss,
            "chance_log_loss": self.chance_log_loss,
            "calibration_error": self.calibration_error,
            "classes": {name: self._class_to_json(name) for name in self.classes},
            "confusion": [list(row) for row in self.confusion],
            "calibration": [{"confidence": part.confidence, **part.accuracy.to_json()} for part in self.bins],
            "notes": self.notes(),
        }

    def _class_to_json(self, name: str) -> dict[str, Json]:
        precision = self.precision(name)
        return {
            **self.of_class(name).to_json(),
            "precision": precision.value if precision.rows else None,
            "confused_with": self.confused_with(name),
        }

    def notes(self) -> list[str]:
        """Warnings about the accuracy and the probabilities, as sentences."""
        sentences = [*doubts(self.accuracy, (self.most_frequent, self.majority.value), self.confidence)]
        if self.log_loss > self.chance_log_loss:
            sentences.append(
                f"its probabilities are worse than guessing by the frequency of the classes (log-loss "
                f"{self.log_loss:.3f}, guessing {self.chance_log_loss:.3f}): believe the class, not the probability"
            )
        return sentences


def doubts(accuracy: Share, majority: tuple[str, float] | None, confidence: float) -> list[str]:
    """Warnings about an accuracy, as sentences; empty if there is nothing to warn of.

    >>> doubts(Share(59, 64), ("cat", 60 / 64), 0.93)
    ["no better than always answering 'cat', which would be right for 93.8%"]
    """
    sentences = []
    name, rate = majority or ("", -1.0)
    always = f"always answering {name!r}, which would be right for {rate:.1%}"
    if accuracy.value <= rate:
        sentences.append(f"no better than {always}")
    elif accuracy.low <= rate:
        sentences.append(f"not surely better than {always}: {accuracy.rows:,} rows are too few to tell")
    if is_overconfident(accuracy, confidence):
        sentences.append(f"overconfident: on average {confidence:.0%} sure, but right for {accuracy.value:.0%}")
    return sentences


def is_overconfident(accuracy: Share, confidence: float) -> bool:
    """Whether the mean confidence is above the interval of the accuracy."""
    return confidence > accuracy.high


def _bins(confidence: Tensor, right: Tensor) -> tuple[Bin, ...]:
    """Answers sorted by confidence, in ten bins of equal width; empty ones are left out."""
    place = (confidence * BINS).long().clamp_max(BINS - 1)
    return tuple(
        Bin(float(confidence[rows].mean()), Share(int(right[rows].sum()), int(rows.sum())))
        for number in range(BINS)
        if (rows := place == number).any()
    )
