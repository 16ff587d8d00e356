"""Flat settings, as flags and presets have them, and nested ones, as a learner's record has them.

A record nests the recipe, and a function with settings under its name. The settings of a learner, its recipe and its
functions have different names, so flat settings are unambiguous.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.registry import default_recipe
from zoolearn.names import registered_name
from zoolearn.training.recipe import Recipe


def flatten(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Nested settings made flat; a name that is taken gets the name of its parent in front.

    >>> flatten({"recipe": {"epochs": 1}, "grow": {"name": "warm-start", "chains": 3}})
    {'epochs': 1, 'grow': 'warm-start', 'chains': 3}
    """
    flat: dict[str, Json] = {}
    for name, value in settings.items():
        if not isinstance(value, Mapping) or not value:
            flat[name] = value
            continue
        if "name" in value:
            flat[name] = value["name"]
        ours = name == "recipe" or "name" in value
        own = {each: setting for each, setting in value.items() if each != "name"}
        flat |= {each if ours and each not in flat else f"{name}.{each}": setting for each, setting in own.items()}
    return flat


def nest(cls: type, flat: Mapping[str, Json]) -> dict[str, Json]:
    """The inverse of `flatten`; settings of functions that are not chosen are left out, or an error if not default."""
    nested: dict[str, Json] = {}
    recipe = {setting.name for setting in fields(Recipe)}
    functions = _functions(cls)
    known = _own_names(cls)
    for name, value in flat.items():
        if name in recipe:
            nested.setdefault("recipe", {})[name] = value
        elif name in functions:
            setting, function, default = functions[name]
            if flat.get(setting) == function:
                nested[setting] = {"name": function, **_mapping(nested.get(setting)), name: value}
            elif value != default:
                flag = f"--{setting.replace('_', '-')} {function}"
                raise SettingsError(f"{name} is {value}, but it counts with {flag} only; add that flag")
        elif name in known:
            nested[name] = nested.get(name, value)
        else:
            raise SettingsError(unknown_name(f"setting of {cls.__name__}", name, [*known, *recipe, *functions]))
    return nested


def setting_names(cls: type) -> set[str]:
    """The names of all settings of a learner, of its recipe and of its functions, flat."""
    return _own_names(cls) | {setting.name for setting in fields(Recipe)} | _functions(cls).keys()


def _own_names(cls: type) -> set[str]:
    return {setting.name for setting in fields(cls) if setting.init}


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


@cache
def _functions(cls: type) -> dict[str, tuple[str, str, Json]]:
    """The settings of functions: of which setting, of which of its choices, and the default."""
    return {
        own.name: (setting.name, name, own.default)
        for setting in fields(cls)
        for name, choice in setting.metadata.get("choices", {}).items()
        if is_dataclass(choice)
        for own in fields(choice)
    }


def _name_choice(value: Any, metadata: Mapping[str, Any]) -> Json:
    return registered_name(value, metadata["choices"]) if "choices" in metadata else value


def recipe_defaults(cls: type) -> dict[str, Json]:
    """The default recipe of a method, flat."""
    recipe = default_recipe(cls)
    return {setting.name: _name_choice(getattr(recipe, setting.name), setting.metadata) for setting in fields(Recipe)}


@cache
def _defaults(cls: type) -> dict[str, Json]:
    usual: dict[str, Json] = {}
    for setting in fields(cls):
        if setting.init and setting.name == "recipe":
            usual |= recipe_defaults(cls)
        elif setting.init:
            value: Any = setting.default
            usual[setting.name] = _name_choice(value, setting.metadata)
    return usual


def defaults(cls: type, flat: Mapping[str, Json]) -> dict[str, Json]:
    """The default settings of a learner, flat, given the chosen functions."""
    chosen = {own: default for own, (setting, name, default) in _functions(cls).items() if flat.get(setting) == name}
    return {**_defaults(cls), **chosen}
