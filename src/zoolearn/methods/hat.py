"""HAT: hard attention to the task (Serra et al., 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.task_net import (
    LAYERS,
    GradientMask,
    Layer,
    Norm,
    PerTask,
    TaskNet,
    TaskNorm,
    end_task,
    follow,
    parts,
    replace_modules,
    sequence,
)
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.nets.backbones import backbone_name
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch, steps_per_epoch
from zoolearn.training.fit import Work, cross_entropy
from zoolearn.training.recipe import Recipe

LARGEST_EMBEDDING = 6.0  # beyond it a gate could not be opened or closed again
CLOSED = 1e-9  # a gate below this passes nothing; products of such small numbers would slow a CPU down many times
POOLING = nn.modules.pooling
CHANNEL_WISE = (  # what is known to keep units apart
    *(Norm, nn.modules.dropout._DropoutNd, nn.ZeroPad2d, nn.Identity),
    *(POOLING._MaxPoolNd, POOLING._AvgPoolNd, POOLING._AdaptiveMaxPoolNd, POOLING._AdaptiveAvgPoolNd),
    *(nn.ReLU, nn.Hardtanh, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh),
)
LARGEST_EXPONENT = 50.0  # of the cosine in the compensation, as in the authors' code


@dataclass(kw_only=True, eq=False)
class Hat(TaskNet):
    """Learns with the weights an almost binary gate per unit and task; weights between units in use are not moved again.

    "Overcoming Catastrophic Forgetting with Hard Attention to the Task" (Serra et al., 2018). The output of every layer
    is multiplied by gates sigmoid(s e), with an embedding e per unit and task and a scale s that grows from 1 / s_max to
    s_max during each epoch (equation 3). The loss adds `sparsity` times the mean gate over units that past tasks leave
    free (equation 5). With A the largest gate of past tasks, gradients of the weight from unit j to unit i are multiplied
    by 1 - min(A_i, A_j) (equation 2), and gradients of embeddings by the factor that undoes what s makes of them
    (equation 4). Tasks answer with their own gates at s_max. Embeddings are held within -6 and 6.

    With `binary`, units are in use or not (A and the gates of answers are rounded at 0.5): what past tasks use then stays
    bit for bit, and so do their answers. Without it protection is as published, as good as gates are binary.

    Backbones: plain sequences of linear and convolutional layers (mlp, mlp-100, mlp-2000, tabular, small-conv,
    alexnet-hat, lenet-apd); others are refused. Batch-norm, which the paper does not have, is each task's own. A norm
    across channels, as in lenet-apd, comes after the gates.

    `num_parameters` counts the net, an embedding per unit and task, and the largest gate per unit. Nothing is replayed.

    Where we differ: (1) training takes the recipe's epochs and schedule, without a validation set, so neither the
    authors' patience nor their choice of the best epoch applies; they use plain SGD at 0.05; (2) momentum and weight
    decay are safe: decay is added before gradients are blocked, and a blocked gradient leaves momentum nothing to build
    on; (3) the scale reaches s_max at the last step of an epoch, in the authors' code it stays just below; (4) weights
    start as the backbone has them; (5) dropout is one rate for all hidden layers of an mlp, and none on its input.
    A single epoch gives the gates little time to form.
    """

    recipe: Recipe = recipe_field(lr=0.05)
    s_max: float = setting(400.0, "largest scale of the gates' steepness", least=1)
    sparsity: float = setting(0.75, "weight of the mean new gate in the loss (the paper's c)", least=0)
    binary: bool = setting(False, "round gates at 0.5, so that protection is exact")
    max_grad_norm: float = setting(10000.0, "longer gradients are shortened to this length", above=0)

    def _train(self, task: Task) -> Work[Episode]:
        """Trains weights and gates, then counts the units that the task uses."""
        net = self.grow_net(task).to(self.recipe.torch_device)
        slots = Attention(self, net, task.name, steps_per_epoch(len(task.train), self.recipe.batch_size))
        recipe = replace(self.recipe, weight_decay=0.0)  # which the guard takes over
        loss = yield from self.fit(net, [task], recipe=recipe, loss=slots.loss, adjust=slots.adjust)
        end_task(net)
        self.net = net
        return Episode((task.name,), None, loss)

    def convert(self, net: Net) -> Net:
        """The net with a gate after each of its layers."""
        net.backbone = with_gates(net.backbone, backbone_name(net.backbone_fn), self.s_max, self.binary)
        replace_modules(net.backbone, Norm, TaskNorm)
        follow(net)
        return net

    @property
    def used(self) -> float:
        """The share of units that tasks so far have in use."""
        gates = parts(self.net, Gate) if self.net is not None else []
        return float(torch.cat([gate.used for gate in gates]).mean()) if gates else 0.0

    @property
    def num_parameters(self) -> int:
        gates = parts(self.net, Gate) if self.net is not None else []
        return super().num_parameters + sum(gate.used.numel() for gate in gates)


class Gate(PerTask):
    """Multiplies each unit or channel by how much the task uses it."""

    used: Tensor

    def __init__(self, units: int, s_max: float, binary: bool) -> None:
        super().__init__()
        self.s_max, self.binary = s_max, binary
        self.scale = s_max  # of the step under way; answers always take s_max
        self.embeddings = nn.ParameterList()
        self.register_buffer("used", torch.zeros(units))

    def begin_task(self) -> None:
        """Adds an embedding, drawn from N(0, 1)."""
        self.embeddings.requires_grad_(False)
        self.embeddings.append(nn.Parameter(torch.randn(len(self.used)).to(self.used.device)))

    @torch.no_grad()
    def end_task(self) -> None:
        self.hold()
        self.used.copy_(torch.maximum(self.used, self.final_gates(self.embeddings[-1])))

    @torch.no_grad()
    def hold(self) -> None:
        """Brings the newest embedding back within its bounds."""
        self.embeddings[-1].clamp_(-LARGEST_EMBEDDING, LARGEST_EMBEDDING)

    def final_gates(self, embedding: Tensor) -> Tensor:
        gates = torch.sigmoid(self.s_max * embedding)
        return (gates > 0.5).to(gates.dtype) if self.binary else _close(gates)

    def gates(self) -> Tensor:
        """The gates of the task: soft while it trains, settled when it answers."""
        embedding = self.embeddings[self.task]
        return _close(torch.sigmoid(self.scale * embedding)) if self.training else self.final_gates(embedding)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gates().reshape(1, -1, *(1,) * (x.ndim - 2))


def _close(gates: Tensor) -> Tensor:
    """Gates with those that are all but closed at 0; their gradients stay, so that they can open again."""
    return gates - torch.where(gates < CLOSED, gates, 0.0).detach()


class Attention:
    """The two slots of one episode: the loss with gates as steep as the step wants them, and the guarded gradients."""

    def __init__(self, learner: Hat, net: Net, task: str, steps: int) -> None:
        self.s_max, self.sparsity, self.largest = learner.s_max, learner.sparsity, learner.max_grad_norm
        self.steps = steps
        self.gates = parts(net, Gate)
        self.embeddings = [gate.embeddings[-1] for gate in self.gates]
        self.movable = net.trainable([task])
        held = freedom(net.backbone)
        special = {id(parameter) for parameter in [*self.embeddings, *(weight for weight, _ in held)]}
        free = [(parameter, torch.ones_like(parameter)) for parameter in self.movable if id(parameter) not in special]
        self.guard = GradientMask([*held, *free], learner.recipe.weight_decay)

    def loss(self, net: Net, batch: Batch) -> Tensor:
        """The loss of the batch and of the units that it newly uses."""
        scale = scale_at(batch.step % self.steps, self.steps, self.s_max)
        for gate in self.gates:
            gate.hold()
            gate.scale = scale
        loss = cross_entropy(net, batch)
        return loss + self.sparsity * new_use(self.gates)

    def adjust(self, _: Net, __: Batch) -> None:
        """Blocks what past tasks use, and gives embeddings the gradient that the scale took from them."""
        self.guard()
        for embedding in self.embeddings:
            if embedding.grad is not None:
                embedding.grad.mul_(compensation(embedding.detach(), self.gates[0].scale, self.s_max))
        nn.utils.clip_grad_norm_(self.movable, self.largest)


def scale_at(step: int, steps: int, s_max: float) -> float:
    """The scale of a step (from 0) of an epoch: linear from 1 / s_max to s_max.

    >>> [scale_at(step, 3, 4.0) for step in range(3)]
    [0.25, 2.125, 4.0]
    """
    return 1 / s_max + (s_max - 1 / s_max) * (step / (steps - 1) if steps > 1 else 1.0)


def compensation(embedding: Tensor, scale: float, s_max: float) -> Tensor:
    """What turns the gradient of sigmoid(scale e) into s_max times that of sigmoid(e)."""
    steep = torch.cosh((scale * embedding).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT))
    return s_max / scale * (steep + 1) / (torch.cosh(embedding) + 1)


def new_use(gates: Sequence[Gate]) -> Tensor:
    """The mean gate over units, each counted as far as past tasks leave it free."""
    free = torch.cat([1 - gate.used for gate in gates])
    now = torch.cat([gate.gates() for gate in gates])
    return (now * free).sum() / free.sum().clamp_min(torch.finfo(free.dtype).tiny)


def freedom(body: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """How free each weight and bias is to move: 1 - min(A_i, A_j) from unit j to unit i, 1 - A_i from pixels."""
    factors: list[tuple[Tensor, Tensor]] = []
    before: Tensor | None = None
    layer: Layer | None = None
    for module in body.children():
        if isinstance(module, LAYERS):
            layer = module
        elif isinstance(module, Gate) and layer is not None:
            after = module.used
            inputs = layer.weight.shape[1]
            held = after[:, None].expand(-1, inputs)
            if before is not None:  # a channel that was flattened feeds as many inputs as it has positions
                held = torch.minimum(held, before.repeat_interleave(inputs // len(before))[None, :])
            factors.append((layer.weight, (1 - held).reshape(*held.shape, *(1,) * (layer.weight.ndim - 2))))
            if layer.bias is not None:
                factors.append((layer.bias, 1 - after))
            before = after
    return factors


def with_gates(body: nn.Module, backbone: str, s_max: float, binary: bool) -> nn.Sequential:
    """A plain sequence of layers with a gate after each one's activation, pooling and dropout.

    What may mix units, as a norm across channels does, comes after the gate: units in use then see none that is closed.
    """
    gated: list[nn.Module] = []
    units = 0  # of the layer whose gate is still to come
    for module in _plain(body, backbone):
        if units and not isinstance(module, CHANNEL_WISE):
            gated.append(Gate(units, s_max, binary))
            units = 0
        gated.append(module)
        if isinstance(module, LAYERS):
            units = module.weight.shape[0]
    return nn.Sequential(*gated, *([Gate(units, s_max, binary)] if units else []))


def _plain(body: nn.Module, backbone: str) -> list[nn.Module]:
    modules = sequence(body)
    wide = [module for module in modules if isinstance(module, nn.Conv2d) and module.groups > 1]
    other = [m for m in modules if not isinstance(m, (*LAYERS, Norm)) and any(True for _ in m.parameters())]
    if wide or other or not any(isinstance(module, LAYERS) for module in modules):
        odd = f"has a {type((wide or other)[0]).__name__}" if wide or other else "has none"
        raise SettingsError(
            f"hat gates the units of plain sequences of linear and convolutional layers, {backbone!r} {odd}; "
            "use mlp, small-conv or alexnet-hat"
        )
    return modules
