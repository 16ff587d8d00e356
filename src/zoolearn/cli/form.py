"""What `zoo run`, `zoo sweep` and `zoo tune` are told: a method's settings, its recipe's, a benchmark's, and where to work."""

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from zoolearn.cli.flags import command_line, optional, parse, settings_form
from zoolearn.cli.folders import is_zoo
from zoolearn.cli.place import PlaceOptions
from zoolearn.data.benchmarks import BENCHMARKS, CUTS
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.features.benchmarks import FEATURES, extractor_id, open_extractor
from zoolearn.lab.preset import EVERY, Preset
from zoolearn.lab.presets import find_preset
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.runs.execute import Plan
from zoolearn.runs.own import Own, is_place
from zoolearn.runs.settings import recipe_defaults
from zoolearn.runs.spec import ORDERS, RunSpec
from zoolearn.runs.step_log import Log
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
    continue_anyway: Annotated[
        bool, tyro.conf.arg(help="continue though a method or function of your own was changed; it is recorded")
    ] = False
    log_every: Annotated[
        int | None,
        optional("N", "write loss and accuracy of every Nth batch to steps.jsonl in the run folder", "never"),
    ] = None
    evaluate_every: Annotated[
        int | None, optional("N", "write test accuracies of the net in training to it, every N epochs", "never")
    ] = None
    tensorboard: Annotated[
        bool, tyro.conf.arg(help="show what steps.jsonl holds in TensorBoard too; needs zoolearn[tensorboard]")
    ] = False


@dataclass
class BenchmarkOptions:
    """The benchmark."""

    data: Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")] = None
    features: Annotated[
        Path | None,
        optional("FILE", "learn on features of this pre-trained extractor, an ONNX file (docs/features.md)", "pixels"),
    ] = None
    samples_per_class: Annotated[int | None, optional("N", "train on N random examples of each class", "all")] = None
    samples_seed: Annotated[int, tyro.conf.arg(help="seed that picks those examples")] = 0
    task_order: Annotated[
        str | None,
        optional("SEED|FILE", "shuffle the tasks, or take them as a file names them, one a line", "as listed"),
    ] = None
    class_order: Annotated[
        str | None, optional("SEED|FILE", "the same for the classes that tasks are made of, in splits", "as listed")
    ] = None
    classes_per_task: Annotated[int | None, optional("N", "how many classes a task of a split has", "2 or 5")] = None
    permutation_seed: Annotated[int | None, optional("SEED", "seed of the orders of pixels: permuted-mnist", "0")] = (
        None
    )
    tasks: Annotated[int | None, optional("N", "length of a stream that can have any: permuted-mnist", "5")] = None
    angles: Annotated[
        tuple[float, ...], optional("DEGREES...", "of the tasks of rotated streams, one each", "0 10 20 30 40")
    ] = ()
    digits_per_class: Annotated[
        int | None, optional("N", "training images of each class in a task of rotated-digits", "10")
    ] = None
    first_tasks: Annotated[int | None, optional("N", "only the first N tasks", "all")] = None
    after_tasks: Annotated[
        int | None, optional("N", "leave out the first N tasks: those that settings were chosen on", "none")
    ] = None

    only: Annotated[
        tuple[int, ...], optional("PLACE...", "only the tasks at these places, from 0, in this order", "all")
    ] = ()
    arrivals: Annotated[
        tuple[int, ...],
        optional("CLASSES...", "let tasks come in parts of so many classes each, as 3 1 1 (docs/growing.md)", "whole"),
    ] = ()
    arrivals_seed: Annotated[int, tyro.conf.arg(help="seed that deals classes and parts out")] = 0


OPTIONS = tuple(option.name for option in fields(BenchmarkOptions) if option.name not in ("data", "features"))


def read_form(names: Sequence[str], arguments: Sequence[str], program: str, options: type[RunOptions]) -> Any:
    """The filled-in form: of one method with its own settings, of several with those that all learners have.

    What several are not given is the default of each, so `given` says what was.
    """
    kinds = [_kind(name) for name in names]
    method = kinds[0] if len(names) == 1 else Learner
    own = places_in(arguments)
    idea = (
        (method.__doc__ or "").partition("\n\n")[0]
        if len(names) == 1
        else "Several methods, with settings that all have."
    )
    kind = _form(method, options, own)
    preset = _preset_in(arguments, [name_of(name) for name in names])
    on_features = any(word.partition("=")[0] == "--features" for word in arguments)
    form = parse(kind, arguments, program, idea, _filled(kind, preset, own, on_features))
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
    """The setting that a flag is of.

    >>> _setting_in("--batch-size=8"), _setting_in("--no-nesterov")
    ('batch_size', 'nesterov')
    """
    return flag.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")


def _kind(method: str) -> type[Learner]:
    if is_place(method):
        return Own.at(method).method()
    if method not in METHODS:
        raise SettingsError(unknown_name("method", method, METHODS) + "; your own is FILE.py:NAME")
    return METHODS[method]


def name_of(method: str) -> str:
    """The name that runs have for a method: its own, or that of the class at a place."""
    return Own.at(method).name if is_place(method) else method


def places_in(arguments: Sequence[str]) -> list[str]:
    """The words and parts of words that are places of code."""
    parts = [part.strip() for word in arguments for part in re.split("[=,]", word)]
    return list(dict.fromkeys(part for part in parts if re.search(r"\w:[A-Za-z_]\w*$", part)))


