"""Larger backbones of other papers; `BACKBONES` in backbones.py names them with all others."""

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.nets.backbones import Shape, image_size
from zoolearn.nets.perceptrons import mlp


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


def alexnet_hat(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The AlexNet-like net of HAT (Serra et al., 2018): 6,503,872 weights before the heads on 32x32 colour images.

    Convolutions of 64, 128 and 256 channels (4x4, 3x3, 2x2), each pooled by 2, then two layers of 2048 units. `dropout`
    is the share dropped after the first two convolutions; the other layers drop 2.5 times as much, so that 0.2 gives the
    published 0.2 and 0.5. Images under 19 pixels are padded to that.
    """
    channels, height, width = image_size(shape, "alexnet-hat")
    later = min(2.5 * dropout, 0.9)
    rows, columns = max(height, 19), max(width, 19)
    layers: list[nn.Module] = [nn.ZeroPad2d((0, columns - width, 0, rows - height))]
    for outputs, kernel, rate in ((64, 4, dropout), (128, 3, dropout), (256, 2, later)):
        layers += [nn.Conv2d(channels, outputs, kernel), nn.ReLU(inplace=True), nn.Dropout(rate), nn.MaxPool2d(2)]
        channels, rows, columns = outputs, (rows - kernel + 1) // 2, (columns - kernel + 1) // 2
    layers.append(nn.Flatten())
    for inputs in (channels * rows * columns, 2048):
        layers += [nn.Linear(inputs, 2048), nn.ReLU(inplace=True), nn.Dropout(later)]
    return nn.Sequential(*layers)


def lenet_apd(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The LeNet of APD and FedWeIT (Yoon et al., 2020 and 2021): 2,986,500 weights and 1,370 biases at 32x32 in colour.

    Two 5x5 convolutions of 20 and 50 channels, each normalised across 9 neighbouring channels and pooled 3x3 in steps
    of 2, then layers of 800 and 500 units. Images under 4 pixels are padded to that. It drops no units.
    """
    channels, height, width = image_size(shape, "lenet-apd")
    rows, columns = max(height, 4), max(width, 4)
    layers: list[nn.Module] = [nn.ZeroPad2d((0, columns - width, 0, rows - height))]
    for outputs in (20, 50):
        layers += [nn.Conv2d(channels, outputs, 5, padding=2), nn.ReLU(inplace=True)]
        layers += [_NeighbourNorm(outputs), nn.MaxPool2d(3, 2, ceil_mode=True)]
        channels, rows, columns = outputs, rows // 2, columns // 2
    layers.append(nn.Flatten())
    for inputs, outputs in ((channels * rows * columns, 800), (800, 500)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def mlp_frcl(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The net of FRCL (Titsias et al., 2020): 100 hidden units and 100 linear features, which may be negative.

    `dropout` acts on the hidden units.
    """
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(math.prod(shape), 100), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(100, 100))


def mlp_agem(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The net of A-GEM (Chaudhry et al., 2019): two hidden layers of 256 units that begin as in its code.

    Weights are from a normal distribution of deviation 0.1 that is cut off at 0.2, biases 0.1. Heads begin as torch's.
    """
    body = mlp(shape, dropout)
    for layer in body.modules():
        if isinstance(layer, nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
            nn.init.constant_(layer.bias, 0.1)
    return body


class _NeighbourNorm(nn.Module):
    """x / (1 + 0.001/9 * sum of squares over 9 neighbouring channels)^0.75: torch's LocalResponseNorm, in half the time.

    The sum is a 1x1 convolution with a band of ones, and the power two roots.
    """

    band: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        apart = torch.arange(channels)[:, None] - torch.arange(channels)[None, :]
        band = torch.where(apart.abs() <= 4, 0.001 / 9, 0.0)
        self.register_buffer("band", band[:, :, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        root = (F.conv2d(x * x, self.band) + 1).rsqrt()
        return x * (root * root.sqrt())


def resnet18_s(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The reduced ResNet18 of GEM (Lopez-Paz and Ranzato, 2017): widths 20 to 160, 1,093,140 weights before the heads.

    Averages over 4x4 patches, or over the whole map where that is smaller. It drops no units.
    """
    return _reduced_resnet18(shape, "resnet18-s", _BasicBlock)


def _reduced_resnet18(shape: Shape, name: str, block: Callable[[int, int, int], nn.Module]) -> nn.Module:
    """Four stages of two blocks, each made of its inputs, outputs and stride, of widths 20 to 160."""
    channels, height, width = image_size(shape, name)
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 20, 3, padding=1, bias=False),
        nn.BatchNorm2d(20),
        nn.ReLU(inplace=True),
    ]
    inputs = 20
    for outputs, stride in ((20, 1), (40, 2), (80, 2), (160, 2)):
        layers += [block(inputs, outputs, stride), block(outputs, outputs, 1)]
        inputs = outputs
    side = min(-(-height // 8), -(-width // 8))
    layers += [nn.AvgPool2d(4) if side >= 4 else nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


class _BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        changes = stride != 1 or inputs != outputs
        self.shortcut = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            if changes
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


def resnet18_s_one_conv(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """ResNet18-S with one 3x3 convolution per block, as Stable-SGD and TAG run it: 480,580 weights before the heads.

    Activation comes before batch-norm, and units are dropped after each batch-norm of a block. The second convolution
    that the published blocks hold but never execute is left out; it counts among their weights, not in their answers.
    """
    return _reduced_resnet18(shape, "resnet18-s-one-conv", partial(_OneConvBlock, dropout=dropout))


class _OneConvBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.drop = nn.Dropout(dropout)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = self.drop(self.norm1(F.relu(self.conv(x))))
        return cast(Tensor, self.drop(self.norm2(F.relu(out + self.shortcut(x)))))
