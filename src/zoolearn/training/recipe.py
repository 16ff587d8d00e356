"""How a net is trained: the settings of every training."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from numbers import Integral, Real
from typing import Any, Literal, Self, get_args, get_origin

import torch
from torch import nn
from torch.optim import Optimizer

from zoolearn.data.augment import AUGMENT, Augmentation
from zoolearn.errors import SettingsError, unknown_name

Pixels = float | tuple[float, ...]  # of all pixels, or of each channel
KINDS: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
}


def none(parameters: Sequence[nn.Parameter], recipe: "Recipe") -> Optimizer:
    """Stands where nobody gave a function that makes an optimizer of torch."""
    raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a net is trained; the defaults are the paper's.

    >>> Recipe(epochs=1).augments
    False
    """

    epochs: int = field(default=200, metadata={"help": "passes over the training data"})
    batch_size: int = field(default=16, metadata={"help": "rows per step"})
    lr: float = field(default=0.01, metadata={"help": "learning rate at the first step"})
    schedule: Literal["cosine", "constant", "steps", "exponential"] = field(
        default="cosine",
        metadata={"help": "cosine: annealed to 0; steps: a tenth after each step_share; exponential: by epoch_decay"},
    )
    epoch_decay: float = field(default=0.95, metadata={"help": "exponential: factor after each epoch", "later": True})
    step_share: float = field(default=0.25, metadata={"help": "steps: share of a training between two", "later": True})
    warm_up: float = field(
        default=0.0,
        metadata={"help": "share of the steps in which the learning rate grows to its height", "later": True},
    )
    optimizer: Literal["sgd", "adam", "adamw", "own"] = field(
        default="sgd", metadata={"help": "what takes the steps; own: what optimizer_by makes", "later": True}
    )
    optimizer_by: Callable[..., Any] = field(
        default=none, metadata={"help": "makes your own: FILE.py:NAME", "choices": {"none": none}, "later": True}
    )
    momentum: float = field(default=0.9, metadata={"help": "SGD momentum, 0 is plain SGD; Adam: first decay"})
    nesterov: bool = field(default=True, metadata={"help": "Nesterov's form of momentum"})
    weight_decay: float = field(default=1e-5, metadata={"help": "pull of all weights towards 0"})
    dropout: float = field(default=0.2, metadata={"help": "share of units dropped, by backbones that drop units"})
    augment: Literal["auto", "yes", "no"] = field(
        default="auto", metadata={"help": "random crops and flips; auto: only with more than one epoch"}
    )
    augment_by: Augmentation = field(
        default=AUGMENT["task"],
        metadata={"help": "what varies images instead: your own FILE.py:NAME", "choices": AUGMENT, "later": True},
    )
    label_smoothing: float = field(default=0.0, metadata={"help": "share of labels spread over classes", "later": True})
    flip_tta: bool = field(
        default=False, metadata={"help": "answer for a colour picture and its mirror image together", "later": True}
    )
    pixel_mean: Pixels = field(
        default=0.5, metadata={"help": "subtracted from pixels in 0..1, one or one a channel", "metavar": "NUMBER..."}
    )
    pixel_std: Pixels = field(
        default=0.25, metadata={"help": "pixels are then divided by this, or these", "metavar": "NUMBER..."}
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto", metadata={"help": "arithmetic of the nets; auto: float32 on a CPU, mixed on a GPU"}
    )
    device: Literal["auto", "cpu", "cuda"] = field(default="auto", metadata={"help": "auto: a GPU if there is one"})

    def __new__(cls, **settings: Any) -> Self:
        """Refuses settings that it does not have, and lists those that it has."""
        check_types(cls, settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        _require("epochs", self.epochs, self.epochs >= 1, "at least 1")
        _require("batch_size", self.batch_size, self.batch_size >= 1, "at least 1")
        _require("lr", self.lr, math.isfinite(self.lr) and self.lr > 0, "above 0")
        _require("warm_up", self.warm_up, 0 <= self.warm_up <= 1, "from 0 to 1")
        _require("step_share", self.step_share, 0 < self.step_share <= 1, "above 0, up to 1")
        _require("epoch_decay", self.epoch_decay, 0 < self.epoch_decay <= 1, "above 0, up to 1")
        _require("momentum", self.momentum, 0 <= self.momentum < 1, "from 0 to below 1")
        _require("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "0 or more")
        _require("dropout", self.dropout, 0 <= self.dropout < 1, "from 0 to below 1")
        _require("label_smoothing", self.label_smoothing, 0 <= self.label_smoothing <= 1, "from 0 to 1")
        if (self.optimizer == "own") != (self.optimizer_by is not none):
            raise SettingsError(f"optimizer is {self.optimizer!r}; 'own' and optimizer_by, what makes it, go together")
        for name in ("pixel_mean", "pixel_std"):
            if isinstance(getattr(self, name), list):  # as records have them
                object.__setattr__(self, name, tuple(getattr(self, name)))
        _require("pixel_mean", self.pixel_mean, all(map(math.isfinite, _all(self.pixel_mean))), "finite")
        _require("pixel_std", self.pixel_std, all(0 < value < math.inf for value in _all(self.pixel_std)), "above 0")

    @property
    def augments(self) -> bool:
        return self.augment == "yes" or (self.augment == "auto" and self.epochs > 1)

    @cached_property
    def torch_device(self) -> torch.device:
        if self.device == "cuda" and not _sees_gpu():
            raise SettingsError("device is 'cuda' but torch sees no GPU; use 'auto' or 'cpu'")
        if self.device == "cpu" or not _sees_gpu():
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())  # with its number, as tensors there report it

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: another process may have another device."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    @cached_property
    def autocast_dtype(self) -> torch.dtype | None:
        """The type of mixed-precision arithmetic, None for plain float32."""
        if self.precision == "auto":
            return torch.float16 if self.torch_device.type == "cuda" else None
        return {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of `steps` in all."""
        height = self.lr * min(1.0, (step + 1) / (self.warm_up * steps)) if self.warm_up else self.lr
        if self.schedule == "constant":
            return height
        if self.schedule == "exponential":
            return height * self.epoch_decay ** math.floor(step / steps * self.epochs + 1e-9)
        if self.schedule == "steps":
            return height * 0.1 ** math.floor(step / steps / self.step_share + 1e-9)  # whole numbers may be just missed
        return height * 0.5 * (1 + math.cos(math.pi * step / steps))


@cache
def _sees_gpu() -> bool:
    return torch.cuda.is_available()


def check_types(cls: type, settings: Mapping[str, Any]) -> None:
    """Refuses values that are not of their field's kind: words that are no choice, strings for numbers, names for functions.

    >>> check_types(Recipe, {"schedule": "cosin"})
    Traceback (most recent call last):
    zoolearn.errors.SettingsError: unknown schedule 'cosin'; did you mean 'cosine'? (one of: constant, cosine, exponential, steps)
    """
    known = {setting.name: setting for setting in fields(cls) if setting.init}
    for name, value in settings.items():
        if name not in known:
            raise SettingsError(unknown_name(f"setting of {cls.__name__}", name, known))
        setting = known[name]
        if get_origin(setting.type) is Literal:
            if value not in get_args(setting.type):
                raise SettingsError(unknown_name(setting.name, str(value), get_args(setting.type)))
        elif setting.type in KINDS:
            kind, wanted = KINDS[setting.type]
            holds = isinstance(value, kind) and (setting.type is bool or not isinstance(value, bool))
            _require(setting.name, repr(value), holds, wanted)
        elif setting.type == Pixels:
            numbers = _all(value)
            holds = bool(numbers) and all(isinstance(each, Real) and not isinstance(each, bool) for each in numbers)
            _require(setting.name, repr(value), holds, "a number, or one for each channel")
        elif "choices" in setting.metadata:
            is_settings = isinstance(value, type) and is_dataclass(value)
            function = setting.metadata["choices"].get(value) if isinstance(value, str) else None
            wanted = "a function" if function is None else f"the function {function.__module__}.{function.__name__}"
            _require(setting.name, repr(value), callable(value) and not is_settings, wanted)
        elif setting.type is Recipe:
            _require(setting.name, repr(value), isinstance(value, Recipe), "a Recipe")


def _all(value: Any) -> Sequence[float]:
    return value if isinstance(value, Sequence) else (value,)


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise SettingsError(f"{name} is {value}; it must be {wanted}")