def _preset_in(arguments: Sequence[str], methods: Sequence[str]) -> Preset | None:
    """The preset that is named among the arguments, whose settings are the defaults of the others."""
    words = [part for word in arguments for part in word.split("=", 1)]
    if "--preset" not in words[:-1]:
        return None
    name = words[words.index("--preset") + 1]
    if len(methods) > 1:
        raise SettingsError(f"preset {name!r} is of one method, but {len(methods)} are to be run")
    return find_preset(name, methods[0], next((word for word in words if word in BENCHMARKS), EVERY))


def _form(method: type, options: type[RunOptions], own: Sequence[str]) -> type:
    names = "one of: " + ", ".join(BENCHMARKS) + "; or your own: FILE.py:NAME, package.module:NAME, the folder of a zoo"
    learner, recipe = settings_form(method, own=own), settings_form(Recipe, own=own)
    return make_dataclass(
        "Run",
        [
            ("benchmark", Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help=names)]),
            ("run", options, field(default_factory=options)),
            ("place", PlaceOptions, field(default_factory=PlaceOptions)),
            ("tasks", BenchmarkOptions, field(default_factory=BenchmarkOptions)),
            ("learner", learner, field(default_factory=learner)),
            ("recipe", recipe, field(default_factory=partial(recipe, **recipe_defaults(method)))),
        ],
    )


def _filled(kind: type, preset: Preset | None, own: Sequence[str], on_features: bool) -> Any:
    """A form with what a preset sets, read as flags would be: it may come from a file that somebody wrote.

    A function of one's own has its name there; its place stands on the command line, since no file may name code. Nets on
    features are `mlp` by default: small-conv takes pictures.
    """
    form = kind(benchmark=tyro.MISSING)
    if on_features:
        form.learner.backbone = "mlp"
    for name, value in {**preset.spec.settings, **preset.spec.options}.items() if preset else ():
        if name not in ("samples_seed", "arrivals_seed") or value:
            group, hint = setting_of(form, name)
            place = next((word for word in own if word.endswith(f":{value}")), None)
            setattr(getattr(form, group), name, typed(name, hint, *([place] if place else _written(name, value))))
    return form


def _written(name: str, value: Any) -> list[str]:
    """A value in the words that a flag takes."""
    if not isinstance(value, list):
        return [str(value)]
    return [",".join(map(str, value))] if name in ORDERS else [*map(str, value)]


def specs_of(name: str, form: Any) -> dict[int, RunSpec]:
    """The run that a form describes, for each of its seeds; what cannot be run is refused."""
    settings = {**vars(form.learner), **vars(form.recipe)}
    if form.given is not None:
        settings = {setting: value for setting, value in settings.items() if setting in (*form.given, "seed")}
    settings, own = named_settings(_kind(name), settings)
    first = settings.pop("seed")
    options = {option: read_order(option, getattr(form.tasks, option)) for option in OPTIONS}
    benchmark = form.benchmark
    if is_place(name):
        own["method"] = Own.at(name)
    if (made_by := benchmark_at(benchmark)) is not None:
        own["benchmark"] = made_by
        making = {option: value for option, value in options.items() if option not in CUTS and value not in (None, ())}
        benchmark = made_by.benchmark(form.tasks.data, making).name
    extractor = form.tasks.features and form.tasks.features.expanduser().absolute()
    if extractor:
        options[FEATURES] = extractor_id(open_extractor(extractor))
    spec = RunSpec(name_of(name), benchmark, settings, options, first, own, extractor).check()
    if any(option in spec.options for option in ORDERS) or spec.making:
        spec.tasks(form.tasks.data)  # an order or an option that cannot be is refused now, not by every run
    return {seed: replace(spec, seed=seed) for seed in range(first, first + form.run.seeds)}


def benchmark_at(word: str) -> Own | None:
    """What makes a benchmark that is none of ours: a function of one's own, or the folder of a zoo."""
    if word in BENCHMARKS:
        return None
    if is_place(word):
        return Own.at(word)
    if not is_zoo(Path(word)):
        return None
    from zoolearn.zoo.as_benchmark import StoredTasks

    return StoredTasks.at(word)


def named_settings(method: type, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Own]]:
    """Settings with functions of one's own by their names, and where these are."""
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


def read_order(option: str, value: Any) -> Any:
    """An order as a flag gives it: a seed, names with commas between them, or a file with a name a line."""
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


def plan_of(form: Any, *words: str) -> Plan:
    """How a form's runs are carried out; `words` are the command line that asks for them."""
    return Plan(
        data=form.tasks.data,
        checkpoint_every=form.run.checkpoint_every,
        exact=form.run.exact,
        anyway=form.run.continue_anyway,
        log=Log(form.run.log_every, form.run.evaluate_every, form.run.tensorboard),
        command=command_line(*words),
    )


def setting_of(form: Any, name: str) -> tuple[str, Any]:
    """The group of a form that has this setting, and the setting's type; an error lists all that there are."""
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


def with_settings(spec: RunSpec, chosen: Mapping[str, Any]) -> RunSpec:
    """The run with some settings and options changed; what cannot be run is refused."""
    options = {name: read_order(name, value) for name, value in chosen.items() if name in OPTIONS}
    others = {name: value for name, value in chosen.items() if name not in OPTIONS}
    settings, own = named_settings(spec.kind, others)
    kept = {name: each for name, each in spec.own.items() if name not in settings}
    return replace(
        spec, settings={**spec.settings, **settings}, options={**spec.options, **options}, own={**kept, **own}
    ).check()


def typed(name: str, hint: Any, *words: str) -> Any:
    """A value of a setting, read as the flag would read it."""
    form = make_dataclass("Value", [("value", hint)])
    try:
        config = (tyro.conf.FlagConversionOff,)
        args = ["--value", *words] if len(words) > 1 else [f"--value={word}" for word in words]
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
