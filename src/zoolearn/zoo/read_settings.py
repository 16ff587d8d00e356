"""A zoo's settings as its folder records them, read without trust: of the right kind, within bounds, and possible."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from math import prod
from typing import Literal, get_args, get_origin, get_type_hints

from zoolearn.data.task import STEP
from zoolearn.errors import SettingsError, StoreError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.model_zoo import GROW
from zoolearn.nets.backbones import Shape
from zoolearn.settings import Pixels
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.reader import Reader

LARGEST_SIDE = 4096
UNIT = round(1 / STEP)
LARGEST_INPUT = 1 << 26  # values; a limit for files of strangers, not of nature
OF_RECIPE = [setting for setting in fields(Recipe) if "choices" not in setting.metadata]


def or_none(read: Callable[[Reader], Json]) -> Callable[[Reader], Json]:
    """Reads null as None, and anything else by `read`."""
    return lambda record: None if record.is_null else read(record)


def read_shape(record: Reader) -> Shape:
    """The shape of an input: an image of a possible size, or features."""
    shape = tuple(extent.whole(1, LARGEST_INPUT) for extent in record.items(3))
    if len(shape) not in (1, 3) or prod(shape) > LARGEST_INPUT or (len(shape) == 3 and shape[0] not in (1, 3, 4)):
        raise StoreError(f"{record.place} is {shape}; inputs are (channels, height, width) or (features,)")
    return shape


def read_columns(record: Reader) -> tuple[str, ...]:
    """The names of a table's columns, each once."""
    columns = tuple(entry.name() for entry in record.items(LARGEST_INPUT))
    if len(set(columns)) != len(columns):
        raise StoreError(f"{record.place} names a column twice; the file was altered, restore it from a copy")
    return columns


def read_recipe(record: Reader) -> dict[str, Json]:
    """A recipe whose every value has its field's type, or is one of its field's choices."""
    hints = get_type_hints(Recipe)
    read: dict[str, Json] = {}
    for setting in OF_RECIPE:
        entry, hint = record[setting.name], hints[setting.name]
        if setting.name == "epochs" and entry.is_null:
            read[setting.name] = None
        else:
            read[setting.name] = _value(entry, hint)
    try:
        Recipe(**{**read, "epochs": read["epochs"] or 1})
    except SettingsError as error:
        raise StoreError(f"{record.place}: {error}") from error
    return read


def read_grow(record: Reader) -> Json:
    """The name of a way to grow, or one with settings; those of ours are checked, others when a learner is made."""
    if not isinstance(record.value, Mapping):
        return record.name()
    name = record["name"].name()
    own = {setting: entry for setting, entry in record.entries() if setting != "name"}
    if name not in GROW or not is_dataclass(GROW[name]):
        return {"name": name, **{setting: _scalar(entry) for setting, entry in own.items()}}
    hints = get_type_hints(GROW[name])
    for setting in own:
        if setting not in hints:
            raise StoreError(f"{record.place}: {unknown_name('setting', setting, hints)}")
    read = {setting: _value(entry, hints[setting]) for setting, entry in own.items()}
    try:
        GROW[name](**read)
    except SettingsError as error:
        raise StoreError(f"{record.place}: {error}") from error
    return {"name": name, **read}


def read_features(record: Reader) -> dict[str, Json]:
    """What is recorded of an extractor; its probe is compared when it is opened."""
    count = record["num_features"].whole(1, LARGEST_INPUT)
    return {
        "name": record["name"].name(),
        "file": record["file"].flag(),
        "sha256": record["sha256"].digest(),
        "size": None if record["size"].value is None else record["size"].whole(4, LARGEST_SIDE),
        "num_features": count,
        "inputs": record["inputs"].name(),
        "views": record["views"].whole(1, 2),
        "step": record["step"].number(0, 1),
        "versions": {name: entry.name() for name, entry in record["versions"].entries(10)},
        "probe": [step.whole(-UNIT, UNIT) for step in record["probe"].items(count)],
    }


def _scalar(entry: Reader) -> Json:
    if isinstance(entry.value, bool):
        return entry.flag()
    return entry.text() if isinstance(entry.value, str) else entry.number()


def _value(entry: Reader, kind: type) -> Json:
    if get_origin(kind) is Literal:
        if entry.value not in get_args(kind):
            raise StoreError(f"{entry.place}: {unknown_name('choice', str(entry.value), get_args(kind))}")
        return entry.value
    if kind is bool:
        return entry.flag()
    if kind == Pixels and isinstance(entry.value, list):
        return tuple(each.number() for each in entry.items(4))
    return entry.whole(0, 1 << 31) if kind is int else entry.number()
