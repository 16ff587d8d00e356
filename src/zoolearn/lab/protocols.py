"""What published rows have in common: the protocol that GEM began, and how a row is written down."""

from collections.abc import Mapping
from types import MappingProxyType

from zoolearn.files import Json
from zoolearn.lab.preset import Preset
from zoolearn.runs.spec import RunSpec

ZOO_PAPER = "Model Zoo (Ramesh and Chaudhari, 2022)"
TEN: dict[str, Json] = {"tasks": 10}
LAST_17: dict[str, Json] = {"after_tasks": 3}  # of 20: settings were chosen on the first three
SINGLE_PASS: dict[str, Json] = {
    "epochs": 1,
    "batch_size": 10,
    "lr": 0.1,
    "schedule": "constant",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "dropout": 0.0,
    "augment": "no",
    "pixel_mean": 0.0,
    "pixel_std": 1.0,
}  # one pass, small batches, plain SGD, pixels in 0..1: the protocol that GEM began


def row(
    name: str,
    method: str,
    benchmark: str,
    target: str,
    source: str,
    *settings: Mapping[str, Json],
    tasks: Mapping[str, Json] = MappingProxyType({}),
    remark: str = "",
) -> Preset:
    """A preset with all of these settings, later ones over earlier ones, and options of the benchmark."""
    whole = {name: value for some in settings for name, value in some.items()}
    return Preset(name, RunSpec(method, benchmark, whole, tasks), target, source, remark)


BY_ADAM: dict[str, Json] = {**SINGLE_PASS, "momentum": 0.9}  # its first decay
