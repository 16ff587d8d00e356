"""Command-line flags from settings: every field of a learner and of its recipe is a flag, with its help."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from zoolearn.cli.commands import wrap
from zoolearn.errors import SettingsError
from zoolearn.names import registered_name

NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}
REPEATABLE = ("--vary", "--space")  # each adds to those before it


def parse(form: type, arguments: Sequence[str], prog: str, description: str, default: Any = None) -> Any:
    """Parses arguments into a dataclass; nested dataclasses are groups of flags without prefixes.

    `default` is an instance with the values of flags that are not given.
    """
    _check_repeats(arguments)
    _annotate_flags(form)
    with PLAIN:
        return tyro.cli(
            form,
            args=list(arguments),
            prog=prog,
            description=wrap(description, hanging=1),  # tyro joins lines that begin with a letter
            config=(tyro.conf.OmitArgPrefixes,),
            **({} if default is None else {"default": default}),
        )


PLAIN = ConstructorRegistry()  # of numbers whose errors are for people


@PLAIN.primitive_rule
def _number(kind: PrimitiveTypeInfo) -> "PrimitiveConstructorSpec[Any] | None":
    """A tyro rule for numbers that may be None, with readable errors."""
    members = [kind.type] if kind.type in NUMBERS else [part for part in get_args(kind.type) if part is not type(None)]
    if len(members) != 1 or members[0] not in NUMBERS or (kind.type not in NUMBERS and len(get_args(kind.type)) != 2):
        return None
    number, is_optional = members[0], kind.type not in NUMBERS

    def read(words: list[str]) -> Any:
        if is_optional and words == ["None"]:
            return None
        try:
            return number(words[0])
        except ValueError:
            raise ValueError(f"{words[0]!r} is not {NUMBERS[number]}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=number.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: (is_optional and value is None) or _is_number(value, number),
        str_from_instance=lambda value: [str(value)],
    )


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)


def command_line(*words: str) -> str:
    """The command line to record, without the data root of this machine.

    >>> command_line("run", "er", "split-mnist", "--data", "/mnt/large", "--lr=0.1")
    'zoo run er split-mnist --lr=0.1'
    """
    line = ["zoo"]
    for word in words:
        if line[-1] == "--data":
            line.pop()
        elif not word.startswith("--data="):
            line.append(word)
    return shlex.join(line)


def _check_repeats(arguments: Sequence[str]) -> None:
    """Raises on a repeated flag, of which only the last would count."""
    flags = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    for flag in flags:
        if flags.count(flag) > 1 and flag not in REPEATABLE:
            raise SettingsError(
                f"{flag} was given {flags.count(flag)} times; give it once, with all its values after it"
            )


def about(meaning: str, metavar: str | None = None) -> Any:
    """The help and metavar of a flag."""
    return tyro.conf.arg(help=meaning, metavar=metavar)


def optional(metavar: str, meaning: str, default: str) -> Any:
    """The help of an optional flag: metavar, meaning, and what happens without it."""
    return tyro.conf.arg(metavar=metavar, help=meaning, help_behavior_hint=f"(default: {default})")


def flag(meaning: str, metavar: str | None = None, usual: str | None = None, *, default: Any = None) -> Any:
    """A dataclass field that is a flag: meaning, metavar, what happens without it, and default."""
    shown = about(meaning, metavar) if metavar is None or usual is None else optional(metavar, meaning, usual)
    return field(default=default, metadata={"flag": shown})


def _annotate_flags(form: type) -> None:
    """Moves the flags of fields into annotations, where tyro looks for them."""
    hints = get_type_hints(form, include_extras=True)
    for each in fields(form):
        if "flag" in each.metadata and each.name in form.__annotations__:
            form.__annotations__[each.name] = Annotated[hints[each.name], each.metadata["flag"]]
    for part in (*form.__bases__, *hints.values()):
        if is_dataclass(part) and isinstance(part, type):
            _annotate_flags(part)


# What several commands take.
ZooPath = Annotated[Path, tyro.conf.Positional, about("the zoo", "FOLDER")]
TaskName = Annotated[str, tyro.conf.Positional, about("the task", "NAME")]
Inputs = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="INPUT...", help="images, folders, arrays, tables", help_behavior_hint="(required)"),
]
DataRoot = Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")]
LabelColumn = Annotated[
    str | None, optional("COLUMN", "column of a table that holds the label", "label, class, target")
]
LabelsFile = Annotated[Path | None, optional("FILE", ".npy file of labels for an .npy of inputs", "named alike")]
IgnoredColumns = Annotated[tuple[str, ...], optional("COLUMN...", "columns of a table to leave out", "none")]
EpisodeEpochs = Annotated[
    int | None, optional("N", "passes over the rows of this episode", "the zoo's, or as many as the rows need")
]


def settings_form(settings: type, only: Collection[str] | None = None, own: Collection[str] = ()) -> type:
    """A dataclass with a field for each setting of a learner or recipe (or `only` some); functions by name.

    A function with settings adds them; they count only if it is chosen. `own` are places of functions that may be
    chosen too.
    """
    ours = [setting for setting in fields(settings) if setting.init and setting.name != "recipe"]
    ours = [setting for setting in ours if only is None or setting.name in only]
    hints = get_type_hints(settings)
    shown = [(setting, _annotate(setting, hints[setting.name], own=own)) for setting in ours]
    for setting in ours:
        for name, choice in _choices(setting).items():
            for each in fields(choice) if is_dataclass(choice) else ():
                shown.append(
                    (
                        each,
                        _annotate(each, get_type_hints(choice)[each.name], f"with {flag_of(setting.name)} {name}: "),
                    )
                )
    return make_dataclass(settings.__name__, [(each.name, hint, _default(each)) for each, hint in shown])


def open_form(usual: Mapping[str, str], *kinds: type) -> type:
    """A dataclass of settings that are None unless given; `usual` says what happens then.

    A boolean has two flags, as `--grey` and `--no-grey`. `read_given` reads the values.
    """
    shown: list[tuple[str, Any, Any]] = []
    hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
    for setting in (each for kind in kinds for each in fields(kind) if each.name in usual):
        name, about = setting.name, setting.metadata
        if bool in get_args(hints[name]):
            for flag, words in ((name, about["help"]), (f"no_{name}", about["help_no"])):
                shown.append((flag, Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help=words)], False))
        else:
            choices = f"one of {', '.join(about['choices'])}" if "choices" in about else about["help"]
            kind = str if "choices" in about else float if hints[name] is float else int
            shown.append(
                (name, Annotated[kind | None, optional(about.get("metavar", "N"), choices, usual[name])], None)
            )
    return make_dataclass("Open", [(name, hint, field(default=default)) for name, hint, default in shown])


def read_given(form: Any) -> dict[str, Any]:
    """The given settings of an open form; None if not given."""
    values = dict(vars(form))
    for name in [name for name in values if f"no_{name}" in values]:
        yes, no = values[name], values.pop(f"no_{name}")
        if yes and no:
            raise SettingsError(f"both --{name} and --no-{name} were given; choose one, or neither")
        values[name] = True if yes else False if no else None
    return values


def flag_of(setting: str) -> str:
    """The flag of a setting.

    >>> flag_of("batch_size")
    '--batch-size'
    """
    return f"--{setting.replace('_', '-')}"


def _choices(setting: "Field[Any]") -> Mapping[str, Any]:
    choices: Mapping[str, Any] = setting.metadata.get("choices", {})
    return choices


def _annotate(setting: "Field[Any]", hint: Any, where: str = "", own: Collection[str] = ()) -> Any:
    if "choices" in setting.metadata:
        hint = Literal[(*setting.metadata["choices"], *own)]
    shown = tyro.conf.arg(help=where + setting.metadata.get("help", ""), metavar=setting.metadata.get("metavar"))
    return Annotated[hint, shown]


def _default(setting: "Field[Any]") -> Any:
    if setting.default_factory is not MISSING:
        return field(default_factory=setting.default_factory)
    default: Any = setting.default
    return field(
        default=registered_name(default, setting.metadata["choices"]) if "choices" in setting.metadata else default
    )
