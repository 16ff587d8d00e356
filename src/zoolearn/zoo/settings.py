"""A zoo's settings: chosen once, what was left open is settled by looking at the first data."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import prod
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

import torch

from zoolearn.errors import SettingsError, StoreError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.model_zoo import Grow, ModelZoo, from_scratch
from zoolearn.methods.parts.weighing import WEIGH, Weigh, boosted
from zoolearn.methods.registry import GROW
from zoolearn.methods.settings import plain_choice
from zoolearn.names import registered_name
from zoolearn.nets.backbones import BACKBONES, Backbone, Shape, backbone_name
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.reader import Reader

LARGEST_SIDE = 4096
LARGEST_INPUT = 1 << 26  # values; a limit for files of strangers, not of nature
PIXELS_TO_SEE = 50_000 * 32 * 32  # how much a training looks at if nobody says how many epochs: minutes on a CPU
FEWEST_EPOCHS, MOST_EPOCHS = 3, 50

Names = Mapping[str, Callable[..., Any]]
FROM_SCRATCH = registered_name(from_scratch, GROW)


@dataclass(frozen=True, kw_only=True)
class ZooSettings:
    """Settings of a zoo folder; None means: not yet settled, the first task decides.

    `grow` is the name of a way to grow members; of one that has settings of its own, an object with its name and these.

    >>> ZooSettings().settled(Look("images", channels=3, height=375, width=500), rows=1000).shape
    (3, 84, 84)
    """

    backbone: str | None = None
    recipe: Mapping[str, Json] = field(default_factory=lambda: {**asdict(Recipe()), "epochs": None})
    seed: int = 0
    tasks_per_episode: int = 5
    replay: float = 1.0
    weigh: str = "boosted"
    grow: Json = FROM_SCRATCH
    side: int | None = None
    grey: bool | None = None
    shape: Shape | None = None
    columns: tuple[str, ...] = ()  # the names of features, where the first task came from a table

    @classmethod
    def chosen(
        cls,
        *,
        backbone: Backbone | None = None,
        recipe: Recipe | None = None,
        epochs: int | None = None,
        seed: int = 0,
        tasks_per_episode: int = 5,
        replay: float = 1.0,
        weigh: Weigh = boosted,
        grow: Grow = from_scratch,
        flip_tta: bool = False,
        side: int | None = None,
        grey: bool | None = None,
    ) -> Self:
        """Settings as people give them: functions become names, and impossible values are refused."""
        if side is not None and not 4 <= side <= LARGEST_SIDE:
            raise SettingsError(f"side is {side}; images are brought to side x side pixels, give 4 to {LARGEST_SIDE}")
        plain = asdict(recipe or (Recipe() if epochs is None else Recipe(epochs=epochs)))
        plain["epochs"] = epochs if epochs is not None or recipe is None else recipe.epochs
        plain["flip_tta"] = plain["flip_tta"] or flip_tta
        settings = cls(
            backbone=None if backbone is None else backbone_name(backbone),
            recipe=plain,
            seed=seed,
            tasks_per_episode=tasks_per_episode,
            replay=replay,
            weigh=registered_name(weigh, WEIGH),
            grow=plain_choice(grow, GROW),
            side=side,
            grey=grey,
        )
        names = own_names(backbone, weigh, grow)
        replace(settings, backbone=settings.backbone or "mlp").learner(names)  # its own checks
        return settings

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left open."""
        return self.shape is not None and self.backbone is not None and self.recipe["epochs"] is not None

    @property
    def descends(self) -> bool:
        """Whether members may grow out of those before them, so that what shaped one has shaped all that came later."""
        return bool(self.grow != FROM_SCRATCH)

    @property
    def kind(self) -> Literal["images", "features"] | None:
        """What the zoo takes, once that is known."""
        if self.shape is None:
            return None
        return "images" if len(self.shape) == 3 else "features"

    def settled(self, look: Look, rows: int) -> Self:
        """These settings with nothing left open, for data that looks like this.

        Images keep their size if it is square and at most 96; otherwise they are brought to 84x84, or to 32x32 if they
        are smaller than 84. Grey if all are. Epochs so that a training looks at as many pixels as 50,000 images of
        32x32 have, but at least 3 times and at most 50 times at each row.
        """
        if self.is_settled:
            return self
        if look.kind == "features":
            shape: Shape = (look.width,)
        else:
            channels = look.channels if self.grey is None else 1 if self.grey else 3
            side = self.side or _side(look)
            shape = (channels, side, side) if look.side is None or self.side else (channels, look.side, look.side)
        pixels = rows * (prod(shape[1:]) if look.kind == "images" else 32 * 32)
        epochs = self.recipe["epochs"] or max(FEWEST_EPOCHS, min(MOST_EPOCHS, PIXELS_TO_SEE // max(1, pixels)))
        backbone = self.backbone or ("small-conv" if look.kind == "images" else "tabular")
        recipe = {**self.recipe, "epochs": epochs}
        return replace(self, backbone=backbone, shape=shape, columns=look.columns, recipe=recipe)

    def learner(self, names: Names | None = None) -> ModelZoo:
        """The learner that these settings describe; one of a machine with a GPU works on machines without, too."""
        device = "auto" if self.recipe["device"] == "cuda" and not torch.cuda.is_available() else self.recipe["device"]
        plain = {
            "backbone": self.backbone,
            "recipe": {**self.recipe, "epochs": self.recipe["epochs"] or 1, "device": device},
            "seed": self.seed,
            "tasks_per_episode": self.tasks_per_episode,
            "replay": self.replay,
            "weigh": self.weigh,
            "grow": self.grow,
        }
        return ModelZoo.from_settings(plain, names)

    @classmethod
    def read(cls, record: Reader) -> Self:
        """Checked."""
        shape = None
        if not record["shape"].is_null:
            shape = tuple(extent.whole(1, LARGEST_INPUT) for extent in record["shape"].items(3))
            if (
                len(shape) not in (1, 3)
                or prod(shape) > LARGEST_INPUT
                or (len(shape) == 3 and shape[0] not in (1, 3, 4))
            ):
                raise StoreError(
                    f"{record.place}.shape is {shape}; inputs are (channels, height, width) or (features,)"
                )
        columns = tuple(entry.name() for entry in record["columns"].items(LARGEST_INPUT))
        if columns and (
            shape is None or len(shape) != 1 or len(set(columns)) != len(columns) or len(columns) > shape[0]
        ):
            raise StoreError(f"{record.place}.columns names {len(columns)} columns; inputs are of shape {shape}")
        return cls(
            backbone=None if record["backbone"].is_null else record["backbone"].name(),
            recipe=_read_recipe(record["recipe"]),
            seed=record["seed"].whole(-(1 << 63), 1 << 63),
            tasks_per_episode=record["tasks_per_episode"].whole(1, 1 << 31),
            replay=record["replay"].number(0, 1),
            weigh=record["weigh"].name(),
            grow=_read_grow(record["grow"]),
            side=None if record["side"].is_null else record["side"].whole(4, LARGEST_SIDE),
            grey=None if record["grey"].is_null else record["grey"].flag(),
            shape=shape,
            columns=columns,
        )


def _side(look: Look) -> int:
    return 84 if min(look.height, look.width) >= 84 else 32


def _read_recipe(record: Reader) -> dict[str, Json]:
    """A recipe whose every value has its field's type, or is one of its field's choices."""
    hints = get_type_hints(Recipe)
    read: dict[str, Json] = {}
    for setting in fields(Recipe):
        entry, hint = record[setting.name], hints[setting.name]
        if setting.name == "epochs" and entry.is_null:
            read[setting.name] = None
        else:
            read[setting.name] = _value(entry, hint)
    try:
        Recipe(**{**read, "epochs": read["epochs"] or 1})
    except SettingsError as error:
        raise StoreError(f"{record.place}: {error}") from error
    return read


def _read_grow(record: Reader) -> Json:
    """The name of a way to grow, or one with settings; those of ours are checked, others when a learner is made."""
    if not isinstance(record.value, Mapping):
        return record.name()
    name = record["name"].name()
    own = {setting: entry for setting, entry in record.entries() if setting != "name"}
    if name not in GROW or not is_dataclass(GROW[name]):
        return {"name": name, **{setting: _scalar(entry) for setting, entry in own.items()}}
    hints = get_type_hints(GROW[name])
    for setting in own:
        if setting not in hints:
            raise StoreError(f"{record.place}: {unknown_name('setting', setting, hints)}")
    read = {setting: _value(entry, hints[setting]) for setting, entry in own.items()}
    try:
        GROW[name](**read)
    except SettingsError as error:
        raise StoreError(f"{record.place}: {error}") from error
    return {"name": name, **read}


def _scalar(entry: Reader) -> Json:
    if isinstance(entry.value, bool):
        return entry.flag()
    return entry.text() if isinstance(entry.value, str) else entry.number()


def _value(entry: Reader, kind: type) -> Json:
    if get_origin(kind) is Literal:
        if entry.value not in get_args(kind):
            raise StoreError(f"{entry.place}: {unknown_name('choice', str(entry.value), get_args(kind))}")
        return entry.value
    if kind is bool:
        return entry.flag()
    return entry.whole(0, 1 << 31) if kind is int else entry.number()


def known_backbone(name: str, names: Names | None) -> Backbone:
    """A backbone by name, ours or the caller's."""
    known = {**BACKBONES, **(names or {})}
    if name not in known:
        raise SettingsError(unknown_name("backbone", name, known) + "; pass your own as names={name: function}")
    return known[name]


def own_names(backbone: Backbone | None, weigh: Weigh, grow: Grow) -> dict[str, Callable[..., Any]]:
    """Functions under the names that settings record them by, for those that are in none of our tables."""
    grower: Any = type(grow) if is_dataclass(grow) else grow
    functions = {registered_name(function, {}): function for function in (weigh, grower)}
    return functions if backbone is None else {**functions, backbone_name(backbone): backbone}
