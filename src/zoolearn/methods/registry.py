"""The methods by name, and the settings of learners as plain data: encoded and decoded."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.learner import Learner
from zoolearn.names import Named, registered_name
from zoolearn.settings import check_settings
from zoolearn.training.recipe import Recipe

Method = TypeVar("Method", bound=Learner)

METHODS: Mapping[str, type[Learner]] = Named(
    {
        "model-zoo": "methods.model_zoo.ModelZoo",
        "isolated": "methods.isolated.Isolated",
        "multi-head": "methods.multi_head.MultiHead",
        "fine-tune": "methods.bases.single_net.FineTune",
        "stable-sgd": "methods.stable_sgd.StableSgd",
        "lwf": "methods.lwf.Lwf",
        "er": "methods.er.Er",
        "derpp": "methods.der.DerPlusPlus",
        "ewc": "methods.ewc.Ewc",
        "si": "methods.si.Si",
        "ogd": "methods.ogd.Ogd",
        "gem": "methods.gem.Gem",
        "a-gem": "methods.a_gem.AGem",
        "mega-ii": "methods.mega_ii.MegaII",
        "tag": "methods.tag.Tag",
        "mc-sgd": "methods.mc_sgd.McSgd",
        "hat": "methods.hat.Hat",
        "progressive": "methods.progressive.Progressive",
        "rmn": "methods.rmn.Rmn",
        "apd": "methods.apd.Apd",
        "fedweit": "methods.fedweit.FedWeit",
        "vcl": "methods.vcl.Vcl",
        "frcl": "methods.frcl.Frcl",
        "fromp": "methods.fromp.Fromp",
    }
)


def default_recipe(method: type[Learner]) -> Recipe:
    """The default recipe of a method; `replace(default_recipe(Tag), epochs=5)` changes a part of it.

    >>> from zoolearn.methods.tag import Tag
    >>> default_recipe(Learner).lr, default_recipe(Tag).lr
    (0.01, 0.0005)
    """
    (make,) = (setting.default_factory for setting in fields(method) if setting.name == "recipe")
    assert callable(make)
    made: Recipe = make()
    return made


def settings_of(settings: Any) -> dict[str, Json]:
    """The settings of a learner, or of a recipe or function within it, as plain data; functions by their names.

    Fields with `omit_default` are left out at their default, so that older records still compare.
    """
    plain = {}
    for setting in fields(settings):
        if setting.init:
            value = getattr(settings, setting.name)
            if setting.metadata.get("omit_default") and value == setting.default:
                continue
            if "choices" in setting.metadata:
                value = plain_choice(value, setting.metadata["choices"])
            elif is_dataclass(value):
                value = settings_of(value)
            plain[setting.name] = value
    return plain


def plain_choice(value: Any, table: Mapping[str, Any]) -> Json:
    """A function by its name; one that has settings of its own, with them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": registered_name(type(value), table), **settings_of(value)}
    return registered_name(value, table)


def learner_from(
    cls: type[Method], settings: Mapping[str, Json], names: Mapping[str, Callable[..., Any]] | None = None
) -> Method:
    """The learner of a class that `settings_of` describes; `names` adds the caller's own functions to our tables."""
    own = {name: value for name, value in settings.items() if name != "benchmark"}  # which a run records beside them
    return cls(**_read_settings(cls, own, names or {}))


def _read_settings(cls: type, settings: Mapping[str, Json], names: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Values in place of plain data; unknown settings are left for the class to reject."""
    choices = {each.name: each.metadata["choices"] for each in fields(cls) if "choices" in each.metadata}
    read = dict(settings)
    for name, value in settings.items():
        if name == "recipe":
            read[name] = Recipe(**_read_settings(Recipe, value, names))
        elif name in choices:
            read[name] = _read_choice(name, value, choices[name], names)
    return read


def _read_choice(setting: str, value: Json, table: Mapping[str, Any], names: Mapping[str, Callable[..., Any]]) -> Any:
    """The inverse of `plain_choice`."""
    own = {**value} if isinstance(value, Mapping) else {"name": value}
    name = str(own.pop("name", None))
    if name not in names and name not in table:
        raise SettingsError(
            unknown_name(setting, name, [*table, *names]) + f"; pass your own as names={{{name!r}: ...}}"
        )
    found = names[name] if name in names else table[name]
    if not (is_dataclass(found) and isinstance(found, type)):
        return found
    check_settings(found, own)
    return found(**own)
