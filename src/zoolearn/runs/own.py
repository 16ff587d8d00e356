"""The caller's own code by place: `mymethods.py:Lwf` of a file, `package.module:Name` of an importable module.

It is loaded only if the caller names it, on the command line or in Python. Code named in a run's files is never loaded:
they hold names and digests of the source, no places. A worker process finds the code by folder and module.
"""

import json
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from inspect import Parameter, isabstract, signature
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin, get_type_hints

from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError, ZooError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.learner import Learner
from zoolearn.runs.code import UNREADABLE, digest, last_own_place
from zoolearn.runs.source import OURS


def is_place(word: str) -> bool:
    """Whether a word is a place of code rather than a built-in name.

    >>> is_place("mymethods.py:Lwf"), is_place("package.module:Name"), is_place("model-zoo")
    (True, True, False)
    """
    return ":" in word or word.endswith(".py")


def split_names(words: str) -> list[str]:
    """Names and places separated by commas; raises if there is none behind a comma.

    >>> split_names("er, mine.py:Lwf")
    ['er', 'mine.py:Lwf']
    """
    found = split_at_commas(words)
    if "" in found[1:]:
        raise SettingsError(
            f"{words!r} has a comma with nothing behind it; separate names by a comma without a space, as in er,ewc"
        )
    return found


def split_at_commas(words: str) -> list[str]:
    """The parts of any words; a comma in the path of an existing file does not separate.

    >>> split_at_commas("runs/a,")
    ['runs/a', '']
    """
    parts, found = words.split(","), []
    while parts:
        whole = (count for count in range(len(parts), 1, -1) if _is_file(",".join(parts[:count])))
        count = next(whole, 1)
        found.append(",".join(parts[:count]).strip())
        del parts[:count]
    return found


def _is_file(place: str) -> bool:
    file, _, name = place.strip().rpartition(":")
    return file.endswith(".py") and name.isidentifier() and Path(file).expanduser().is_file()


@dataclass(frozen=True)
class Own:
    """A class or function of the caller: the word that names it, and how any process finds it."""

    word: str
    folder: Path  # that its module is imported from
    module: str
    name: str

    @classmethod
    def at(cls, word: str) -> "Own":
        """From a word, relative to the current folder."""
        where, _, name = word.rpartition(":")
        if not where or not name.isidentifier():
            raise SettingsError(f"{word!r} names no code; write FILE.py:NAME or package.module:NAME")
        if where.endswith(".py"):
            file = Path(where).expanduser().absolute()
            return cls(word, file.parent, file.stem, name)
        return cls(word, Path.cwd(), where, name)

    @property
    def title(self) -> str:
        return f"{self.module}.{self.name}"

    def load(self) -> Any:
        """The object itself; raises if it is missing, has another name, or its source cannot be read."""
        module = self._module()
        if not hasattr(module, self.name):
            known = [name for name in vars(module) if not name.startswith("_")]
            raise SettingsError(unknown_name(f"name in {self.word.rpartition(':')[0]}", self.name, known))
        thing = getattr(module, self.name)
        if str(getattr(thing, "__module__", "")).startswith(OURS):
            raise SettingsError(f"{self.word} is part of zoolearn; give it by its name in `zoo list`")
        if getattr(thing, "__name__", None) != self.name:
            raise SettingsError(
                f"{self.word} has no name of its own, or another one, and runs go by it; write it with `def {self.name}` "
                f"or `class {self.name}`"
            )
        if digest(thing) == UNREADABLE:
            raise SettingsError(
                f"the source of {self.word} cannot be read, so that a change of it would go unnoticed; write it in a file"
            )
        return thing

    def method(self) -> type[Learner]:
        thing = self.load()
        if not (isinstance(thing, type) and issubclass(thing, Learner)):
            raise SettingsError(f"{self.word} is no learner; derive a class from zoolearn.Learner or SingleNet")
        if isabstract(thing):
            lacking = ", ".join(sorted(thing.__abstractmethods__))
            raise SettingsError(f"{self.word} is no whole learner: it lacks {lacking}")
        return thing

    def function(self) -> Callable[..., Any]:
        thing: Callable[..., Any] = self.load()
        if not callable(thing):
            raise SettingsError(f"{self.word} is no function; write it with `def {self.name}`")
        return thing

    def benchmark(self, data: Path | None = None, making: Mapping[str, Json] | None = None) -> Benchmark:
        """The benchmark that the function makes; it is passed the data root and options if it takes them."""
        return _benchmark(self, data, json.dumps(making or {}, sort_keys=True))

    @property
    def takes(self) -> dict[str, Parameter]:
        """The function's named parameters, with their annotations resolved if possible."""
        make = self.function()
        try:
            hints = get_type_hints(make)
        except (NameError, AttributeError, TypeError):
            hints = {}
        return {
            name: parameter.replace(annotation=hints.get(name, Parameter.empty))
            for name, parameter in signature(make).parameters.items()
            if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        }

    @property
    def benchmark_source(self) -> dict[str, str]:
        """A digest of the function, as its benchmark records it."""
        return {f"benchmark {self.name}": digest(self.load())}

    def _module(self) -> ModuleType:
        file = self.folder / f"{self.module}.py" if self.word.rpartition(":")[0].endswith(".py") else None
        if file is not None and not file.is_file():
            raise SettingsError(
                f"{self.word}: {platform.node()} sees no file {file}; give one that is there, on a cluster one that all "
                "machines see"
            )
        if str(self.folder) not in sys.path:  # first, as the folder of a script; workers start with this path
            sys.path.insert(0, str(self.folder))
        try:
            with _no_bytecode():
                module = import_module(self.module)
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            raise SettingsError(
                f"{self.word} cannot be loaded ({kind}: {error}); import it in Python to see why"
            ) from error
        if file is not None and Path(module.__file__ or "").resolve() != file.resolve():
            place = module.__file__ or "Python itself"
            raise SettingsError(
                f"{self.word}: a module named {self.module!r} is there already, {place}; rename the file"
            )
        return module


@lru_cache(maxsize=2)
def _benchmark(own: Own, data: Path | None, making: str) -> Benchmark:
    make, given = own.function(), json.loads(making)
    takes = own.takes
    for option in given:
        if option not in takes:
            raise SettingsError(f"{own.word} takes no {option}; add it to the function, or leave the flag out")
    for name, parameter in takes.items():
        if parameter.default is Parameter.empty and name not in given and name != "data":
            raise SettingsError(
                f"{own.word} needs {name}; give --{name.replace('_', '-')}, for which the function must tell its type "
                f"({name}: int), or write a default"
            )
    values = {name: tuple(value) if _is_tuple(takes[name]) else value for name, value in given.items()}
    try:
        made = make(**({"data": data} if "data" in takes else {}), **values)
    except ZooError:
        raise
    except Exception as error:
        place = last_own_place(traceback.format_exc())
        raise SettingsError(f"{own.word} made no benchmark: {type(error).__name__}: {error}{place}") from error
    if not isinstance(made, Benchmark):
        raise SettingsError(
            f"{own.word} gives a {type(made).__name__}, no Benchmark; return zoolearn.Benchmark(name, tasks)"
        )
    return replace(made, options={**made.options, **given}, source=own.benchmark_source)


def _is_tuple(parameter: Parameter) -> bool:
    """Whether a parameter is a tuple, which records hold as a list."""
    return isinstance(parameter.default, tuple) or get_origin(parameter.annotation) is tuple


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Writes no bytecode beside the caller's files, and so never loads an outdated one."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
