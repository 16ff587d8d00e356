"""Presets by name: `zoo run er split-cifar100 --preset tag-2022` starts from the settings of a published row, or from
those of a file; flags beside it still have their say.
"""

from collections.abc import Mapping
from pathlib import Path

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.lab.preset import Preset, load_preset
from zoolearn.lab.published import PRESETS
from zoolearn.runs.spec import DATA_SEEDS, RunSpec


def preset_settings(name: str, method: str) -> Mapping[str, Json]:
    """The settings of a preset, whatever its benchmark; for zoos of people's own data."""
    known = {preset.name: preset.spec.settings for preset in PRESETS if preset.spec.method == method}
    if name not in known:
        raise SettingsError(unknown_name("preset", name, known))
    return known[name]


def find_preset(name: str, method: str, benchmark: str) -> Preset:
    """The preset of this name for a method on a benchmark, or in this file; an error lists those that there are.

    >>> find_preset("tag-2022", "er", "split-cifar100").target
    '59.14 ± 1.77'
    """
    if name.endswith(".json"):
        return load_preset(Path(name), method)
    here = {preset.name: preset for preset in PRESETS if preset.suits(method, benchmark)}
    if name not in here:
        raise SettingsError(f"{method} on {benchmark}: {unknown_name('preset', name, here)}; see `zoo list --presets`")
    return here[name]


def preset_of(spec: RunSpec) -> str:
    """The name of the preset that a run was made with, and up to two settings that it changes; nothing if there is none.

    >>> preset_of(RunSpec("isolated", "split-cifar100", {"epochs": 1}))
    'zoo-2022'
    """
    near = ""
    for preset in PRESETS:
        wanted, own = _without_seeds(preset.spec), _without_seeds(spec)
        if "epochs" not in preset.spec.settings:
            own.pop("epochs", None)
        if not preset.suits(spec.method, spec.benchmark) or not wanted.items() <= own.items():
            continue
        more = {name: value for name, value in own.items() if name not in wanted}
        if not more:
            return preset.name
        if len(more) <= 2 < len(wanted):  # else it is hardly the preset
            near = near or ", ".join([preset.name, *(f"{name}={value}" for name, value in more.items())])
    return near


def _without_seeds(spec: RunSpec) -> dict[str, Json]:
    settings = {**spec.changes, **spec.options}
    return {name: str(value) for name, value in settings.items() if name not in DATA_SEEDS}
