"""What a run depends on beside its settings: digests of the caller's code, and the size of the nets it makes.

Names do not distinguish two functions called `net`, nor a method from an earlier version. Runs are equal, and averaged
over seeds, only if all of this is equal too.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from zoolearn.data.stream import Benchmark
from zoolearn.methods.learner import Learner
from zoolearn.runs.code import digest

OURS = "zoolearn."


def digest_code(learner: Learner) -> dict[str, str]:
    """Digests of the learner's class, its bases and its functions, as far as they are the caller's."""
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


def count_parameters(learner: Learner, benchmark: Benchmark) -> int | None:
    """The number of parameters of a new net, if the backbone is the caller's: one function may make several widths."""
    if str(getattr(learner.backbone, "__module__", "")).startswith(OURS):
        return None
    return learner.new_net(benchmark.tasks[:1], 0).num_parameters
