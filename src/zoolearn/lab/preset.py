"""What a preset is: the settings behind a number, of a published row or in a file of one's own."""

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zoolearn.errors import SettingsError
from zoolearn.files import Json, save_text
from zoolearn.runs.decode import decode
from zoolearn.runs.spec import RunSpec

EVERY = "BENCHMARK"  # in place of a benchmark's name: the preset is for all of them


@dataclass(frozen=True)
class Preset:
    """One published row: a run with all settings that are not ours, the accuracy that was published and by whom.

    Those of no row but of an idea are for every benchmark.
    """

    name: str
    spec: RunSpec  # of a benchmark, or of EVERY
    target: str
    source: str
    remark: str = ""  # why our number is another, where we know

    def suits(self, method: str, benchmark: str) -> bool:
        return self.spec.method == method and self.spec.benchmark in (benchmark, EVERY)


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
    """Writes a preset as a JSON file that people may edit."""
    spec = preset.spec
    file = PresetFile(
        preset.name,
        spec.method,
        spec.benchmark,
        preset.target,
        preset.source,
        {**spec.settings},
        {**spec.options},
        preset.remark,
    )
    save_text(path, msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n")


def load_preset(path: Path, method: str) -> Preset:
    """The preset in a file; what it sets is checked where it is used, like any flag."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is no preset that can be read ({error}); `zoo tune` writes them") from error
    file = decode(content, PresetFile, str(path), "a preset")
    if file.method != method:
        raise SettingsError(f"{path} is a preset for {file.method}, not for {method}")
    spec = RunSpec(file.method, file.benchmark, file.settings, file.options)
    return Preset(file.name, spec, file.target, file.source, file.remark)
