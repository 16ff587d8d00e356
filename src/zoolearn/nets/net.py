"""A network: a backbone that turns raw inputs into features, and one linear head per task.

Input scaling is part of the net, so that serving cannot disagree with training: pixels are scaled alike for all tasks, float
features, if `standardize`, by the statistics of each task. Test-time flips are part of it too.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import local
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import STEP
from zoolearn.errors import SettingsError, UnknownTask, unknown_name
from zoolearn.nets.backbones import BACKBONES, READOUTS, Backbone, Shape, backbone_name
from zoolearn.seeds import derive, global_seed

Pixels = float | Sequence[float]  # of all pixels, or of each channel
SETTINGS = ("dropout", "pixel_mean", "pixel_std", "flip_tta", "standardize")  # of a net, beside its shape and backbone


class Passed(local):
    """Rows passed through nets in this thread: `trained` on, or `asked` about in evaluation mode."""

    def __init__(self) -> None:
        self.rows = Counter[str]()


passed = Passed()


def flip_is_safe(shape: Shape) -> bool:
    """Whether a mirror image keeps its class: assumed of colour pictures, not of grey ones, which may be writing or scans."""
    return len(shape) == 3 and shape[0] == 3


class Standardize(nn.Module):
    """Standardises the features of one task by the mean and deviation of some rows; the identity without any."""

    def __init__(self, count: int, rows: Tensor | None = None) -> None:
        super().__init__()
        mean, deviation = (torch.zeros(count), torch.ones(count)) if rows is None else _scale(rows)
        self.mean, self.deviation = nn.Buffer(mean), nn.Buffer(deviation)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


def _scale(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of columns, block by block (rows may be memory-mapped); a constant column has deviation 1."""
    blocks = torch.split(rows, max(1, (1 << 21) // rows.shape[1]))  # some megabytes each
    mean = torch.stack([block.double().sum(dim=0) for block in blocks]).sum(dim=0) / len(rows)
    squares = torch.stack([(block.double() - mean).square().sum(dim=0) for block in blocks]).sum(dim=0)
    deviation = (squares / len(rows)).sqrt()
    is_flat = deviation <= torch.finfo(torch.float32).eps * mean.abs()  # all that float32 can tell
    return mean.float(), deviation.masked_fill(is_flat, 1.0).float()


def _by_channel(name: str, value: Pixels, shape: Shape) -> Tensor:
    """One number for all pixels, or one for each channel of images."""
    numbers = torch.tensor(value, dtype=torch.float64, device="cpu")  # arithmetic on "meta" loads half of torch
    if numbers.ndim and (len(shape) != 3 or len(numbers) != shape[0]):
        wanted = f"one number, or {shape[0]}, one a channel" if len(shape) == 3 else "one number"
        raise SettingsError(f"{name} is {numbers.tolist()}, but inputs have shape {tuple(shape)}; give {wanted}")
    return numbers.reshape(-1, 1, 1) if numbers.ndim else numbers


class Net(nn.Module):
    """`net(x, task) -> logits` for raw inputs: images or float features.

    >>> from zoolearn.nets.perceptrons import mlp
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
        pixel_mean: Pixels = 0.5,
        pixel_std: Pixels = 0.25,
        flip_tta: bool = False,
        standardize: bool = False,
        seed: int = 0,
        features: int | None = None,
    ) -> None:
        super().__init__()
        self.frozen = False
        self.mixes_rows = False  # True: answers depend on the rows beside, by batch-norm without statistics
        self.device = torch.device("cpu")
        self.backbone_fn = backbone
        self.shape = tuple(shape)
        self.dropout = dropout
        self.pixel_mean, self.pixel_std = pixel_mean, pixel_std
        mean, std = _by_channel("pixel_mean", pixel_mean, shape), _by_channel("pixel_std", pixel_std, shape)
        self.pixel_scale = nn.Buffer((1.0 / (255.0 * std)).float(), persistent=False)
        self.pixel_shift = nn.Buffer((mean / std).float(), persistent=False)
        self.flip_tta = flip_tta
        self.seed = seed
        with global_seed(derive(seed, "body"), torch.device("cpu")):
            self.backbone = backbone(self.shape, dropout)
        self.features = self._count_features() if features is None else features
        self.blocks: tuple[int, ...] = ()  # feature columns of each layer, the last layer's first, after `read_layers`
        self.heads = nn.ModuleList()
        self.standardize = standardize
        self.columns = nn.ModuleList()  # one for each head, if `standardize`
        self.head_index: dict[str, int] = {}
        convolves = any(isinstance(module, nn.Conv2d) for module in self.backbone.modules())
        self._layout = torch.channels_last if convolves else torch.contiguous_format
        self.scaling = (str(pixel_mean), str(pixel_std), self._layout)  # nets with equal scaling share scaled inputs
        self._mixtures: dict[tuple[str, ...], tuple[Tensor, Tensor]] = {}
        self.backbone.to(memory_format=self._layout)  # type: ignore[call-overload]

    def _count_features(self) -> int:
        training = self.backbone.training
        with torch.no_grad():
            out = self.backbone.eval()(torch.zeros(1, *self.shape))
        self.backbone.train(training)
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 1:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise SettingsError(
                f"backbone {backbone_name(self.backbone_fn)!r} gave {got} for a batch of one {self.shape}; "
                "a backbone maps (count, *shape) to (count, features)"
            )
        return int(out.shape[1])

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have a head, in the order they were added."""
        return tuple(self.head_index)

    @property
    def flips(self) -> bool:
        """Whether features are averaged over mirror images in evaluation mode."""
        return self.flip_tta and flip_is_safe(self.shape)

    def with_flips(self, flips: bool) -> "Net":
        """This net, sharing its weights, with test-time flips on or off."""
        if flips == self.flip_tta:
            return self
        other = copy(self)
        other.flip_tta = flips
        return other

    @property
    def convolves(self) -> bool:
        """Whether the backbone has convolutions, whose features are many times larger than their inputs."""
        return self._layout == torch.channels_last

    def add_head(self, task: str, classes: int, rows: Tensor | None = None) -> None:
        """Adds an untrained head for a task, with zero biases; if `standardize`, by the statistics of `rows`."""
        with global_seed(derive(self.seed, "head", task), torch.device("cpu")):
            head = nn.Linear(self.features, classes)
        nn.init.zeros_(head.bias)
        self._widen(head)
        self.head_index[task] = len(self.heads)
        self.heads.append(head.to(self.device))
        if self.standardize:
            self.columns.append(Standardize(self.shape[0], rows).to(self.device))

    def widen_head(self, task: str, classes: int) -> None:
        """Widens the head of a task to more classes: the known ones keep their weights, new ones are untrained."""
        before, place = self.head(task), self.head_index[task]
        with global_seed(derive(self.seed, "head", task, classes), torch.device("cpu")):
            head = nn.Linear(before.in_features, classes)
        nn.init.zeros_(head.bias)
        with torch.no_grad():
            head.weight[: before.out_features] = before.weight
            head.bias[: before.out_features] = before.bias
        self.heads[place] = head.to(self.device)
        self._mixtures.clear()  # they depend on the widths of heads

    def read_layers(self) -> None:
        """Lets heads read inner layers too in evaluation mode, if the backbone is sequential; training uses the last one."""
        if isinstance(self.backbone, nn.Sequential):
            readout = READOUTS["layers"](self.backbone, self.shape)
            self.backbone, self.blocks = readout, readout.blocks
            for head in self.heads:
                self._widen(cast(nn.Linear, head))

    def _widen(self, head: nn.Linear) -> None:
        if more := sum(self.blocks[1:]):
            head.weight = nn.Parameter(F.pad(head.weight.detach(), (0, more)))
            head.in_features += more

    def share_head(self, task: str, owner: str) -> None:
        """Lets a task use the head of another, for streams whose tasks have the same labels."""
        self.head_index[task] = self.head_index[owner]

    def head(self, task: str) -> nn.Linear:
        if task not in self.head_index:
            raise UnknownTask(unknown_name("task", task, self.head_index))
        return cast(nn.Linear, self.heads[self.head_index[task]])

    def embed(self, x: Tensor) -> Tensor:
        """The features of raw inputs; in evaluation mode, if `flips`, averaged with those of their mirror images."""
        inputs = self.normalize(x)
        features = cast(Tensor, self.backbone(inputs))
        looks = 1 if self.training or not self.flips else 2
        self.count(looks * len(x))
        if looks == 1:
            return features
        return (features + cast(Tensor, self.backbone(inputs.flip(-1)))) / 2

    def count(self, rows: int) -> None:
        """Counts rows passed through the net."""
        if not torch.compiler.is_compiling():  # while it is traced for export, no rows pass
            passed.rows["trained" if self.training else "asked"] += rows

    def normalize(self, x: Tensor) -> Tensor:
        """Raw inputs as the backbone takes them: uint8 pixels and int16 steps become floats, floats stay as they are."""
        if x.dtype == torch.int16:
            return x.to(torch.float32) * STEP
        if x.dtype != torch.uint8:
            return x
        layout = self._layout if x.ndim == 4 else torch.preserve_format
        return x.to(torch.float32, memory_format=layout).mul_(self.pixel_scale).sub_(self.pixel_shift)

    def scale_features(self, x: Tensor, task: str) -> Tensor:
        """Features of one task, standardised; other inputs unchanged."""
        return cast(Tensor, self.columns[self.head_index[task]](x.to(self.device))) if self.standardize else x

    def scale_features_mixed(self, x: Tensor, tasks: tuple[str, ...], rows: Tensor) -> Tensor:
        """`scale_features` of inputs of several tasks; row i belongs to tasks[rows[i]]."""
        if not self.standardize:
            return x
        columns = [cast(Standardize, self.columns[self.head_index[task]]) for task in tasks]
        mean, deviation = (torch.stack([getattr(part, name) for part in columns]) for name in ("mean", "deviation"))
        return (x - mean[rows]) / deviation[rows]

    def forward(self, x: Tensor, task: str) -> Tensor:
        head, features = self.head(task), self.embed(self.scale_features(x, task))
        if self.training:
            return F.linear(features, head.weight[:, : self.features], head.bias)
        if not torch.is_autocast_enabled(features.device.type):
            return cast(Tensor, head(features))
        with torch.autocast(features.device.type, enabled=False):  # logits may be small differences of large sums
            return cast(Tensor, head(features.float()))

    def forward_mixed(self, x: Tensor, tasks: tuple[str, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits over the classes of all `tasks` where row i belongs to tasks[rows[i]], and each row's first column.

        The backbone sees the batch once. Classes of other tasks are -inf, so a softmax over a row is the softmax of its
        own head. Every head takes part in the graph: one that is absent from the batch has a gradient of zeros, not None.
        """
        closed, first = self._mixture(tasks)
        heads = [self.head(task) for task in tasks]
        weight = torch.cat([head.weight for head in heads])
        bias = torch.cat([head.bias for head in heads])
        features = self.embed(self.scale_features_mixed(x, tasks, rows))
        logits = F.linear(features, weight[:, : features.shape[1]], bias)
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
        """The parameters that training on these tasks may change: the backbone's and those of their heads."""
        heads = [self.heads[place] for place in dict.fromkeys(self.head_index[task] for task in tasks)]
        parameters = [*self.backbone.parameters(), *(parameter for head in heads for parameter in head.parameters())]
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Keeps `device` up to date: `to` and the like pass through here, also from a parent module."""
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.device = next((parameter.device for parameter in self.parameters()), self.device)
        return cast(Self, moved)

    def train(self, mode: bool = True) -> Self:
        self.frozen = self.frozen and not mode
        return super().train(mode)

    def freeze(self) -> "Net":
        """Fixes the net permanently: evaluation mode, no gradients."""
        self.eval()
        self.frozen = True
        self.requires_grad_(False)
        return self

    @property
    def num_parameters(self) -> int:
        """The number of parameters, heads included, batch-norm statistics not."""
        return sum(parameter.numel() for parameter in self.parameters())

    def spec(self) -> dict[str, Any]:
        """All that is needed, beside the tensors, to build this net again."""
        return {
            "backbone": backbone_name(self.backbone_fn),
            "shape": list(self.shape),
            **{name: getattr(self, name) for name in SETTINGS},
            "heads": [cast(nn.Linear, head).out_features for head in self.heads],
            "head_index": dict(self.head_index),
            "layers": bool(self.blocks),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], backbones: Mapping[str, Backbone] | None = None) -> "Net":
        """The net that a spec describes, untrained; names are looked up in our table and in `backbones`."""
        known = {**BACKBONES, **(backbones or {})}
        if spec["backbone"] not in known:
            raise SettingsError(
                unknown_name("backbone", spec["backbone"], known) + "; pass your own as backbones={name: function}"
            )
        settings = {name: spec[name] for name in SETTINGS}
        net = cls(known[spec["backbone"]], tuple(spec["shape"]), **settings, features=spec.get("features"))
        net.heads.extend(nn.Linear(net.features, classes) for classes in spec["heads"])
        net.columns.extend(Standardize(net.shape[0]) for _ in spec["heads"] if net.standardize)
        net.head_index = dict(spec["head_index"])
        if spec["layers"]:
            net.read_layers()
        return net
