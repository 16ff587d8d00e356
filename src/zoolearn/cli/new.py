"""`zoo new FOLDER`: an empty zoo, its settings chosen once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro
from rich.console import Console
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.flags import about, flag, open_form, parse, read_given, settings_form
from zoolearn.errors import SettingsError
from zoolearn.lab.presets import preset_settings
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.registry import learner_from
from zoolearn.runs.settings import nest
from zoolearn.training.recipe import Recipe
from zoolearn.zoo import Zoo
from zoolearn.zoo.adoption import iter_adopt
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.settings import ZooSettings

IDEA = """Make an empty zoo. What you leave out is settled by looking at the first data that it learns.

Then, any time: `zoo learn FOLDER NAME DATA` teaches it a task, `zoo predict FOLDER NAME INPUT...` asks it."""

OPEN = {
    "side": "their own size up to 96 if square, else 84 or 32",
    "grey": "as the first data is",
    "balance": "0.5",
    "keep_statistics": "where not all rows are kept",
    "backbone": "small-conv for images, tabular for features",
    "epochs": "as many as its rows need, 3 to 50",
}  # what is settled by data, unless given
WHICH = (
    "Few photographs of everyday things are better learned on pre-trained features (20 a class of Coarse-CIFAR100: 75.3 % right, "
    "nets 54.6 %), inputs unlike photographs by nets (20 a class of digits with their pixels shuffled: 75.2 %, features 54.6 %)"
)  # as measured: docs/features.md
RECIPE = ("batch_size", "lr", "dropout", "flip_tta", "device")  # what else of a recipe is a flag


@dataclass
class NewOptions:
    """The zoo, permanently."""

    folder: Annotated[Path, tyro.conf.Positional, about("a new or empty folder", "FOLDER")]
    features: str | None = flag(
        "learn from features of pictures by an ONNX file, or of texts by wordllama:", "FILE|NAME", "none"
    )
    preset: str | None = flag(
        "paper, beyond (most accurate), beyond-fast (one pass an answer), or another of `zoo list --presets`",
        "NAME",
        "paper",
    )
    adopt: Path | None = flag(
        "make the zoo of a finished `zoo run model-zoo` instead, with its settings", "RUN", "none"
    )
    data: Path | None = flag("data root, to find the data of that run", "DIR", "$ZOOLEARN_DATA")


def main(arguments: Sequence[str]) -> None:
    """Makes a zoo."""
    own = {setting.name for setting in fields(ZooSettings)} - {*get_type_hints(NewOptions), *OPEN, "recipe"}
    forms = {"zoo": settings_form(ModelZoo, only=own), "recipe": settings_form(Recipe, only=RECIPE)}
    opened = {"settled": open_form(OPEN, ZooSettings, Recipe)}
    shown: list[tuple[str, Any, Any]] = [
        (name, form, field(default_factory=form)) for name, form in {**opened, **forms}.items()
    ]
    kind = make_dataclass("New", shown, bases=(NewOptions,))
    options = parse(kind, arguments, "zoo new", IDEA)
    if options.preset is not None:
        preset = preset_settings(options.preset, "model-zoo")
        given = {
            name: form(**{own.name: preset[own.name] for own in fields(form) if own.name in preset})
            for name, form in forms.items()
        }
        options = parse(kind, arguments, "zoo new", IDEA, kind(folder=options.folder, **given))
    console = output.console()
    if options.adopt is not None:
        others = {word.partition("=")[0] for word in arguments if word.startswith("--")} - {"--adopt", "--data"}
        if others:
            raise SettingsError(f"the settings of the run count with --adopt; leave {', '.join(sorted(others))} out")
        zoo = follow(iter_adopt(options.folder, options.adopt, options.data), console)
        console.print(
            f"{escape(str(zoo.path))} holds the {len(zoo.members)} members and {len(zoo.tasks)} tasks of the run"
        )
        return
    if options.features is not None:
        _make_on_features(options, arguments, console)
        return
    nested = nest(ModelZoo, vars(options.zoo))
    learner = learner_from(ModelZoo, nested)
    settings = ZooSettings.choose(
        **read_given(options.settled),
        **{name: getattr(learner, name) for name in nested},
        **vars(options.recipe),
    )
    Zoo.create(options.folder, settings)
    console.print(
        f"{escape(str(options.folder))} is an empty zoo. Teach it: zoo learn {escape(str(options.folder))} NAME DATA"
    )
    if find_spec("onnxruntime") is not None and settings.backbone not in ("tabular", "identity"):
        console.print(f"{WHICH}: --features FILE")


def _make_on_features(options: Any, arguments: Sequence[str], console: Console) -> None:
    """Makes a zoo on features; nothing is trained in it, so that only its seed is left to choose."""
    given = {word.partition("=")[0][2:].replace("-", "_") for word in arguments if word.startswith("--")}
    parts = (options, options.settled, options.zoo, options.recipe)
    chosen = {name: value for part in parts for name, value in vars(part).items()}
    features = Given.of(options.features)
    settings = features.settings(**{name: chosen.get(name, True) for name in given - {"features"}})
    Zoo.create(options.folder, settings, extractor=features.content)
    extractor = features.extractor
    console.print(
        f"{escape(str(options.folder))} is an empty zoo on {extractor.num_features} features of {escape(extractor.name)}, from "
        f"{f'pictures of {extractor.size}x{extractor.size} pixels' if extractor.size else 'texts'}. "
        f"Teach it: zoo learn {escape(str(options.folder))} NAME DATA"
    )
    if extractor.size is not None:
        console.print(f"{WHICH}: without --features")
