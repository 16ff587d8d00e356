"""Digests of the caller's code: of a class or function, and of what it uses of the code beside it.

A method is changed by a helper or a constant of its file as well as by its own lines. So the names that it mentions are
followed through the top-level statements of its module and of others, though not into installed libraries. Only source
text is read: values may differ between processes while the code is the same.
"""

import ast
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.util import resolve_name
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any, NamedTuple

UNREADABLE = "unreadable"  # in place of a digest: typed into an interpreter, or made by a program
EVERYTHING = "*"


class Statement(NamedTuple):
    """What binds a name: the text of a statement, or the module, and maybe the name in it, that it imports."""

    text: str = ""
    module: str = ""
    name: str = ""


def is_library(file: str) -> bool:
    """Whether a file of a traceback is ours, Python's or an installed library's, or no file at all."""
    folders = (
        Path(__file__).parents[1],
        *(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")),
    )
    return file.startswith("<") or any(Path(file).is_relative_to(folder) for folder in folders)


def last_own_place(trace: str) -> str:
    """The last place of a traceback that is in no library, else the last: where its reader will look first."""
    places: list[tuple[str, str]] = re.findall(r'File "(.+)", (line \d+)', trace)
    places = [(file, line) for file, line in places if not is_library(file)] or places
    return " ({}, {})".format(*places[-1]) if places else ""


def digest(thing: Any) -> str:
    """A digest of the source of a class or function, and of all that it uses of code beside it."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return UNREADABLE
    used = _Used()
    used.follow(source, sys.modules.get(thing.__module__))
    used.texts.pop((thing.__module__, thing.__name__), None)
    texts = [used.texts[place] for place in sorted(used.texts)]
    return sha256("\n".join([source, *texts]).encode()).hexdigest()[:16]


class _Used:
    """The statements that some code uses, by their modules and names."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.asked: set[tuple[str, str, frozenset[str]]] = set()

    def follow(self, source: str, module: ModuleType | None) -> None:
        """Adds what code of a module mentions, and what that mentions in turn."""
        tree = _parse(dedent(source))
        if tree is not None and module is not None and not is_library(module.__file__ or "<"):
            here = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            names = frozenset({*here, *(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))})
            for statement in (statement for _, statement in _imports(ast.walk(tree))):
                self._follow_import(statement, module, names)
            for name in (*here, EVERYTHING):  # an attribute may be of another module, but is no name of this one
                self._look_up(name, module, names)

    def _look_up(self, name: str, module: ModuleType, names: frozenset[str]) -> None:
        if (module.__name__, name, names) in self.asked:
            return
        self.asked.add((module.__name__, name, names))
        statements = _statements(_text(module)).get(name, ())
        texts = [statement.text for statement in statements if statement.text]
        if texts and (module.__name__, name) not in self.texts:
            self.texts[module.__name__, name] = "\n".join(texts)
            for text in texts:
                self.follow(text, module)
        for statement in statements:
            if statement.module:
                self._follow_import(statement, module, names)

    def _follow_import(self, statement: Statement, module: ModuleType, names: frozenset[str]) -> None:
        try:
            whence = resolve_name(statement.module, module.__package__ or None)
        except ImportError:  # of the two ways to import it, the one for packages
            return
        below = sys.modules.get(f"{whence}.{statement.name}") if statement.name else None
        other = below or sys.modules.get(whence)
        if other is not None and not is_library(getattr(other, "__file__", None) or "<"):
            for name in [statement.name] if statement.name and below is None else names:
                self._look_up(name, other, names)


def _text(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:  # a piece of a line, such as a lambda's
        return None


@lru_cache(maxsize=64)
def _statements(source: str) -> dict[str, list[Statement]]:
    """By the names that they bind, the top-level statements of a module."""
    found: dict[str, list[Statement]] = {}
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            names = [node.name]
        else:
            first = node.lineno
            names = [
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            ]
        for name in names:
            found.setdefault(name, []).append(Statement("\n".join(lines[first - 1 : node.end_lineno])))
        for name, statement in _imports(ast.walk(node) if isinstance(node, ast.If | ast.Try) else [node]):
            found.setdefault(name, []).append(statement)
    return found


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, Statement]]:
    """What is imported, by the names that it has here."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], Statement(module=alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, Statement(module=module, name=alias.name.replace(EVERYTHING, ""))
