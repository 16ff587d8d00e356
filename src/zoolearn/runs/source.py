"""What a run was made with beside its settings: data, and code that is not ours, by their digests.

Names do not tell two functions called `net` apart, nor a method from what it was before it was changed. Two runs are the
same, and are averaged over seeds, only if all of this is the same too.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from zoolearn.data.stream import Benchmark
from zoolearn.methods.learner import Learner
from zoolearn.runs.code import digest

OURS = "zoolearn."


def source_of(learner: Learner) -> dict[str, str]:
    """A digest of the source of the learner's class, its bases and the functions it was given, of all that are not ours."""
    return {name: digest(thing) for name, thing in _foreign(learner)}


def _foreign(learner: Learner) -> Iterator[tuple[str, Any]]:
    for kind in type(learner).__mro__:
        if not kind.__module__.startswith(OURS) and kind.__module__ not in ("builtins", "abc", "typing"):
            yield kind.__name__, kind
    for settings in (learner, learner.recipe):
        for setting in fields(settings):
            value = getattr(settings, setting.name)
            if setting.init and "choices" in setting.metadata:
                thing = type(value) if is_dataclass(value) else value
                if not str(getattr(thing, "__module__", "")).startswith(OURS):
                    yield f"{setting.name} {getattr(thing, '__name__', type(thing).__name__)}", thing


def parameters_of(learner: Learner, benchmark: Benchmark) -> int | None:
    """How many parameters a new net has, where its backbone is not ours: one function may make nets of several widths."""
    if str(getattr(learner.backbone, "__module__", "")).startswith(OURS):
        return None
    return learner.new_net(benchmark.tasks[:1], 0).num_parameters
