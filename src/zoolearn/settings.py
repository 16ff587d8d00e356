"""Settings: fields of a dataclass with a help text, choices and bounds, checked when a value is given."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from zoolearn.errors import SettingsError, unknown_name

Pixels = float | tuple[float, ...]  # of all pixels, or of each channel
KINDS: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
}
BOUNDS = {
    "least": (operator.ge, "{:g} or more"),
    "above": (operator.gt, "above {:g}"),
    "most": (operator.le, "at most {:g}"),
    "below": (operator.lt, "below {:g}"),
}


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Mapping[str, Any] | None = None,
    metavar: str | None = None,
    omit_default: bool = False,
) -> Any:
    """A dataclass field with a help text and bounds on its value, or choices: functions by name.

    With `omit_default`, records leave it out at its default, so that older records still compare.
    """
    about = {"help": help, "least": least, "above": above, "most": most, "below": below, "choices": choices}
    about |= {"metavar": metavar, "omit_default": omit_default or None}
    return field(default=default, metadata={name: value for name, value in about.items() if value is not None})


def check_settings(cls: type, given: Mapping[str, Any]) -> None:
    """Raises on unknown settings, values of another type, and values out of bounds.

    >>> from zoolearn import Recipe
    >>> check_settings(Recipe, {"schedule": "cosin"})
    Traceback (most recent call last):
    zoolearn.errors.SettingsError: unknown schedule 'cosin'; did you mean 'cosine'? (one of: constant, cosine, exponential, steps)
    >>> check_settings(Recipe, {"momentum": 1.0})
    Traceback (most recent call last):
    zoolearn.errors.SettingsError: momentum is 1.0; it must be 0 or more and below 1
    """
    known = {each.name: each for each in fields(cls) if each.init}
    for name, value in given.items():
        if name not in known:
            raise SettingsError(unknown_name(f"setting of {cls.__name__}", name, known))
        kind = known[name].type
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise SettingsError(unknown_name(name, str(value), get_args(kind)))
        elif kind in KINDS:
            _require(name, value, _is_number(value, kind), KINDS[kind][1])
        elif kind == Pixels:
            holds = bool(_all(value)) and all(_is_number(each, float) and math.isfinite(each) for each in _all(value))
            _require(name, value, holds, "a finite number, or one for each channel")
        elif "choices" in known[name].metadata:
            _check_function(known[name], value)
        elif isinstance(kind, type) and is_dataclass(kind):
            _require(name, value, isinstance(value, kind), f"a {kind.__name__}")
        _check_bounds(known[name], value)


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, KINDS[kind][0]) and (kind is bool or not isinstance(value, bool))


def _check_function(named: "Field[Any]", value: Any) -> None:
    is_settings = isinstance(value, type) and is_dataclass(value)
    function = named.metadata["choices"].get(value) if isinstance(value, str) else None
    wanted = "a function" if function is None else f"the function {function.__module__}.{function.__name__}"
    _require(named.name, value, callable(value) and not is_settings, wanted)


def _check_bounds(named: "Field[Any]", value: Any) -> None:
    bounds = {name: named.metadata[name] for name in BOUNDS if name in named.metadata}
    if bounds:
        within = [BOUNDS[name][0](each, bound) for each in _all(value) for name, bound in bounds.items()]
        wanted = " and ".join(BOUNDS[name][1].format(bound) for name, bound in bounds.items())
        _require(named.name, value, all(within) and all(-math.inf < each < math.inf for each in _all(value)), wanted)


def _all(value: Any) -> Sequence[float]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise SettingsError(f"{name} is {value!r}; it must be {wanted}")
