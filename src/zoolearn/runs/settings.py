"""Settings under their own names, as flags and presets give them, and nested, as a learner records them.

A record holds the recipe as an entry of its own, and a function that has settings as an entry with its name. No two
settings of a learner of ours, its recipe and its functions share a name, so that flat settings say the same.
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
    """The settings of a record under their own names; one whose name is taken, below the name that it belongs to.

    >>> flatten({"recipe": {"epochs": 1}, "grow": {"name": "warm-start", "held_out": 0.2}})
    {'epochs': 1, 'grow': 'warm-start', 'held_out': 0.2}
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
    """What `flatten` flattened; settings of a function that is not chosen are left out, or refused if they were changed."""
    nested: dict[str, Json] = {}
    recipe = {setting.name for setting in fields(Recipe)}
    functions = _functions(cls)
    known = {setting.name for setting in fields(cls) if setting.init}
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


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


@cache
def _functions(cls: type) -> dict[str, tuple[str, str, Json]]:
    """The settings that functions have of their own: of which setting, of which of its choices, and the default."""
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
    """The settings of the recipe that a method has by default."""
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
    """The flat settings of a learner that are not given, with the functions chosen as they are."""
    chosen = {own: default for own, (setting, name, default) in _functions(cls).items() if flat.get(setting) == name}
    return {**_defaults(cls), **chosen}
