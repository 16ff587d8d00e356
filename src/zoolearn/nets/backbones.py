"""Backbones: functions `(shape, dropout) -> nn.Module` whose module maps a batch of inputs to feature vectors.

`BACKBONES` names ours; any other function of that kind will do.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

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


def identity(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Nothing: heads are linear in the inputs themselves, as is right for pre-trained features."""
    return nn.Flatten()


def mlp(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 256 units; 269,322 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 256, dropout)


def mlp_100(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 100 units; 89,610 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 100, dropout)


def mlp_2000(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 2000 units; 5,592,010 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 2000, dropout)


def _perceptron(shape: Shape, width: int, dropout: float) -> nn.Module:
    size = 1
    for extent in shape:
        size *= extent
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs in (size, width):
        layers += [nn.Linear(inputs, width), nn.ReLU(inplace=True)]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


def tabular(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 256 units over columns of any scale: each net first brings them to mean 0 and deviation 1."""
    columns = 1
    for extent in shape:
        columns *= extent
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(columns, affine=False), _perceptron((columns,), 256, dropout))


def wrn_16_4(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Wide residual network of depth 16 and width 4, pre-activation (Zagoruyko and Komodakis, 2016).

    2,747,605 weights with a 5-way head on colour images; a shortcut is convolved only where the width changes.
    """
    channels, _, _ = image_size(shape, "wrn-16-4")
    layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, padding=1, bias=False)]
    width = 16
    for wider, stride in ((64, 1), (128, 2), (256, 2)):
        layers += [_WideBlock(width, wider, stride, dropout), _WideBlock(wider, wider, 1, dropout)]
        width = wider
    layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(*layers)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


class _WideBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.drop = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        out = F.relu(self.norm2(self.conv1(active)))
        out = self.conv2(self.drop(out))
        return cast(Tensor, out + (x if self.shortcut is None else self.shortcut(active)))


def image_size(shape: Shape, backbone: str) -> tuple[int, int, int]:
    """Channels, height and width of inputs that must be images."""
    if len(shape) != 3:
        raise SettingsError(f"{backbone} takes images, the inputs have shape {shape}; use mlp for features")
    channels, height, width = shape
    return channels, height, width


BACKBONES: Mapping[str, Backbone] = Named(
    {
        "small-conv": "nets.backbones.small_conv",
        "wrn-16-4": "nets.backbones.wrn_16_4",
        "resnet18-s": "nets.published.resnet18_s",
        "resnet18-s-one-conv": "nets.published.resnet18_s_one_conv",
        "alexnet-hat": "nets.published.alexnet_hat",
        "lenet-apd": "nets.published.lenet_apd",
        "identity": "nets.backbones.identity",
        "mlp": "nets.backbones.mlp",
        "mlp-100": "nets.backbones.mlp_100",
        "mlp-2000": "nets.backbones.mlp_2000",
        "mlp-frcl": "nets.published.mlp_frcl",
        "tabular": "nets.backbones.tabular",
    }
)
READOUTS: Mapping[str, Callable[[nn.Sequential, Shape], Any]] = Named({"layers": "nets.readout.LayerFeatures"})


def backbone_name(backbone: Backbone) -> str:
    """The name of a backbone in `BACKBONES`, or of the caller's own function."""
    return registered_name(backbone, BACKBONES)
