"""The settings of a zoo: given when it is made, the rest decided by the first data.

Every setting is a field here and listed nowhere else: keyword arguments, flags, records and reports follow from the
fields, and records are checked by their types.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, ParamSpec, Self, TypedDict, TypeVar, cast, get_type_hints

import torch
from msgspec import Meta

from zoolearn.data.task import STEP
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.files import Json
from zoolearn.methods.model_zoo import GROW, WEIGH, ModelZoo, from_scratch
from zoolearn.methods.registry import learner_from, plain_choice
from zoolearn.names import registered_name
from zoolearn.nets.backbones import BACKBONES, Backbone, Shape
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.inputs.look import Look

ALWAYS_SHOWN = ("epochs", "batch_size", "lr")  # of a recipe
OPEN = {"backbone": "chosen by the first data", "epochs": "chosen for each episode"}  # in words, where not given

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")
Names = Mapping[str, Callable[..., Any]]
OF_RECIPE = [setting for setting in fields(Recipe) if "choices" not in setting.metadata]
LONGEST_NAME = 200
LARGEST_SIDE = 4096
LARGEST_INPUT = 1 << 26  # values; a limit for files of strangers, not of nature
UNIT = round(1 / STEP)
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Share = Annotated[float, Meta(ge=0, le=1)]
SideLength = Annotated[int, Meta(ge=4, le=LARGEST_SIDE)]
Extent = Annotated[int, Meta(ge=1, le=LARGEST_INPUT)]
FROM_SCRATCH = registered_name(from_scratch, GROW)


class ExtractorRecord(TypedDict):
    """The record of an extractor; its probe is compared whenever it is opened."""

    name: Name
    file: bool
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: SideLength | None
    num_features: Extent
    inputs: Name
    views: Annotated[int, Meta(ge=1, le=2)]
    step: Share
    versions: Annotated[dict[Name, Name], Meta(max_length=10)]
    probe: list[Annotated[int, Meta(ge=-UNIT, le=UNIT)]]


@dataclass(frozen=True, kw_only=True)
class ZooSettings:
    """The settings of a zoo folder; None: decided by the first task (`epochs` by every episode).

    `grow` is the name of a way to grow members or, if that has settings, an object with its name and settings.

    >>> ZooSettings().settle(Look("images", channels=3, height=375, width=500)).shape
    (3, 84, 84)
    """

    backbone: Name | None = field(default=None, metadata={"choices": BACKBONES, "metavar": "NAME"})
    recipe: Mapping[str, Json] = field(default_factory=lambda: {**_values(Recipe()), "epochs": None})
    seed: int = 0
    tasks_per_episode: Annotated[int, Meta(ge=1)] = 5
    replay: Share = 1.0
    balance: Share = field(default=0.5, metadata={"help": "0 to 1: how far classes count as equally frequent"})
    keep_statistics: bool | None = field(
        default=None,
        metadata={
            "help": "keep statistics of each task's features, whatever is kept of its rows",
            "help_no": "keep none; if no rows are kept either, tasks cannot grow",
            "is_new": True,  # zoos that are older do not record it
        },
    )
    weigh: Name = field(default="boosted", metadata={"choices": WEIGH})
    grow: Json = field(default=FROM_SCRATCH, metadata={"choices": GROW})
    side: SideLength | None = field(default=None, metadata={"help": "images are brought to NxN pixels"})
    grey: bool | None = field(
        default=None,
        metadata={
            "help": "take images in grey, whatever the first data is",
            "help_no": "take images in colour, whatever the first data is",
        },
    )
    features: ExtractorRecord | None = None
    shape: tuple[Extent, ...] | None = field(default=None, metadata={"settled": True})
    columns: tuple[Name, ...] = field(default=(), metadata={"settled": True})  # of a table

    @classmethod
    def choose(cls, **given: Any) -> Self:
        """Settings from any field of the zoo or of the recipe, functions or their names; raises on impossible ones."""
        known = givable_settings()
        for name in given:
            if name not in known:
                raise SettingsError(unknown_name("setting of a zoo", name, known))
        of_recipe = {setting.name for setting in OF_RECIPE}
        plain = {
            name: _plain(name, value, known[name].metadata["choices"]) if "choices" in known[name].metadata else value
            for name, value in given.items()
            if name not in of_recipe and value is not None
        }
        plain["recipe"] = _recipe(given.get("recipe"), {name: given[name] for name in given if name in of_recipe})
        settings = cls(**plain)
        settings._check_images()
        names = name_functions(**given)
        replace(settings, backbone=settings.backbone or "mlp").learner(names)  # its own checks
        return settings

    @classmethod
    def on_features(cls, record: Mapping[str, Json], **given: Any) -> Self:
        """Settings of a zoo on the features of an extractor, given by its record.

        Its members are heads from statistics, so only the seed can be chosen.
        """
        for name, value in given.items():
            if (
                value is not None
                and (name, value) not in (("tasks_per_episode", 1), ("replay", 1.0))
                and name != "seed"
            ):
                raise SettingsError(
                    f"{name} is {value!r}, but nothing is trained in a zoo on features: its members are heads from the "
                    "statistics of all rows of one task; leave it out"
                )
        side = record["size"]
        shape = (int(record["num_features"]),) if side is None else (3, side, side)
        settled = cls.choose(backbone="identity", grow="statistics", tasks_per_episode=1, seed=given.get("seed"))
        return replace(settled, features=cast(ExtractorRecord, dict(record)), shape=shape)

    @classmethod
    def of(cls, learner: ModelZoo) -> Self:
        known = {setting.name for setting in fields(cls)}
        given = {setting.name: getattr(learner, setting.name) for setting in fields(ModelZoo) if setting.init}
        given["keep_statistics"] = learner.keep_statistics or not learner.replay
        return cls.choose(**{name: value for name, value in given.items() if name in known})

    def _check_images(self) -> None:
        if self.grey not in (None, True, False):
            raise SettingsError(f"grey is {self.grey!r}; it must be True, False, or None: as the first data is")
        if self.side is not None and not (isinstance(self.side, int) and 4 <= self.side <= LARGEST_SIDE):
            raise SettingsError(
                f"side is {self.side!r}; images are brought to side x side pixels, give 4 to {LARGEST_SIDE}"
            )

    def phrases(self) -> list[str]:
        """The settings in words; of the recipe only what is not default.

        >>> ZooSettings(backbone="mlp", shape=(1, 8, 8)).phrases()[:4]
        ['backbone mlp', 'epochs chosen for each episode', 'batch size 16', 'lr 0.01']
        """
        usual = _values(Recipe())
        shown: dict[str, Json] = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name == "recipe":
                shown |= {name: each for name, each in value.items() if name in ALWAYS_SHOWN or each != usual[name]}
            elif setting.name == "features" and value is not None:
                return [f"features of {value['name']} ({value['num_features']}, sha256 {value['sha256'][:12]})"]
            elif not setting.metadata.get("settled"):
                shown[setting.name] = value
        words = {name: OPEN.get(name) if value is None else value for name, value in shown.items()}
        return [_phrase(name, value) for name, value in words.items() if value is not None]

    @property
    def is_settled(self) -> bool:
        return self.shape is not None and self.backbone is not None

    @property
    def lacks_gpu(self) -> bool:
        """Whether the zoo was made to train on a GPU and there is none here."""
        return self.recipe["device"] == "cuda" and not torch.cuda.is_available()

    @property
    def descends(self) -> bool:
        """Whether members start from those before them, so that what changes one changes all later ones."""
        return bool(self.grow != FROM_SCRATCH) and self.features is None

    @property
    def kind(self) -> Literal["images", "features"] | None:
        """What the zoo takes, once known."""
        if self.shape is None:
            return None
        return "images" if len(self.shape) == 3 else "features"

    @property
    def keeps_statistics(self) -> bool:
        """Whether feature statistics of all rows are kept; by default if not all rows are."""
        return self.replay < 1 if self.keep_statistics is None else self.keep_statistics

    @property
    def files(self) -> set[str]:
        """The extractor's file, relative to the folder, if there is one."""
        return {f"extractors/{self.features['sha256']}.onnx"} if self.features and self.features["file"] else set()

    @property
    def takes_texts(self) -> bool:
        return self.features is not None and self.features["size"] is None

    @property
    def stored_shape(self) -> Shape:
        """The shape of a stored row: of the extractor's features, or of an input."""
        return self.shape or () if self.features is None else (int(self.features["num_features"]),)

    @property
    def stored_dtype(self) -> Literal["uint8", "float32", "int16"]:
        return "int16" if self.features else "uint8" if len(self.stored_shape) == 3 else "float32"

    def settle(self, look: Look) -> Self:
        """These settings completed for data that looks like this.

        Images keep their size if it is square and at most 96; otherwise they become 84x84, or 32x32 if they are
        smaller than 84. They are grey if all are.
        """
        if self.is_settled:
            return replace(self, columns=self.columns or look.columns) if look.kind == "texts" else self
        if look.kind == "features":
            shape: Shape = (look.width,)
        else:
            channels = look.channels if self.grey is None else 1 if self.grey else 3
            side = self.side or _side(look)
            shape = (channels, side, side) if look.side is None or self.side else (channels, look.side, look.side)
        backbone = self.backbone or ("small-conv" if look.kind == "images" else "tabular")
        return replace(self, backbone=backbone, shape=shape, columns=look.columns)

    def learner(self, names: Names | None = None, epochs: int | None = None) -> OwnedZoo:
        """The learner with these settings; a zoo made on a GPU works on machines without one.

        `epochs` are those of its next episode, if given.
        """
        known = {setting.name for setting in fields(OwnedZoo) if setting.init}
        plain = {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.name in known}
        device = "auto" if self.lacks_gpu else self.recipe["device"]
        plain["keep_statistics"] = self.keeps_statistics
        plain["recipe"] = {**self.recipe, "epochs": self.recipe["epochs"] or 1, "device": device}
        learner = learner_from(OwnedZoo, plain, names)
        learner.epochs = epochs or self.recipe["epochs"]
        return learner


