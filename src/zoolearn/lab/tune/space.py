"""The search space: for each setting a range or choices, written `lr=1e-4..1e-2` or `backbone=mlp,small-conv`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.runs.own import split_names

PAPER = ("batch_size=8..64", "lr=0.0001..0.01", "dropout=0.1..0.5", "weight_decay=0.000001..0.01")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, searched logarithmically if they span a factor of ten or more.

    >>> Range(1e-4, 1e-2).logarithmic, Range(8, 64).logarithmic
    (True, False)
    """

    low: float
    high: float

    @property
    def ends(self) -> tuple[float, ...]:
        return self.low, self.high

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int)

    @property
    def logarithmic(self) -> bool:
        """Whether the range is searched by the logarithm."""
        return self.low > 0 and self.high / self.low >= 10


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.values


Space = Mapping[str, Range | Choice]


def part_of_space(text: str, read: Callable[[str, str], Any]) -> tuple[str, Range | Choice]:
    """A setting and its range or choices; `read(setting, text)` gives a value of the setting's type.

    >>> part_of_space("lr=0.001..0.1", lambda _, text: float(text))
    ('lr', Range(low=0.001, high=0.1))
    """
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise SettingsError(f"{text!r} says not what {name} may be; write {name}=LOW..HIGH or {name}=VALUE,VALUE")
    low, dots, high = values.partition("..")
    if not dots:
        return name, Choice(tuple(dict.fromkeys(read(name, value) for value in split_names(values))))
    ends = [read(name, end.strip()) for end in (low, high)]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends) or not ends[0] < ends[1]:
        raise SettingsError(f"{name}={values} is no range; it takes two numbers, the smaller one first")
    return name, Range(*ends)


def describe_space(space: Space) -> dict[str, Json]:
    """The space as plain data, for the record."""
    return {
        name: [part.low, part.high] if isinstance(part, Range) else {"choices": list(part.values)}
        for name, part in space.items()
    }
