"""The options of `zoo run`, `zoo sweep` and `zoo tune`: settings of method and recipe, benchmark, and place of work."""

import types
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from zoolearn.cli.flags import command_line, flag, parse, settings_form
from zoolearn.cli.place import PlaceOptions
from zoolearn.cli.streams import (
    benchmark_options,
    find_benchmark,
    find_own_benchmark,
    find_places,
    read_options,
    read_order,
)
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.features.benchmarks import FEATURES, extractor_id, open_extractor_file
from zoolearn.lab.presets import find_preset
from zoolearn.lab.published import EVERY, Preset
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.runs.execute import Plan
from zoolearn.runs.own import Own, is_place, split_names
from zoolearn.runs.settings import recipe_defaults
from zoolearn.runs.spec import ORDERS, RunSpec
from zoolearn.runs.step_log import Log
from zoolearn.training.recipe import Recipe


@dataclass
class RunOptions:
    """The run."""

    out: Path | None = flag(
        "run folder; of several runs, the folder of their folders", "DIR", "runs/METHOD-BENCHMARK-seedN"
    )
    seeds: int = flag("number of runs: this seed and the ones after it", default=1)
    checkpoint_every: int | None = flag(
        "save an unfinished training every N epochs, so that at most N are lost", "N", "never; 1 on a cluster"
    )
    preset: str | None = flag(
        "start from published settings (`zoo list --presets`) or those of `zoo tune`", "NAME|FILE", "none"
    )
    exact: bool = flag("refuse to continue with other threads, libraries or processor than before", default=False)
    continue_anyway: bool = flag(
        "continue though a method or function of your own was changed; it is recorded", default=False
    )
    log_every: int | None = flag(
        "write loss and accuracy of every Nth batch to steps.jsonl in the run folder", "N", "never"
    )
    evaluate_every: int | None = flag(
        "write test accuracies of the net in training to it, every N epochs", "N", "never"
    )
    tensorboard: bool = flag(
        "show what steps.jsonl holds in TensorBoard too; needs zoolearn[tensorboard]", default=False
    )


def read_form(names: Sequence[str], arguments: Sequence[str], program: str, options: type[RunOptions]) -> Any:
    """The parsed form: of one method with its settings, of several with those that all learners have.

    `given` are the settings given for several methods; the others have the defaults of each.
    """
    kinds = [_kind(name) for name in names]
    method = kinds[0] if len(names) == 1 else Learner
    own = find_places(arguments)
    idea = (
        (method.__doc__ or "").partition("\n\n")[0]
        if len(names) == 1
        else "Several methods, with settings that all have."
    )
    kind = _form(method, options, own, arguments)
    preset = _preset_in(arguments, [name_of(name) for name in names])
    on_features = any(word.partition("=")[0] == "--features" for word in arguments)
    form = parse(kind, arguments, program, idea, _fill(kind, preset, own, on_features))
    if (
        preset is not None
        and not preset.suits(name_of(names[0]), form.benchmark)
        and not form.run.preset.endswith(".json")
    ):
        find_preset(form.run.preset, names[0], form.benchmark)
    form.given = {_setting_in(word) for word in arguments if word.startswith("--")} if len(names) > 1 else None
    if form.given is not None and on_features:
        form.given.add("backbone")  # which is another one then
    if form.run.seeds < 1:
        raise SettingsError(f"seeds is {form.run.seeds}; it counts runs, so 1 or more")
    return form


def _setting_in(flag: str) -> str:
    """The setting of a flag.

    >>> _setting_in("--batch-size=8"), _setting_in("--no-nesterov")
    ('batch_size', 'nesterov')
    """
    return flag.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")


def _kind(method: str) -> type[Learner]:
    if len(several := split_names(method)) > 1:
        raise SettingsError(
            f"{method} are {len(several)} methods, and this command takes one; `zoo run {method} ...` runs all"
        )
    if is_place(method):
        return Own.at(method).method()
    if method not in METHODS:
        raise SettingsError(unknown_name("method", method, METHODS) + "; your own is FILE.py:NAME")
    return METHODS[method]


def name_of(method: str) -> str:
    """The name of a method in runs: its own, or that of the class at a place."""
    return Own.at(method).name if is_place(method) else method


def _preset_in(arguments: Sequence[str], methods: Sequence[str]) -> Preset | None:
    """The preset named in the arguments, whose settings are defaults for the others."""
    words = [part for word in arguments for part in word.split("=", 1)]
    if "--preset" not in words[:-1]:
        return None
    name = words[words.index("--preset") + 1]
    if len(methods) > 1:
        raise SettingsError(f"preset {name!r} is of one method, but {len(methods)} are to be run")
    return find_preset(name, methods[0], next((word for word in words if word in BENCHMARKS), EVERY))


def _form(method: type, options: type[RunOptions], own: Sequence[str], arguments: Sequence[str]) -> type:
    names = "one of: " + ", ".join(BENCHMARKS) + "; or your own: FILE.py:NAME, package.module:NAME, the folder of a zoo"
    functions = [each.name for kind in (method, Recipe) for each in fields(kind) if "choices" in each.metadata]
    benchmark = find_own_benchmark(arguments, functions)
    own = [word for word in own if benchmark is None or word != benchmark.word]
    learner, recipe = settings_form(method, own=own), settings_form(Recipe, own=own)
    taken = {each.name for kind in (options, PlaceOptions, learner, recipe) for each in fields(kind)}
    tasks = benchmark_options(benchmark, taken, arguments)
    return make_dataclass(
        "Run",
        [
            ("benchmark", Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help=names)]),
            ("run", options, field(default_factory=options)),
            ("place", PlaceOptions, field(default_factory=PlaceOptions)),
            ("tasks", tasks, field(default_factory=tasks)),
            ("learner", learner, field(default_factory=learner)),
            ("recipe", recipe, field(default_factory=partial(recipe, **recipe_defaults(method)))),
        ],
    )


