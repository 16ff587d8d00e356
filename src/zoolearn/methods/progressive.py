"""Progressive Nets: a column per task with lateral connections from the frozen columns before it (Rusu et al., 2016)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.methods.bases.task_net import Norm, sequence
from zoolearn.methods.learner import Episode, Learner
from zoolearn.methods.state import saved
from zoolearn.nets.backbones import Backbone, Shape, backbone_name
from zoolearn.nets.net import Net, passed
from zoolearn.settings import setting
from zoolearn.training.fit import OPTIMIZERS, Work


@dataclass(frozen=True)
class Site:
    """A layer with lateral connections from older columns: the layer, the shapes that go in and come out, whether it is the first."""

    layer: nn.Module
    inputs: torch.Size
    outputs: torch.Size
    is_first: bool

    def like(self, width: int) -> nn.Module:
        """A layer as this one, without a bias, for inputs of another width; for a residual block, a 1x1 convolution."""
        layer, outputs = self.layer, self.outputs[1]
        if isinstance(layer, nn.Conv2d):
            where = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            return nn.Conv2d(width, outputs, *where, bias=False)  # type: ignore[arg-type]
        if len(self.inputs) == 2:
            return nn.Linear(width, outputs, bias=False)
        strides = [-(-before // after) for before, after in zip(self.inputs[2:], self.outputs[2:], strict=False)]
        return nn.Conv2d(width, outputs, 1, (strides[0], strides[-1]) if strides else 1, bias=False)


class LinearLateral(nn.Module):
    """One layer on the inputs of all older columns together, which is one layer for each."""

    def __init__(self, site: Site, columns: int) -> None:
        super().__init__()
        self.join = site.like(columns * site.inputs[1])

    def forward(self, older: Sequence[Tensor]) -> Tensor:
        return cast(Tensor, self.join(torch.cat([*older], dim=1)))


class AdapterLateral(nn.Module):
    """Older inputs, each scaled, brought to the width of one column, through a ReLU and a layer."""

    def __init__(self, site: Site, columns: int) -> None:
        super().__init__()
        width = site.inputs[1]
        self.scales = nn.Parameter(torch.ones(columns))
        self.narrow: nn.Module = nn.Linear(columns * width, width)
        if len(site.inputs) == 4:
            self.narrow = nn.Conv2d(columns * width, width, 1)
        self.join = site.like(width)

    def forward(self, older: Sequence[Tensor]) -> Tensor:
        scaled = [scale * inputs for scale, inputs in zip(self.scales, older, strict=True)]
        return cast(Tensor, self.join(F.relu(self.narrow(torch.cat(scaled, dim=1)))))


Lateral = Callable[[Site, int], nn.Module | None]


def linear(site: Site, columns: int) -> nn.Module | None:
    """A layer for each older column, at every layer."""
    return LinearLateral(site, columns)


def adapter(site: Site, columns: int) -> nn.Module | None:
    """A small net with one hidden layer, from the second layer on."""
    return None if site.is_first else AdapterLateral(site, columns)


LATERALS: dict[str, Lateral] = {"linear": linear, "adapter": adapter}


@dataclass(kw_only=True, eq=False)
class Progressive(Learner):
    """Trains a new net (a column) for every task, fed at every layer by the frozen columns of all past tasks.

    "Progressive Neural Networks" (Rusu et al., 2016), equations 1 and 2. Layer i of column k computes
    act(W_i h_(i-1) + lateral of what the same layer of every older column takes in). With `lateral=linear` (as in the
    code of A-GEM) the lateral is a layer like W_i for each older column, at the first layer too; with `adapter` (the
    paper) the older inputs are scaled by a learned number each, brought to the width of one column, passed through a
    ReLU and then through a layer like W_i, from the second layer on. A head is linear in the features of its own and of
    all older columns. Older columns answer as when they were trained: frozen, with their own laterals, batch-norm
    statistics fixed, no units dropped, and outside the optimiser, whatever momentum or weight decay it has; so past
    tasks are never forgotten, to the last bit.

    Backbones: all that are a sequence of layers and blocks, thus all of ours. A residual block counts as one layer; its
    lateral is a 1x1 convolution in the block's stride and comes in with the shortcut.

    `num_parameters` counts every column with its laterals, which grow with the square of the number of tasks. Nothing is kept
    of the data. An episode trains, saves and evaluates its own column only.

    Where we differ: (1) all columns have the backbone's full width, as in A-GEM (HAT's comparison divides it by the
    number of tasks); (2) laterals have no biases, the layer's own is enough, and start so small that all older columns
    together weigh as much as one; (3) in a ResNet every block has a lateral, A-GEM has one per stage of two; (4) the
    adapter's scales start at 1, and heads are linear in all features where the paper has one more, linear, adapter.
    """

    grows = True
    smooths_labels = True
    optimizers = tuple(OPTIMIZERS)

    lateral: Lateral = setting(linear, "lateral connections of a layer from older columns", choices=LATERALS)

    columns: list[Net] = saved(default_factory=list)  # one per task, fixed after its episode

    def _train(self, task: Task) -> Work[Episode]:
        seed = self.episode_seed()
        self._bring(torch.device("cpu"))  # where a new column, which reads them, is built
        net = self.new_net([task], seed)
        self._bring(self.recipe.torch_device)
        loss = yield from self.fit(net, [task])
        self.columns.append(net.freeze())
        return Episode((task.name,), None, loss)

    def new_net(self, tasks: Iterable[Task], seed: int, backbone: Backbone | None = None) -> Net:
        rows = passed.rows.copy()
        net = super().new_net(tasks, seed, backbone or self._after(self.columns))
        passed.rows = rows  # a look at the shapes is no cost
        return net

    def _after(self, columns: Sequence[Net]) -> Backbone:
        """The backbone of a column after these."""
        older = [cast(Column, net.backbone) for net in columns]

        def backbone(shape: Shape, dropout: float) -> nn.Module:
            return Column(self.backbone(shape, dropout), shape, older, self.lateral, backbone_name(self.backbone))

        backbone.__name__ = backbone_name(self.backbone)  # by which the column's files know it
        return backbone

    def rebuild_net(self, spec: Mapping[str, Json], seed: int) -> Net:
        """A column after those that were restored before it."""
        return Net.from_spec(spec, {spec["backbone"]: self._after(self.columns)})

    def _bring(self, device: torch.device) -> None:
        """Brings all columns to a device; a column moves with none but its own weights."""
        for net in self.columns:
            if net.device != device:
                net.to(device)

    def voters(self, task: str) -> list[tuple[Net, float]]:
        self._bring(self.recipe.torch_device)
        return [(self.columns[list(self.classes).index(task)], 1.0)]

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of the newest task; answers to the others cannot change."""
        newest = next(reversed(self.classes))
        return super().evaluate([task for task in tasks if task.name == newest])

    @property
    def stored_samples(self) -> int:
        return 0

    @property
    def num_parameters(self) -> int:
        return sum(net.num_parameters for net in self.columns)


