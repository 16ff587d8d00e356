"""zoolearn: continual learning with a growing zoo of small networks.

The public names are listed in `public.py`. They are imported when the first of them is asked for, so that `zoo --help`
and a worker process do not wait for torch before they need it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoolearn.public import *  # noqa: F403
    from zoolearn.zoo import open as open

__version__ = "0.1.0"

_BY_NAME = {  # given when asked for by name, and left out of `from zoolearn import *`
    "ModelZooClassifier": "zoo.estimator",  # it brings scikit-learn with it
    "open": "zoo",  # it would hide Python's own
}


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":  # asked by Python itself
        raise AttributeError(f"module 'zoolearn' has no attribute {name!r}")
    if find_spec(f"zoolearn.{name}"):
        return import_module(f"zoolearn.{name}")
    if name in _BY_NAME:
        return getattr(import_module(f"zoolearn.{_BY_NAME[name]}"), name)
    public = import_module("zoolearn.public")
    globals().update({"__all__": public.__all__} | {known: getattr(public, known) for known in public.__all__})
    if name not in globals():
        raise AttributeError(f"module 'zoolearn' has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_BY_NAME, *import_module("zoolearn.public").__all__})
