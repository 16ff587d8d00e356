"""Networks: a backbone that turns raw inputs into features, and one linear head per task.

A backbone is any function `(shape, dropout) -> nn.Module` whose module maps a batch of inputs to feature vectors;
`BACKBONES` names ours. Scaling of pixels is part of the net, so that serving cannot disagree with training.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.errors import SettingsError, UnknownTask, one_of
from zoolearn.nets_published import alexnet_hat, image_size, lenet_apd, mlp_frcl
from zoolearn.seeds import derive, global_seed

Shape = tuple[int, ...]
Backbone = Callable[[Shape, float], nn.Module]


class Net(nn.Module):
    """`net(x, task) -> logits` for raw inputs: uint8 images or float features.

    >>> net = Net(mlp, (1, 8, 8))
    >>> net.add_head("digits", 10)
    >>> net(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), "digits").shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        backbone: Backbone,
        shape: Shape,
        *,
        dropout: float = 0.0,
        pixel_mean: float = 0.5,
        pixel_std: float = 0.25,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.frozen = False
        self.device = torch.device("cpu")
        self.backbone = backbone
        self.shape = tuple(shape)
        self.dropout = dropout
        self.pixel_mean = pixel_mean
        self.pixel_std = pixel_std
        self.seed = seed
        with global_seed(derive(seed, "body"), torch.device("cpu")):
            self.body = backbone(self.shape, dropout)
        self.features = self._count_features()
        self.heads = nn.ModuleList()
        self.places: dict[str, int] = {}
        self._layout = (
            torch.channels_last
            if any(isinstance(module, nn.Conv2d) for module in self.body.modules())
            else torch.contiguous_format
        )
        self.scaling = (pixel_mean, pixel_std, self._layout)  # nets that have this in common share their scaled inputs
        self._mixtures: dict[tuple[str, ...], tuple[Tensor, Tensor]] = {}
        self.body.to(memory_format=self._layout)  # type: ignore[call-overload]

    def _count_features(self) -> int:
        training = self.body.training
        with torch.no_grad():
            out = self.body.eval()(torch.zeros(1, *self.shape))
        self.body.train(training)
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 1:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise SettingsError(
                f"backbone {backbone_name(self.backbone)!r} gave {got} for a batch of one {self.shape}; "
                "a backbone maps (count, *shape) to (count, features)"
            )
        return int(out.shape[1])

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have a head, in the order they were added."""
        return tuple(self.places)

    @property
    def convolves(self) -> bool:
        """Whether the backbone has convolutions, whose features are many times larger than their inputs."""
        return self._layout == torch.channels_last

    def add_head(self, task: str, classes: int) -> None:
        """Adds an untrained head for a task, its biases zero."""
        with global_seed(derive(self.seed, "head", task), torch.device("cpu")):
            head = nn.Linear(self.features, classes)
        nn.init.zeros_(head.bias)
        self.places[task] = len(self.heads)
        self.heads.append(head.to(self.device))

    def share_head(self, task: str, owner: str) -> None:
        """Lets a task answer through the head of another, as streams with one set of labels do."""
        self.places[task] = self.places[owner]

    def head(self, task: str) -> nn.Linear:
        """The head of a task."""
        if task not in self.places:
            raise UnknownTask(one_of("task", task, self.places))
        return cast(nn.Linear, self.heads[self.places[task]])

    def embed(self, x: Tensor) -> Tensor:
        """The features of raw inputs."""
        return cast(Tensor, self.body(self.scaled(x)))

    def scaled(self, x: Tensor) -> Tensor:
        """Raw inputs as the body takes them: pixels become floats, features (and what is scaled already) stay."""
        if x.dtype != torch.uint8:
            return x
        scale = 1.0 / (255.0 * self.pixel_std)
        layout = self._layout if x.ndim == 4 else torch.preserve_format
        return x.to(torch.float32, memory_format=layout).mul_(scale).sub_(self.pixel_mean / self.pixel_std)

    def forward(self, x: Tensor, task: str) -> Tensor:
        """The logits of one task's classes."""
        return cast(Tensor, self.head(task)(self.embed(x)))

    def mixed(self, x: Tensor, tasks: tuple[str, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits over the classes of all `tasks` where row i belongs to tasks[rows[i]], and each row's first column.

        The backbone sees the batch once. Classes of other tasks are -inf, so a softmax over a row is the softmax of its
        own head. Every head takes part in the graph: one that is absent from the batch has a gradient of zeros, not None.
        """
        closed, first = self._mixture(tasks)
        heads = [self.head(task) for task in tasks]
        weight = torch.cat([head.weight for head in heads])
        bias = torch.cat([head.bias for head in heads])
        logits = F.linear(self.embed(x), weight, bias)
        return logits + closed[rows], first[rows]

    def _mixture(self, tasks: tuple[str, ...]) -> tuple[Tensor, Tensor]:
        device = self.device
        if tasks not in self._mixtures or self._mixtures[tasks][0].device != device:
            sizes = torch.tensor([self.head(task).out_features for task in tasks])
            first = sizes.cumsum(0) - sizes
            owner = torch.repeat_interleave(torch.arange(len(tasks)), sizes)
            closed = torch.where(owner[None, :] == torch.arange(len(tasks))[:, None], 0.0, float("-inf"))
            self._mixtures[tasks] = (closed.to(device), first.to(device))
        return self._mixtures[tasks]

    def trainable(self, tasks: Sequence[str]) -> list[nn.Parameter]:
        """The parameters that training on these tasks may move: the backbone's and those tasks' heads'."""
        heads = [self.heads[place] for place in dict.fromkeys(self.places[task] for task in tasks)]
        parameters = [*self.body.parameters(), *(parameter for head in heads for parameter in head.parameters())]
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `to` and its like go through, on this net or on one that holds it: notes where the weights are now."""
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.device = next((parameter.device for parameter in self.parameters()), self.device)
        return cast(Self, moved)

    def train(self, mode: bool = True) -> Self:
        """Training mode, or with False evaluation mode."""
        self.frozen = self.frozen and not mode
        return super().train(mode)

    def freeze(self) -> "Net":
        """Fixes the net for good: evaluation mode, no gradients."""
        self.eval()
        self.frozen = True
        self.requires_grad_(False)
        return self

    @property
    def weights(self) -> int:
        """How many trained numbers the net holds, heads included, batch-norm statistics not."""
        return sum(parameter.numel() for parameter in self.parameters())

    def spec(self) -> dict[str, Any]:
        """All that is needed, beside the tensors, to build this net again."""
        return {
            "backbone": backbone_name(self.backbone),
            "shape": list(self.shape),
            "dropout": self.dropout,
            "pixel_mean": self.pixel_mean,
            "pixel_std": self.pixel_std,
            "heads": [cast(nn.Linear, head).out_features for head in self.heads],
            "places": dict(self.places),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], backbones: Mapping[str, Backbone] | None = None) -> "Net":
        """The net that a spec describes, untrained; names are looked up in our table and in `backbones`."""
        known = {**BACKBONES, **(backbones or {})}
        if spec["backbone"] not in known:
            raise SettingsError(
                one_of("backbone", spec["backbone"], known) + "; pass your own as backbones={name: function}"
            )
        net = cls(
            known[spec["backbone"]],
            tuple(spec["shape"]),
            dropout=spec["dropout"],
            pixel_mean=spec["pixel_mean"],
            pixel_std=spec["pixel_std"],
        )
        net.heads.extend(nn.Linear(net.features, classes) for classes in spec["heads"])
        net.places = dict(spec["places"])
        return net


def backbone_name(backbone: Backbone) -> str:
    """The name of a backbone in `BACKBONES`, or of the caller's own function."""
    for name, ours in BACKBONES.items():
        if ours is backbone:
            return name
    return getattr(backbone, "__name__", type(backbone).__name__)


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


def resnet18_s(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """The reduced ResNet18 of GEM (Lopez-Paz and Ranzato, 2017): widths 20 to 160, 1,093,140 weights before the heads.

    Averages over 4x4 patches, or over the whole map where that is smaller. It drops no units.
    """
    channels, height, width = image_size(shape, "resnet18-s")
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 20, 3, padding=1, bias=False),
        nn.BatchNorm2d(20),
        nn.ReLU(inplace=True),
    ]
    inputs = 20
    for outputs, stride in ((20, 1), (40, 2), (80, 2), (160, 2)):
        layers += [_BasicBlock(inputs, outputs, stride), _BasicBlock(outputs, outputs, 1)]
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
    channels, height, width = image_size(shape, "resnet18-s-one-conv")
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 20, 3, padding=1, bias=False),
        nn.BatchNorm2d(20),
        nn.ReLU(inplace=True),
    ]
    inputs = 20
    for outputs, stride in ((20, 1), (40, 2), (80, 2), (160, 2)):
        layers += [_OneConvBlock(inputs, outputs, stride, dropout), _OneConvBlock(outputs, outputs, 1, dropout)]
        inputs = outputs
    side = min(-(-height // 8), -(-width // 8))
    layers += [nn.AvgPool2d(4) if side >= 4 else nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


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


BACKBONES: dict[str, Backbone] = {
    "small-conv": small_conv,
    "wrn-16-4": wrn_16_4,
    "resnet18-s": resnet18_s,
    "resnet18-s-one-conv": resnet18_s_one_conv,
    "alexnet-hat": alexnet_hat,
    "lenet-apd": lenet_apd,
    "mlp": mlp,
    "mlp-100": mlp_100,
    "mlp-2000": mlp_2000,
    "mlp-frcl": mlp_frcl,
    "tabular": tabular,
}
