"""Settings of a zoo to and from its folder: types, bounds and consistency are checked on both ways."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import prod

import msgspec

from zoolearn.errors import SettingsError, StoreError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.model_zoo import GROW
from zoolearn.training.recipe import Recipe
from zoolearn.words import is_printable
from zoolearn.zoo.settings import LARGEST_INPUT, OF_RECIPE, Name, ZooSettings

UNREADABLE = (msgspec.ValidationError, SettingsError, TypeError, ValueError)


def read_settings(record: Json, where: str) -> ZooSettings:
    """Settings from a JSON record; errors name `where` it is."""
    try:
        return _read(record)
    except UNREADABLE as error:
        raise StoreError(f"{where}: {error}; the file is damaged or was not written by zoolearn") from error


def write_settings(settings: ZooSettings) -> Json:
    """Settings as a JSON record; raises on what `read_settings` would not take, before a folder is lost to it."""
    record: Json = msgspec.to_builtins(settings)
    try:
        _read(record)
    except UNREADABLE as error:
        raise SettingsError(
            f"the settings of the zoo could not be read again: {error}; nothing was changed, give others"
        ) from error
    return record


def _read(record: Json) -> ZooSettings:
    _check_words(record, [setting.name for setting in fields(ZooSettings) if not setting.metadata.get("is_new")])
    settings = msgspec.convert(record, ZooSettings)
    _check_recipe(settings.recipe)
    _check_grow(settings.grow)
    _check_inputs(settings)
    return settings


def _check_words(record: Json, words: Iterable[str]) -> None:
    for word in words:
        if not isinstance(record, Mapping) or word not in record:
            raise ValueError(f"it lacks {word!r}")


def _check_recipe(record: Mapping[str, Json]) -> None:
    """Checks a recipe by constructing it."""
    _check_words(record, [setting.name for setting in OF_RECIPE])
    Recipe(**{**record, "epochs": 1 if record["epochs"] is None else record["epochs"]})


def _check_grow(record: Json) -> None:
    """Checks the name of a way to grow and its settings, if it is one of ours."""
    own = {"name": record} if isinstance(record, str) else msgspec.convert(record, dict[Name, str | bool | int | float])
    _check_words(own, ["name"])
    _check_printable([str(value) for pair in own.items() for value in pair])
    name = str(own.pop("name"))
    if name in GROW and is_dataclass(GROW[name]) and not isinstance(record, str):
        known = [setting.name for setting in fields(GROW[name])]
        for setting in own:
            if setting not in known:
                raise SettingsError(unknown_name("setting", setting, known))
        GROW[name](**own)


def _check_inputs(settings: ZooSettings) -> None:
    shape, columns = settings.shape, settings.columns
    _check_printable([settings.backbone or "", settings.weigh, *columns, *_names_in(settings.features or {})])
    if shape is not None and (
        len(shape) not in (1, 3) or prod(shape) > LARGEST_INPUT or (len(shape) == 3 and shape[0] not in (1, 3, 4))
    ):
        raise ValueError(f"shape is {shape}; inputs are (channels, height, width) or (features,)")
    if columns and (len({*columns}) < len(columns) or shape is None or len(shape) != 1 or len(columns) > shape[0]):
        raise ValueError(f"it names {len(columns)} columns, each must be another; inputs are of shape {shape}")


def _names_in(features: Mapping[str, Json]) -> list[str]:
    versions = features.get("versions", {})
    return [*(value for value in features.values() if isinstance(value, str)), *versions, *versions.values()]


def _check_printable(names: Iterable[str]) -> None:
    for name in names:
        if not is_printable(name):
            raise ValueError(f"a name is {name!r}, which is not safe to print")
