"""Settings of learners as plain data, and back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.names import registered_name
from zoolearn.training.recipe import Recipe


def plain_settings(settings: Any) -> dict[str, Json]:
    """Every setting; of those that came later, only what is not the default, so that older records still compare."""
    plain = {}
    for setting in fields(settings):
        if setting.init:
            value = getattr(settings, setting.name)
            if setting.metadata.get("later") and value == setting.default:
                continue
            if "choices" in setting.metadata:
                value = plain_choice(value, setting.metadata["choices"])
            elif is_dataclass(value):
                value = plain_settings(value)
            plain[setting.name] = value
    return plain


def plain_choice(value: Any, table: Mapping[str, Any]) -> Json:
    """A function by its name; one that has settings of its own, with them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": registered_name(type(value), table), **plain_settings(value)}
    return registered_name(value, table)


def read_settings(cls: type, settings: Mapping[str, Json], names: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """What a class is made with, from the settings of a record; `names` are functions of the caller's own."""
    _check_unknown(cls, set(settings) - {"benchmark"})  # which a run records beside the learner's own
    read: dict[str, Any] = {}
    for setting in fields(cls):
        if setting.init and setting.name in settings:
            value = settings[setting.name]
            if setting.name == "recipe":
                _check_unknown(Recipe, value)
                value = Recipe(**value)
            elif "choices" in setting.metadata:
                value = _read_choice(setting.name, value, setting.metadata["choices"], names)
            read[setting.name] = value
    return read


def _read_choice(setting: str, value: Json, table: Mapping[str, Any], names: Mapping[str, Callable[..., Any]]) -> Any:
    """What `plain_choice` made a record of."""
    own = {**value} if isinstance(value, Mapping) else {"name": value}
    name = str(own.pop("name", None))
    if name not in names and name not in table:
        raise SettingsError(
            unknown_name(setting, name, [*table, *names]) + f"; pass your own as names={{{name!r}: ...}}"
        )
    found = names[name] if name in names else table[name]
    if not (is_dataclass(found) and isinstance(found, type)):
        return found
    _check_unknown(found, own)
    return found(**own)


def _check_unknown(cls: type, names: Iterable[str]) -> None:
    known = [setting.name for setting in fields(cls) if setting.init]
    for name in names:
        if name not in known:
            raise SettingsError(unknown_name(f"setting of {cls.__name__}", name, known))