def givable_settings() -> dict[str, Field[Any]]:
    """The settings of a zoo and of its recipe that can be given, by name; the extractor is given apart."""
    own = [each for each in fields(ZooSettings) if not each.metadata.get("settled") and each.name != "features"]
    return {setting.name: setting for setting in (*own, *OF_RECIPE)}


def takes_settings(function: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Lists the settings of a zoo in the signature of a function with `**settings`, for `help` and editors."""
    written = signature(function)
    *own, _ = written.parameters.values()
    named = [_parameter(setting) for setting in givable_settings().values()]
    function.__signature__ = written.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    return function


def _parameter(setting: Field[Any]) -> Parameter:
    """A setting as a keyword argument; None by default if the data decide it."""
    kinds = {**get_type_hints(ZooSettings), **get_type_hints(Recipe), "recipe": Recipe}
    kind = str | Callable[..., Any] if "choices" in setting.metadata else kinds[setting.name]
    is_open = setting.name in (*OPEN, "recipe")
    default = None if is_open else setting.default
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind | None if is_open else kind)


def _phrase(name: str, value: Json) -> str:
    if isinstance(value, Mapping):
        own = ", ".join(_phrase(each, entry) for each, entry in value.items() if each != "name")
        value = f"{value['name']} ({own})"
    return f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"


def _plain(name: str, value: Any, choices: Mapping[str, Any]) -> Json:
    """A function, or its name, as settings record it."""
    if not isinstance(value, str):
        return plain_choice(value, choices)
    if value not in choices:
        raise SettingsError(unknown_name(name, value, choices))
    return plain_choice(choices[value](), choices) if is_dataclass(choices[value]) else value


def _recipe(recipe: Recipe | None, given: Mapping[str, Any]) -> dict[str, Json]:
    """A recipe as settings record it, with single values replaced; epochs are None unless given."""
    if recipe is not None and not isinstance(recipe, Recipe):
        raise SettingsError(f"recipe is {recipe!r}; it must be a Recipe")
    plain = {**_values(Recipe()), "epochs": None} if recipe is None else _values(recipe)
    plain.update({name: value for name, value in given.items() if value is not None})
    if plain["optimizer"] == "own":
        raise SettingsError("optimizer is 'own'; a zoo keeps no code, so give one by its name: sgd, adam or adamw")
    known = Recipe(**{**plain, "epochs": 1 if plain["epochs"] is None else plain["epochs"]})
    _ = known.torch_device  # raises if there is none
    return plain


def _values(recipe: Recipe) -> dict[str, Json]:
    """The settings of a recipe as plain data; raises on an augmentation function, which a zoo cannot record."""
    if recipe.augment_by is not Recipe().augment_by:
        raise SettingsError(
            f"augment_by is {recipe.augment_by!r}; a zoo varies images by `augment` of learn, leave it out"
        )
    return {setting.name: getattr(recipe, setting.name) for setting in OF_RECIPE}


def _side(look: Look) -> int:
    return 84 if min(look.height, look.width) >= 84 else 32


def find_backbone(name: str, names: Names | None) -> Backbone:
    """A backbone by name, built in or the caller's."""
    known = {**BACKBONES, **(names or {})}
    if name not in known:
        raise SettingsError(unknown_name("backbone", name, known) + "; pass your own as names={name: function}")
    return known[name]


def name_functions(**given: Any) -> dict[str, Callable[..., Any]]:
    """The functions among given settings, under the names that settings record."""
    functions: dict[str, Callable[..., Any]] = {}
    for setting in fields(ZooSettings):
        value = given.get(setting.name)
        if "choices" in setting.metadata and value is not None and not isinstance(value, str):
            function = type(value) if is_dataclass(value) else value
            functions[registered_name(function, setting.metadata["choices"])] = function
    return functions
