"""Backbones: functions `(shape, dropout) -> nn.Module` whose module maps a batch of inputs to feature vectors.

The paper's is here; `BACKBONES` names all of ours, and any other function of that kind will do.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from zoolearn.errors import SettingsError
from zoolearn.names import Named, registered_name

Shape = tuple[int, ...]
Backbone = Callable[[Shape, float], nn.Module]


def small_conv(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The paper's small network: three 3x3 convolutions of 80 channels, 119,445 weights with a 5-way head at 32x32.

    Pools by 2 (by 3 from 64 pixels on). Images under 22 pixels are padded so that three poolings fit. It drops no units,
    as published. Pooling comes before ReLU: the two commute, and a quarter of the memory is touched.
    """
    channels, height, width = image_size(shape, "small-conv")
    side = min(height, width)
    pool = 3 if side >= 64 else 2
    padding = 0 if side >= 22 else 1
    layers: list[nn.Module] = []
    for block in range(3):
        layers.append(nn.Conv2d(channels if block == 0 else 80, 80, 3, padding=padding, bias=block > 0))
        if block > 0:
            layers.append(nn.BatchNorm2d(80))
        side = side + 2 * padding - 2
        if side >= pool:
            layers.append(nn.MaxPool2d(pool))
            side //= pool
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers, nn.Flatten())


def image_size(shape: Shape, backbone: str) -> tuple[int, int, int]:
    """Channels, height and width of inputs that must be images."""
    if len(shape) != 3:
        raise SettingsError(f"{backbone} takes images, the inputs have shape {shape}; use mlp for features")
    channels, height, width = shape
    return channels, height, width


BACKBONES: Mapping[str, Backbone] = Named(
    {
        "small-conv": "nets.backbones.small_conv",
        "wrn-16-4": "nets.published.wrn_16_4",
        "resnet18-s": "nets.published.resnet18_s",
        "resnet18-s-one-conv": "nets.published.resnet18_s_one_conv",
        "alexnet-hat": "nets.published.alexnet_hat",
        "lenet-apd": "nets.published.lenet_apd",
        "identity": "nets.perceptrons.identity",
        "mlp": "nets.perceptrons.mlp",
        "mlp-100": "nets.perceptrons.mlp_100",
        "mlp-2000": "nets.perceptrons.mlp_2000",
        "mlp-agem": "nets.published.mlp_agem",
        "mlp-frcl": "nets.published.mlp_frcl",
        "tabular": "nets.perceptrons.tabular",
    }
)
READOUTS: Mapping[str, Callable[[nn.Sequential, Shape], Any]] = Named({"layers": "nets.readout.LayerFeatures"})


def backbone_name(backbone: Backbone) -> str:
    """The name of a backbone in `BACKBONES`, or of the caller's own function."""
    return registered_name(backbone, BACKBONES)
