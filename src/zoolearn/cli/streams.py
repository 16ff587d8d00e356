"""The options of a benchmark: ways to cut and order it, and the parameters of the caller's own function."""

import re
import types
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import reduce
from inspect import Parameter
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin, get_type_hints

from zoolearn.cli.flags import DataRoot, about, flag, flag_of, optional
from zoolearn.cli.folders import is_zoo
from zoolearn.data.benchmarks import BENCHMARKS, CUTS
from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.runs.own import Own, is_place, split_at_commas

PLACE = re.compile(r"\w:[A-Za-z_]\w*$")
PLAIN = (bool, int, float, str)  # what a flag and a record can say


@dataclass
class BenchmarkOptions:
    """The benchmark."""

    data: DataRoot = None
    features: Path | None = flag(
        "learn on features of this pre-trained extractor, an ONNX file (docs/features.md)", "FILE", "pixels"
    )
    samples_per_class: int | None = flag("train on N random examples of each class", "N", "all")
    samples_seed: int = flag("seed that picks those examples", default=0)
    task_order: str | None = flag(
        "shuffle the tasks, or take them as a file names them, one a line", "SEED|FILE", "as listed"
    )
    class_order: str | None = flag(
        "the same for the classes that tasks are made of, in splits", "SEED|FILE", "as listed"
    )
    classes_per_task: int | None = flag("how many classes a task of a split has", "N", "2 or 5")
    permutation_seed: int | None = flag("seed of the orders of pixels: permuted-mnist", "SEED", "0")
    tasks: int | None = flag("length of a stream that can have any: permuted-mnist", "N", "5")
    angles: tuple[float, ...] = flag(
        "of the tasks of rotated streams, one each", "DEGREES...", "0 10 20 30 40", default=()
    )
    digits_per_class: int | None = flag("training images of each class in a task of rotated-digits", "N", "10")
    first_tasks: int | None = flag("only the first N tasks", "N", "all")
    after_tasks: int | None = flag("leave out the first N tasks: those that settings were chosen on", "N", "none")

    only: tuple[int, ...] = flag("only the tasks at these places, from 0, in this order", "PLACE...", "all", default=())
    arrivals: tuple[int, ...] = flag(
        "let tasks come in parts of this many classes each, as 3 1 1 (docs/growing.md)",
        "CLASSES...",
        "whole",
        default=(),
    )
    arrivals_seed: int = flag("seed that deals classes and parts out", default=0)


OPTIONS = tuple(option.name for option in fields(BenchmarkOptions) if option.name not in ("data", "features"))


def find_places(arguments: Sequence[str]) -> list[str]:
    """The words and parts of words that are places of code."""
    ends = [word.split("=", count)[-1] for word in arguments for count in range(word.count("=") + 1)]
    parts = [part for end in ends for part in split_at_commas(end)]
    return list(dict.fromkeys(part for part in parts if PLACE.search(part)))


def find_own_benchmark(arguments: Sequence[str], functions: Iterable[str]) -> Own | None:
    """The caller's benchmark among the arguments: a place that is no value of a flag.

    `functions` are settings that take places.
    """
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    if "--tune-on" in words[:-1]:
        words = [words[words.index("--tune-on") + 1]]
    others = {"--vary", "--space", *(flag_of(name) for name in functions)}
    places = (word for before, word in zip(["", *words], words, strict=False) if before not in others)
    return next((Own.at(word) for word in places if PLACE.search(word)), None)


def benchmark_options(
    benchmark: Own | None, taken: Collection[str], arguments: Sequence[str]
) -> type[BenchmarkOptions]:
    """The options, and a flag for each parameter of the caller's function that a flag can give.

    A parameter named like another flag, as `seed`, keeps its default; giving that flag, which is ambiguous, is an
    error.
    """
    if benchmark is None:
        return BenchmarkOptions
    shown: list[tuple[str, Any, Any]] = []
    given = {word.partition("=")[0] for word in arguments}
    for name, parameter in benchmark.takes.items():
        if name in taken or name in CUTS:
            if flag_of(name) in given:
                raise SettingsError(
                    f"{flag_of(name)} does not reach {benchmark.word}, which has a parameter of this name; rename that"
                )
        elif name in OPTIONS and parameter.default is not None:
            shown.append((name, *_own_option(name, parameter, f"a parameter of {benchmark.word}")))
        elif name not in (*OPTIONS, "data", "features") and (hint := _plain_hint(parameter)) is not None:
            shown.append((name, *_flag(parameter, hint, f"a parameter of {benchmark.word}")))
    about_all = {"__doc__": BenchmarkOptions.__doc__}
    return make_dataclass("BenchmarkOptions", shown, bases=(BenchmarkOptions,), namespace=about_all)


