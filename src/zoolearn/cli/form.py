"""What `zoo run`, `zoo sweep` and `zoo tune` are told: a method's settings, its recipe's, a benchmark's, and where to work."""

import types
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from zoolearn.cli.flags import learner_from, optional, parse, settings_form
from zoolearn.cli.place import PlaceOptions
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.presets import EVERY, Preset, find_preset
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.runs.spec import RunSpec
from zoolearn.training.recipe import Recipe


@dataclass
class RunOptions:
    """The run."""

    out: Annotated[
        Path | None,
        optional("DIR", "run folder; of several runs, the folder of their folders", "runs/METHOD-BENCHMARK-seedN"),
    ] = None
    seeds: Annotated[int, tyro.conf.arg(help="so many runs, with this seed and the ones after it")] = 1
    checkpoint_every: Annotated[
        int | None,
        optional(
            "N", "save an unfinished training every N epochs, so that at most N are lost", "never; 1 on a cluster"
        ),
    ] = None
    preset: Annotated[
        str | None,
        optional("NAME|FILE", "start from published settings (`zoo list --presets`) or those of `zoo tune`", "none"),
    ] = None
    exact: Annotated[
        bool, tyro.conf.arg(help="refuse to continue with other threads, libraries or processor than before")
    ] = False


@dataclass
class BenchmarkOptions:
    """The benchmark."""

    data: Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")] = None
    samples_per_class: Annotated[int | None, optional("N", "train on N random examples of each class", "all")] = None
    samples_seed: Annotated[int, tyro.conf.arg(help="seed that picks those examples")] = 0
    order_seed: Annotated[int | None, optional("SEED", "shuffle the tasks with this seed", "as listed")] = None
    tasks: Annotated[int | None, optional("N", "length of a stream that can have any: permuted-mnist", "5")] = None
    first_tasks: Annotated[int | None, optional("N", "only the first N tasks", "all")] = None
    after_tasks: Annotated[
        int | None, optional("N", "leave out the first N tasks: those that settings were chosen on", "none")
    ] = None

    def cut(self) -> dict[str, Any]:
        """How the whole benchmark is cut down."""
        return {name: value for name, value in vars(self).items() if name != "data"}


GROUPS = ("tasks", "learner", "recipe")  # of a form: what makes a run another run


def read_form(names: Sequence[str], arguments: Sequence[str], program: str, options: type[RunOptions]) -> Any:
    """The filled-in form: of one method with its own settings, of several with those that all learners have."""
    for name in names:
        if name not in METHODS:
            raise SettingsError(unknown_name("method", name, METHODS))
    if len(names) > 1:
        form = parse(_form(Learner, options), arguments, program, "Several methods, with settings that all have.")
        if form.run.preset is not None:
            raise SettingsError(f"preset {form.run.preset!r} is of one method, but {len(names)} are to be run")
    else:
        method = METHODS[names[0]]
        idea = (method.__doc__ or "").partition("\n\n")[0]
        told = _preset_in(arguments, names[0]) if {"--help", "-h"} & {*arguments} else None
        form = parse(_form(method, options, _checked(told, method) if told else None), arguments, program, idea)
        if form.run.preset is not None:
            preset = find_preset(form.run.preset, names[0], form.benchmark)
            form = parse(_form(method, options, _checked(preset, method)), arguments, program, idea)
    if form.run.seeds < 1:
        raise SettingsError(f"seeds is {form.run.seeds}; it counts runs, so 1 or more")
    return form


def _preset_in(arguments: Sequence[str], method: str) -> Preset | None:
    """The preset that is named beside a call for help, whose defaults are to be its own."""
    words = [part for word in arguments for part in word.split("=", 1)]
    if "--preset" not in words[:-1]:
        return None
    benchmark = next((word for word in words if word in BENCHMARKS), EVERY)
    return find_preset(words[words.index("--preset") + 1], method, benchmark)


def _form(method: type, options: type[RunOptions], preset: Mapping[str, Mapping[str, Any]] | None = None) -> type:
    names = "one of: " + ", ".join(BENCHMARKS)
    given = preset or {group: {} for group in GROUPS}
    learner, recipe = settings_form(method, given["learner"]), settings_form(Recipe, given["recipe"])
    return make_dataclass(
        "Run",
        [
            ("benchmark", Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help=names)]),
            ("run", options, field(default_factory=options)),
            ("place", PlaceOptions, field(default_factory=PlaceOptions)),
            ("tasks", BenchmarkOptions, field(default_factory=lambda: BenchmarkOptions(**given["tasks"]))),
            ("learner", learner, field(default_factory=learner)),
            ("recipe", recipe, field(default_factory=recipe)),
        ],
    )


def orders_of(name: str, form: Any) -> dict[int, RunSpec]:
    """The run that a form describes, for each of its seeds; without a folder."""
    if form.benchmark not in BENCHMARKS:
        raise SettingsError(unknown_name("benchmark", form.benchmark, BENCHMARKS))
    learner = learner_from(METHODS[name], form.learner, form.recipe)
    order = RunSpec(
        learner,
        form.benchmark,
        form.tasks.cut(),
        form.tasks.data,
        checkpoint_every=form.run.checkpoint_every,
        exact=form.run.exact,
    )
    return {
        seed: replace(order, learner=replace(learner, seed=seed))
        for seed in range(learner.seed, learner.seed + form.run.seeds)
    }


def setting_of(form: Any, name: str) -> tuple[str, Any]:
    """The group of a form that has this setting, and the setting's type; an error lists all that there are."""
    known = {
        setting.name: (group, get_type_hints(type(getattr(form, group)))[setting.name])
        for group in GROUPS
        for setting in fields(getattr(form, group))
        if setting.name not in ("data", "seed")
    }
    if name == "seed":
        raise SettingsError("seeds are not varied as settings are; give --seeds N, or --seed N")
    if name not in known:
        raise SettingsError(unknown_name("setting", name, known))
    return known[name]


def with_settings(form: Any, chosen: Mapping[str, Any]) -> Any:
    """The form with some settings changed."""
    other = deepcopy(form)
    for name, value in chosen.items():
        setattr(getattr(other, setting_of(form, name)[0]), name, value)
    return other


def typed(name: str, hint: Any, text: str) -> Any:
    """A value of a setting, read as the flag would read it."""
    form = make_dataclass("Value", [("value", hint)])
    try:
        config = (tyro.conf.FlagConversionOff,)
        return tyro.cli(form, args=[f"--value={text}"], config=config, console_outputs=False).value
    except SystemExit:
        raise SettingsError(f"{name} cannot be {text!r}; it takes {_words(hint)}") from None


def _words(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_words(part) for part in get_args(hint))
    words = {int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _checked(preset: Preset, method: type[Learner]) -> dict[str, dict[str, Any]]:
    """What a preset sets, read as flags would be: it may come from a file that somebody wrote."""
    forms = {"tasks": BenchmarkOptions, "learner": settings_form(method), "recipe": settings_form(Recipe)}
    checked: dict[str, dict[str, Any]] = {}
    for group, form in forms.items():
        hints = get_type_hints(form)
        for name in getattr(preset, group):
            if name not in hints:
                raise SettingsError(unknown_name("setting", name, hints))
        checked[group] = {name: typed(name, hints[name], str(value)) for name, value in getattr(preset, group).items()}
    return checked
