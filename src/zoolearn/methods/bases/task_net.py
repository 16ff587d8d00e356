"""The base of methods whose net has parts of its own for every task: gates, maps or corrections.

Modules that differ from task to task derive from `PerTask`. `follow` makes a net tell them the task of a forward pass,
`begin_task` and `end_task` call all of them, so that a method only defines its own module.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.seeds import derive, global_seed

Layer = nn.Linear | nn.Conv2d
LAYERS = (nn.Linear, nn.Conv2d)
Norm = nn.modules.batchnorm._BatchNorm


class PerTask(nn.Module, ABC):
    """A module with state of its own for every task; `task` is the number of the one in use."""

    def __init__(self) -> None:
        super().__init__()
        self.task = 0

    @abstractmethod
    def begin_task(self) -> None:
        """Adds the state of one more task; that of earlier ones gets no more gradients."""

    def end_task(self) -> None:
        """Fixes the state of the newest task, once it is trained."""


Part = TypeVar("Part", bound=PerTask)


def parts(net: nn.Module, kind: type[Part]) -> list[Part]:
    """The modules of one kind in a net, in the order of registration."""
    return [module for module in net.modules() if isinstance(module, kind)]


def _all(net: nn.Module) -> list[PerTask]:
    return [module for module in net.modules() if isinstance(module, PerTask)]


def begin_task(net: Net, task: str) -> None:
    """Calls `begin_task` of every `PerTask` module."""
    with global_seed(derive(net.seed, "task", task), torch.device("cpu")):
        for part in _all(net):
            part.begin_task()


def end_task(net: Net) -> None:
    """Calls `end_task` of every `PerTask` module."""
    for part in _all(net):
        part.end_task()


def follow(net: Net) -> None:
    """Makes every forward pass tell the `PerTask` modules its task first."""
    net.register_forward_pre_hook(_tell)


def _tell(net: nn.Module, arguments: tuple[Any, ...]) -> None:
    _, task = arguments
    net = cast(Net, net)
    net.head(task)  # names a task that is not known
    for part in _all(net):
        part.task = net.head_index[task]


@dataclass(kw_only=True, eq=False)
class TaskNet(SingleNet):
    """One net, converted so that its layers differ from task to task."""

    def __post_init__(self) -> None:
        if self.shared_head:
            method = type(self).__name__.lower()
            raise SettingsError(f"shared_head is True, but {method} keeps a head for every task; leave it False")

    @abstractmethod
    def convert(self, net: Net) -> Net:
        """A plain net with the modules that differ from task to task."""

    def new_net(self, tasks: Iterable[Task], seed: int, backbone: Backbone | None = None) -> Net:
        return self.convert(super().new_net(tasks, seed, backbone))

    def grow_net(self, task: Task) -> Net:
        net = super().grow_net(task)
        begin_task(net, task.name)
        return net

    def rebuild_net(self, spec: Mapping[str, Json], seed: int) -> Net:
        """A converted net with untrained parts for all of its tasks."""
        net = self.convert(super().rebuild_net(spec, seed))
        for task in net.head_index:
            begin_task(net, task)
            end_task(net)
        return net


class TaskNorm(PerTask):
    """Batch-norm with its own scale, shift and statistics for every task."""

    def __init__(self, like: Norm) -> None:
        super().__init__()
        self.kind = type(like)
        self.settings = {name: getattr(like, name) for name in ("num_features", "eps", "momentum", "affine")}
        self.norms = nn.ModuleList()

    def begin_task(self) -> None:
        device = next((parameter.device for parameter in self.parameters()), None)
        self.norms.requires_grad_(False)
        self.norms.append(self.kind(**self.settings).to(device))

    def forward(self, x: Tensor) -> Tensor:
        """The task's own norm; those of other tasks are not updated."""
        return cast(Tensor, self.norms[self.task](x))


class TaskLayer(PerTask):
    """A linear or convolutional layer whose weight is a function of a shared weight and of the task."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.shared = layer.weight
        self.convolution: Any = None  # how the layer strides and pads, if it is a convolution
        if isinstance(layer, nn.Conv2d):
            if layer.padding_mode != "zeros":
                raise SettingsError(f"a convolution pads with {layer.padding_mode!r}; only zeros can be had here")
            self.convolution = (layer.stride, layer.padding, layer.dilation, layer.groups)

    @abstractmethod
    def weight(self) -> Tensor:
        """The weight that the task sees."""

    @abstractmethod
    def bias(self) -> Tensor | None:
        """The bias that the task sees."""

    def forward(self, x: Tensor) -> Tensor:
        if self.convolution is None:
            return F.linear(x, self.weight(), self.bias())
        return F.conv2d(x, self.weight(), self.bias(), *self.convolution)

    def per_output(self, values: Tensor) -> Tensor:
        """One value per output unit (in the last dimension), shaped to multiply weights."""
        return values.reshape(*values.shape, *(1,) * (self.shared.ndim - 1))


def replace_modules(
    module: nn.Module, kind: type[nn.Module] | tuple[type[nn.Module], ...], new: Callable[[Any], nn.Module]
) -> None:
    """Replaces every module of a kind by `new(module)`, at any depth."""
    for name, part in module.named_children():
        if isinstance(part, kind):
            setattr(module, name, new(part))
        else:
            replace_modules(part, kind, new)


def sequence(body: nn.Module) -> list[nn.Module]:
    """The modules that a backbone runs in order, nested sequences included; any other backbone is one."""
    if not isinstance(body, nn.Sequential):
        return [body]
    return [inner for module in body for inner in sequence(module)]


class GradientMask:
    """Scales the gradients of some parameters by fixed factors: 0 protects a weight fully, 1 leaves it free.

    Blocking is exact. A protected weight's gradient is 0 from an episode's first step on, and weight decay is added before
    blocking instead of by the optimiser, so momentum has nothing to build on: a step subtracts 0, and the bits stay.
    Call it in `adjust` of a training whose recipe has no weight decay.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> weight.grad = torch.ones(2)
    >>> GradientMask([(weight, torch.tensor([0.0, 1.0]))], weight_decay=0.5)()
    >>> weight.grad.tolist()
    [0.0, 1.5]
    """

    def __init__(self, factors: Iterable[tuple[Tensor, Tensor]], weight_decay: float = 0.0) -> None:
        self.factors = list(factors)
        self.weight_decay = weight_decay

    @torch.no_grad()
    def __call__(self) -> None:
        """Adds weight decay to the gradients, and scales them."""
        for parameter, factor in self.factors:
            if parameter.grad is not None:
                parameter.grad.add_(parameter, alpha=self.weight_decay).mul_(factor)