def _fill(kind: type, preset: Preset | None, own: Sequence[str], on_features: bool) -> Any:
    """A form with the settings of a preset, parsed like flags, since a file may contain anything.

    A function of the caller has its name there; its place must be on the command line, since no file may name code.
    Nets on features are `mlp` by default: small-conv takes pictures.
    """
    form = kind(benchmark=tyro.MISSING)
    if on_features:
        form.learner.backbone = "mlp"
    for name, value in {**preset.spec.settings, **preset.spec.options}.items() if preset else ():
        if name not in ("samples_seed", "arrivals_seed") or value:
            group, hint = find_setting(form, name)
            place = next((word for word in own if word.endswith(f":{value}")), None)
            setattr(getattr(form, group), name, read_value(name, hint, *([place] if place else _to_words(name, value))))
    return form


def _to_words(name: str, value: Any) -> list[str]:
    """A value as words of a flag."""
    if not isinstance(value, list):
        return [str(value)]
    return [",".join(map(str, value))] if name in ORDERS else [*map(str, value)]


def make_specs(name: str, form: Any) -> dict[int, RunSpec]:
    """The runs of a form, by seed; raises if they cannot be run."""
    settings = {**vars(form.learner), **vars(form.recipe)}
    if form.given is not None:
        settings = {setting: value for setting, value in settings.items() if setting in (*form.given, "seed")}
    settings, own = name_settings(_kind(name), settings)
    first = settings.pop("seed")
    if is_place(name):
        own["method"] = Own.at(name)
    if (made_by := find_benchmark(form.benchmark)) is not None:
        own["benchmark"] = made_by
    options = read_options(form.tasks, made_by)
    extractor = form.tasks.features and form.tasks.features.expanduser().absolute()
    if extractor:
        options[FEATURES] = extractor_id(open_extractor_file(extractor))
    spec = RunSpec(name_of(name), form.benchmark, settings, options, first, own, extractor)
    if made_by is not None:
        spec = replace(spec, benchmark=spec.whole(form.tasks.data).name)
    spec = spec.check()
    if any(option in spec.options for option in ORDERS) or spec.making:
        spec.tasks(form.tasks.data)  # an order or an option that cannot be is refused now, not by every run
    return {seed: replace(spec, seed=seed) for seed in range(first, first + form.run.seeds)}


def name_settings(method: type, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Own]]:
    """Settings with the caller's functions by name, and where these are."""
    functions = [setting.name for setting in (*fields(method), *fields(Recipe)) if "choices" in setting.metadata]
    own = {name: Own.at(settings[name]) for name in functions if name in settings and is_place(settings[name])}
    places: dict[str, Own] = {}
    for each in own.values():
        if places.setdefault(each.name, each) != each:
            raise SettingsError(
                f"{places[each.name].word} and {each.word} have one name; a run goes by names, rename one"
            )
        each.function()
    return {**settings, **{name: each.name for name, each in own.items()}}, own


def make_plan(form: Any, *words: str) -> Plan:
    """How the runs of a form are executed; `words` are the command line to record."""
    return Plan(
        data=form.tasks.data,
        checkpoint_every=form.run.checkpoint_every,
        exact=form.run.exact,
        anyway=form.run.continue_anyway,
        log=Log(form.run.log_every, form.run.evaluate_every, form.run.tensorboard),
        command=command_line(*words),
    )


def find_setting(form: Any, name: str) -> tuple[str, Any]:
    """The group of a form with this setting, and its type; an error lists all."""
    known = {
        setting.name: (group, get_type_hints(type(getattr(form, group)))[setting.name])
        for group in ("tasks", "learner", "recipe")
        for setting in fields(getattr(form, group))
        if setting.name not in ("data", "features", "seed")
    }
    if name == "seed":
        raise SettingsError("seeds are not varied as settings are; give --seeds N, or --seed N")
    if name not in known:
        raise SettingsError(unknown_name("setting", name, known))
    return known[name]


def change_settings(spec: RunSpec, chosen: Mapping[str, Any]) -> RunSpec:
    """The run with some settings and options changed; raises if it cannot be run."""
    known = {each.name for kind in (spec.kind, Recipe) for each in fields(settings_form(kind))}
    options = {name: read_order(name, value) for name, value in chosen.items() if name not in known}
    settings, own = name_settings(spec.kind, {name: value for name, value in chosen.items() if name in known})
    kept = {name: each for name, each in spec.own.items() if name not in settings}
    return replace(
        spec, settings={**spec.settings, **settings}, options={**spec.options, **options}, own={**kept, **own}
    ).check()


def read_value(name: str, hint: Any, *words: str) -> Any:
    """A value of a setting, parsed like its flag."""
    form = make_dataclass("Value", [("value", hint)])
    try:
        config = (tyro.conf.FlagConversionOff,)
        args = ["--value", *words] if len(words) > 1 else [f"--value={word}" for word in words]
        with redirect_stderr(StringIO()):  # where versions of tyro print a box in spite of the last argument
            return tyro.cli(form, args=args, config=config, console_outputs=False).value
    except SystemExit:
        raise SettingsError(f"{name} cannot be {' '.join(words)!r}; it takes {_words(hint)}") from None


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_words(part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return f"{_words(get_args(hint)[0])} or several"
    words = {int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))
