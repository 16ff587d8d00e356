"""The settings of a training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Literal, Self

import torch
from torch import nn
from torch.optim import Optimizer

from zoolearn.data.augment import AUGMENT, Augmentation
from zoolearn.errors import SettingsError
from zoolearn.settings import Pixels, check_settings, setting


def none(parameters: Sequence[nn.Parameter], recipe: "Recipe") -> Optimizer:
    """The default of `optimizer_by`: no function was given."""
    raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a net is trained; the defaults are the paper's.

    >>> Recipe(epochs=1).augments
    False
    """

    epochs: int = setting(200, "passes over the training data", least=1)
    batch_size: int = setting(16, "rows per step", least=1)
    lr: float = setting(0.01, "learning rate at the first step", above=0)
    schedule: Literal["cosine", "constant", "steps", "exponential"] = setting(
        "cosine", "cosine: annealed to 0; steps: a tenth after each step_share; exponential: by epoch_decay"
    )
    epoch_decay: float = setting(0.95, "exponential: its factor after each epoch", omit_default=True, above=0, most=1)
    step_share: float = setting(0.25, "steps: share of a training between two", omit_default=True, above=0, most=1)
    warm_up: float = setting(0.0, "share of the steps in which the rate grows", omit_default=True, least=0, most=1)
    optimizer: Literal["sgd", "adam", "adamw", "own"] = setting("sgd", "own: see optimizer_by", omit_default=True)
    optimizer_by: Callable[..., Any] = setting(none, "your FILE.py:NAME", choices={"none": none}, omit_default=True)
    momentum: float = setting(0.9, "SGD momentum, 0 is plain SGD; Adam: first decay", least=0, below=1)
    nesterov: bool = setting(True, "Nesterov's form of momentum")
    weight_decay: float = setting(1e-5, "pull of all weights towards 0", least=0)
    dropout: float = setting(0.2, "share of units dropped, by backbones that drop units", least=0, below=1)
    augment: Literal["auto", "yes", "no"] = setting("auto", "random crops and flips; auto: with more than one epoch")
    augment_by: Augmentation = setting(
        AUGMENT["task"], "what varies images in their place: your own FILE.py:NAME", choices=AUGMENT, omit_default=True
    )
    label_smoothing: float = setting(0.0, "share of a label given to all classes", omit_default=True, least=0, most=1)
    flip_tta: bool = setting(False, "answer for a colour picture and its mirror image together", omit_default=True)
    pixel_mean: Pixels = setting(0.5, "subtracted from pixels in 0..1: one, or one a channel", metavar="NUMBER...")
    pixel_std: Pixels = setting(0.25, "pixels are then divided by this, or these", metavar="NUMBER...", above=0)
    precision: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto", "arithmetic of the nets; auto: float32 on a CPU, mixed on a GPU"
    )
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "auto: a GPU if there is one")

    def __new__(cls, **settings: Any) -> Self:
        """Raises on unknown settings, and lists those that there are."""
        check_settings(cls, settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if (self.optimizer == "own") != (self.optimizer_by is not none):
            raise SettingsError(f"optimizer is {self.optimizer!r}; 'own' and optimizer_by, what makes it, go together")
        for name in ("pixel_mean", "pixel_std"):
            if isinstance(getattr(self, name), list):  # as records have them
                object.__setattr__(self, name, tuple(getattr(self, name)))

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
        """Pickles the settings without cached properties: another process may have another device."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

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
            return height * 0.1 ** math.floor(step / steps / self.step_share + 1e-9)  # against rounding
        return height * 0.5 * (1 + math.cos(math.pi * step / steps))


@cache
def _sees_gpu() -> bool:
    return torch.cuda.is_available()
