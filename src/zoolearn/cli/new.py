"""`zoo new FOLDER`: an empty zoo, its settings chosen once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.flags import optional, parse, settings_form
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.presets import settings_of
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.weighing import WEIGH
from zoolearn.nets.backbones import BACKBONES
from zoolearn.runs.settings import nest
from zoolearn.training.recipe import Recipe
from zoolearn.zoo import Zoo
from zoolearn.zoo.adoption import adopting
from zoolearn.zoo.settings import ZooSettings

IDEA = """Make an empty zoo. What you leave out is settled by looking at the first data that it learns.

Then, any time: `zoo learn FOLDER NAME DATA` teaches it a task, `zoo predict FOLDER NAME INPUT...` asks it."""


@dataclass
class NewOptions:
    """The zoo, for good."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="a new or empty folder")]
    side: Annotated[
        int | None,
        optional("N", "images are brought to NxN pixels", "their own size up to 96 if square, else 84 or 32"),
    ] = None
    grey: Annotated[
        bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help="take images in grey, whatever the first data is")
    ] = False
    no_grey: Annotated[
        bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help="take images in colour, whatever the first data is")
    ] = False
    backbone: Annotated[
        str | None, optional("NAME", f"one of {', '.join(BACKBONES)}", "small-conv for images, tabular for features")
    ] = None
    epochs: Annotated[int | None, optional("N", "passes over the data per training", "minutes of work: 3 to 50")] = None
    tasks_per_episode: Annotated[int, tyro.conf.arg(help="tasks that a member is trained on, the new one included")] = 5
    replay: Annotated[float, tyro.conf.arg(help="share of each task's training rows that is kept for later")] = 1.0
    weigh: Annotated[
        Literal["boosted", "released", "uniform"],
        tyro.conf.arg(help="how past tasks are weighed when some are drawn"),
    ] = "boosted"
    batch_size: Annotated[int, tyro.conf.arg(help="rows per step")] = 16
    lr: Annotated[float, tyro.conf.arg(help="learning rate at the first step")] = 0.01
    dropout: Annotated[float, tyro.conf.arg(help="share of units dropped, by backbones that drop units")] = 0.2
    flip_tta: Annotated[bool, tyro.conf.arg(help="answer for a colour picture and its mirror image together")] = False
    device: Annotated[Literal["auto", "cpu", "cuda"], tyro.conf.arg(help="auto: a GPU if there is one")] = "auto"
    seed: Annotated[int, tyro.conf.arg(help="seed of everything random")] = 0
    preset: Annotated[
        str | None, optional("NAME", "paper, or beyond: the settings past the paper that were found best", "paper")
    ] = None
    adopt: Annotated[
        Path | None,
        optional("RUN", "make the zoo of a finished `zoo run model-zoo` instead, with its settings", "none"),
    ] = None
    data: Annotated[Path | None, optional("DIR", "data root, to find the data of that run", "$ZOOLEARN_DATA")] = None


def main(arguments: Sequence[str]) -> None:
    """Makes a zoo."""
    growing = settings_form(ModelZoo, only=["grow"])
    form = make_dataclass("New", [("growing", growing, field(default_factory=growing))], bases=(NewOptions,))
    options = parse(form, arguments, "zoo new", IDEA)
    if options.preset is not None:
        preset = settings_of(options.preset, "model-zoo")
        given, grow = (
            {own.name: preset[own.name] for own in fields(kind) if own.name in preset} for kind in (NewOptions, growing)
        )
        begun = form(folder=options.folder, growing=growing(**grow), **given)
        options = parse(form, arguments, "zoo new", IDEA, begun)
    console = output.console()
    if options.adopt is not None:
        others = {word.partition("=")[0] for word in arguments if word.startswith("--")} - {"--adopt", "--data"}
        if others:
            raise SettingsError(f"the settings of the run count with --adopt; leave {', '.join(sorted(others))} out")
        zoo = follow(adopting(options.folder, options.adopt, options.data), console)
        console.print(
            f"{escape(str(zoo.path))} holds the {len(zoo.members)} members and {len(zoo.tasks)} tasks of the run"
        )
        return
    if options.backbone is not None and options.backbone not in BACKBONES:
        raise SettingsError(unknown_name("backbone", options.backbone, BACKBONES))
    if options.grey and options.no_grey:
        raise SettingsError("both --grey and --no-grey were given; choose one, or neither: as the first data is")
    recipe = Recipe(
        epochs=1 if options.epochs is None else options.epochs,
        batch_size=options.batch_size,
        lr=options.lr,
        dropout=options.dropout,
        flip_tta=options.flip_tta,
        device=options.device,
    )
    settings = ZooSettings.chosen(
        backbone=None if options.backbone is None else BACKBONES[options.backbone],
        recipe=recipe,
        seed=options.seed,
        tasks_per_episode=options.tasks_per_episode,
        replay=options.replay,
        weigh=WEIGH[options.weigh],
        grow=ModelZoo.from_settings(nest(ModelZoo, vars(options.growing))).grow,
        side=options.side,
        grey=True if options.grey else False if options.no_grey else None,
    )
    if options.epochs is None:
        settings = replace(settings, recipe={**settings.recipe, "epochs": None})
    Zoo.create(options.folder, settings)
    console.print(
        f"{escape(str(options.folder))} is an empty zoo. Teach it: zoo learn {escape(str(options.folder))} NAME DATA"
    )
