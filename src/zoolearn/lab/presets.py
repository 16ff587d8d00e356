"""Presets by name: `zoo run er split-cifar100 --preset tag-2022` starts from the settings of a published row, or from
those of a file; flags beside it still have their say.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json, save_text
from zoolearn.lab.published import PRESETS, Preset
from zoolearn.runs.decode import decode
from zoolearn.runs.spec import DATA_SEEDS, RunSpec


class PresetFile(msgspec.Struct, forbid_unknown_fields=True):
    """A preset in a file of its own, for people to edit."""

    name: str
    method: str
    benchmark: str
    target: str = ""
    source: str = ""
    settings: dict[str, Json] = {}
    options: dict[str, Json] = {}
    remark: str = ""


def save_preset(preset: Preset, path: Path) -> None:
    """Writes a preset as a JSON file, to be edited by hand."""
    spec = preset.spec
    about = (preset.name, spec.method, spec.benchmark, preset.target, preset.source)
    file = PresetFile(*about, {**spec.settings}, {**spec.options}, preset.remark)
    save_text(path, msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n")


def load_preset(path: Path, method: str) -> Preset:
    """The preset in a file; its settings are checked where they are used, like flags."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is no preset that can be read ({error}); `zoo tune` writes them") from error
    file = decode(content, PresetFile, str(path), "a preset")
    if file.method != method:
        raise SettingsError(f"{path} is a preset for {file.method}, not for {method}")
    spec = RunSpec(file.method, file.benchmark, file.settings, file.options)
    return Preset(file.name, spec, file.target, file.source, file.remark)


def preset_settings(name: str, method: str) -> Mapping[str, Json]:
    """The settings of a preset for any benchmark; for owned zoos."""
    known = {preset.name: preset.spec.settings for preset in PRESETS if preset.spec.method == method}
    if name not in known:
        raise SettingsError(unknown_name("preset", name, known))
    return known[name]


def find_preset(name: str, method: str, benchmark: str) -> Preset:
    """The preset of this name for a method on a benchmark, or in this file; an error lists the known ones.

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
    """The name of the preset of a run, and up to two settings that it changes; empty if there is none.

    >>> preset_of(RunSpec("isolated", "split-cifar100", {"epochs": 1}))
    'zoo-2022'
    """
    near = ""
    for preset in PRESETS:
        wanted, own = _drop_seeds(preset.spec), _drop_seeds(spec)
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


def _drop_seeds(spec: RunSpec) -> dict[str, Json]:
    settings = {**spec.changes, **spec.options}
    return {name: str(value) for name, value in settings.items() if name not in DATA_SEEDS}
