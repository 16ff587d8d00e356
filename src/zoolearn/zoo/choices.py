"""Names in place of functions, and settings that do not exist."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from zoolearn.errors import SettingsError, unknown_name


def named(setting: str, value: Any, table: Mapping[str, Any]) -> Any:
    """What a name means in a table; what is no name means itself. One with settings of its own has their defaults."""
    if not isinstance(value, str):
        return value
    if value not in table:
        raise SettingsError(unknown_name(setting, value, table))
    return table[value]() if isinstance(table[value], type) else table[value]


def check_unknown(function: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Refuses keywords that a function does not know, and lists those that it does."""
    if unknown:
        known = [name for name, kind in signature(function).parameters.items() if kind.kind is kind.KEYWORD_ONLY]
        raise SettingsError(unknown_name("setting", next(iter(unknown)), known))