@dataclass
class Trace:
    """What went into each layer of a column, and what came out at the end."""

    inputs: list[Tensor]
    features: Tensor


class Column(nn.Module):
    """A backbone whose layers have lateral connections from older columns; its features are followed by theirs.

    Older columns are no part of this module: they are not saved, trained or switched to training mode with it.
    """

    def __init__(
        self, body: nn.Module, shape: Shape, older: Sequence["Column"], lateral: Lateral, backbone: str
    ) -> None:
        super().__init__()
        self.stages = nn.Sequential(*sequence(body))
        self.older = tuple(older)
        self.laterals = nn.ModuleDict()
        for place, site in enumerate(_sites(self.stages, shape, backbone)):
            added = lateral(site, len(older)) if older else None
            if added is not None:
                self.laterals[str(place)] = added
                _open_shortcut(site.layer)

    def forward(self, x: Tensor) -> Tensor:
        """The features of this column and of all older ones, finished nets that are shown the rows in training too."""
        older_traces: list[Trace] = []
        with torch.no_grad():
            for column in self.older:
                passed.rows["asked"] += len(x)
                older_traces.append(column.trace_through(x, older_traces))
        own = self.trace_through(x, older_traces)
        return torch.cat([own.features, *(trace.features for trace in older_traces)], dim=1)

    def trace_through(self, x: Tensor, older_traces: Sequence[Trace]) -> Trace:
        """This column's own way through its layers, given those of the older ones."""
        inputs: list[Tensor] = []
        for stage in self.stages:
            if _is_layer(stage):
                place = len(inputs)
                inputs.append(x)
                if str(place) in self.laterals:
                    extra = self.laterals[str(place)]([trace.inputs[place] for trace in older_traces])
                    x = _join(stage, x, extra)
                    continue
            x = stage(x)
        return Trace(inputs, x)


class Shortcut(nn.Module):
    """A residual block's shortcut, to which what older columns say is added, before the block's last activation."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own
        self.extra: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        out = cast(Tensor, self.own(x))
        return out if self.extra is None else out + self.extra


def _is_layer(stage: nn.Module) -> bool:
    return not isinstance(stage, Norm) and any(True for _ in stage.parameters())


def _open_shortcut(layer: nn.Module) -> None:
    shortcut = getattr(layer, "shortcut", None)
    if isinstance(shortcut, nn.Module):
        layer.shortcut = Shortcut(shortcut)


def _join(layer: nn.Module, x: Tensor, extra: Tensor) -> Tensor:
    """The layer's output with what older columns say."""
    shortcut = getattr(layer, "shortcut", None)
    if not isinstance(shortcut, Shortcut):
        return cast(Tensor, layer(x)) + extra
    shortcut.extra = extra
    try:
        return cast(Tensor, layer(x))
    finally:
        shortcut.extra = None


@torch.no_grad()
def _sites(stages: nn.Sequential, shape: Shape, backbone: str) -> list[Site]:
    """The layers of a body, with the shapes of what goes through them."""
    sites: list[Site] = []
    training = stages.training
    stages.eval()
    x = torch.zeros(1, *shape)
    for stage in stages:
        out = stage(x)
        if _is_layer(stage):
            site = Site(stage, x.shape, out.shape, is_first=not sites)
            if len(x.shape) != len(out.shape) or site.like(x.shape[1])(x).shape != out.shape:
                raise SettingsError(
                    f"progressive cannot feed the {type(stage).__name__} of {backbone!r}, which turns "
                    f"{tuple(x.shape)} into {tuple(out.shape)}; use a backbone that is a sequence of layers"
                )
            sites.append(site)
        x = out
    stages.train(training)
    return sites