def _own_option(name: str, parameter: Parameter, meaning: str) -> tuple[Any, Any]:
    """The type and the default of an option of ours that the caller's function takes, with its own default in the help."""
    ours = next(option for option in fields(BenchmarkOptions) if option.name == name)
    usual = "none, it must be given" if parameter.default is Parameter.empty else str(parameter.default)
    shown = optional(ours.metadata["flag"].metavar, meaning, usual)
    return Annotated[get_type_hints(BenchmarkOptions)[name], shown], field(default=ours.default)


def _flag(parameter: Parameter, hint: Any, meaning: str) -> tuple[Any, Any]:
    """The type and the default of a parameter's flag."""
    if parameter.default is Parameter.empty:
        shown = optional("VALUE", meaning, "none, it must be given")
        return Annotated[Optional[hint], shown], field(default=None)  # noqa: UP045 (of a value)
    return Annotated[hint, about(meaning)], field(default=parameter.default)


def _plain_hint(parameter: Parameter) -> Any:
    """The type of a parameter, annotated or of its default; None if no flag can give its values.

    A flag cannot set None if that is not the default: records leave None out.
    """
    hint = parameter.annotation
    if hint is Parameter.empty:
        hint = _type_of(parameter.default)
    if get_origin(hint) in (Union, types.UnionType) and parameter.default is not None:
        hint = reduce(or_, (part for part in get_args(hint) if part is not type(None)))
    return hint if _is_plain(hint) else None


def _type_of(default: Any) -> Any:
    kinds = {*map(type, default)} if isinstance(default, tuple) else set()
    return types.GenericAlias(tuple, (*kinds, ...)) if len(kinds) == 1 else type(default)


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return all(isinstance(value, PLAIN) for value in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return all(part is type(None) or _is_plain(part) for part in get_args(hint))
    if get_origin(hint) in (tuple, list):
        return all(part is ... or part in PLAIN for part in get_args(hint))
    return hint in PLAIN


def read_options(form: BenchmarkOptions, benchmark: Own | None) -> dict[str, Json]:
    """The options of a form, with orders read, and the parameters of the caller's function."""
    options = {option: read_order(option, getattr(form, option)) for option in OPTIONS}
    if benchmark is not None:
        ours = {each.name for each in fields(BenchmarkOptions)}
        own = {each.name for each in fields(form)} - ours
        options |= {name: getattr(form, name) for name in benchmark.takes if name in own}
    return options


def find_benchmark(word: str) -> Own | None:
    """What makes a benchmark that is not built in: the caller's function, or the folder of a zoo."""
    if word in BENCHMARKS:
        return None
    if is_place(word):
        return Own.at(word)
    if not is_zoo(Path(word)):
        return None
    from zoolearn.zoo.as_benchmark import StoredTasks

    return StoredTasks.at(word)


def read_order(option: str, value: Any) -> Any:
    """An order given by a flag: a seed, names separated by commas, or a file with one name a line."""
    if option not in ("task_order", "class_order") or not isinstance(value, str):
        return value
    if value.isdecimal():
        return int(value)
    if "," in value and not Path(value).exists():
        return [name.strip() for name in value.split(",")]
    try:
        lines = Path(value).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        flag = f"--{option.replace('_', '-')} {value}"
        raise SettingsError(
            f"{flag} is neither a seed nor a file that can be read ({error}); give a whole number, or a file with a name a line"
        ) from error
    return [line.strip() for line in lines if line.strip()]
