"""RMN: relevance mapping networks (Kaushik et al., 2021)."""

import math
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
    TaskLayer,
    TaskNet,
    TaskNorm,
    end_task,
    follow,
    parts,
    replace_modules,
    sequence,
)
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.nets.net import Net
from zoolearn.seeds import derive, global_seed
from zoolearn.settings import setting
from zoolearn.training.batches import Batch, steps_per_epoch
from zoolearn.training.fit import Work, cross_entropy
from zoolearn.training.recipe import Recipe

BITS_PER_WEIGHT = 32  # a map says yes or no to each weight, so that many of its entries count as one number


@dataclass(kw_only=True, eq=False)
class Rmn(TaskNet):
    """Learns for every task which weights are relevant to it; those are frozen, and later tasks may still use them.

    "Understanding Catastrophic Forgetting and Remembering in Continual Learning with Optimal Relevance Mapping" (Kaushik
    et al., 2021). Task t sees the weights W * q(r_t), with a number r in (0, 1) for every weight and task, drawn
    uniformly, and q(r) = sigmoid(`steepness` (r - 0.5)), nearly 0 or 1. During the last epochs weights are dropped from
    the map where q is not above `least_relevance` or q |W| not above `least_weight`; what is left at the end is the map,
    and its weights never move again. Layers have no biases, batch-norm is each task's own, and so is the head, to which
    all features are relevant. Old weights, maps and answers stay bit for bit, with momentum and weight decay too: decay is
    added before the gradients of frozen weights are blocked, and a blocked gradient leaves momentum nothing to build on.

    Backbones: any; in a sequence of layers, batch-norm follows each one that has none.

    `num_parameters` counts the shared weights, norms and heads, and each finished map as one number per 32 weights, since it is
    a bit for each. While a task is learned its map has a number per weight more. Nothing is replayed.

    Where we differ: (1) the authors' training script was not at hand: optimiser, learning rate and schedule are the
    recipe's, `optimizer=adam` takes Adam's steps (with the recipe's momentum as the decay of its first moment) at the
    recipe's rate, in float32; (2) a map is pruned before each of its last epochs (a share `prune_share` of all, 30 of 50 in a port of
    the authors' code) and once more at the end, so that a single epoch trains with a pruned map too; (3) what is dropped
    stays dropped, and what answers is what is frozen; (4) the steepness is not learned; (5) inferring which task an input
    is of is left out, since we are told.
    """

    optimizers = ("sgd", "adam")

    recipe: Recipe = recipe_field(lr=0.05)
    steepness: float = setting(100.0, "of the map's sigmoid (beta)", above=0)
    least_relevance: float = setting(0.999999, "maps keep weights above this (mu)", least=0.5, below=1)
    least_weight: float = setting(1e-5, "maps keep weights larger than this (nu)", least=0)
    prune_share: float = setting(0.6, "share of the epochs, the last ones, that prune the map", least=0, most=1)
    sparsity: float = setting(0.0, "weight of the mean relevance in the loss", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if relevance_at(self.least_relevance, self.steepness) >= 1:
            raise SettingsError(
                f"least_relevance {self.least_relevance} cannot be reached with steepness {self.steepness}; "
                "make the first smaller or the second larger"
            )

    def _train(self, task: Task) -> Work[Episode]:
        """Trains the free weights and the task's map, then freezes what the map keeps."""
        net = self.grow_net(task).to(self.recipe.torch_device)
        slots = Selection(self, net, task)
        recipe = replace(self.recipe, weight_decay=0.0)  # which the guard takes over
        if self.recipe.optimizer != "sgd":
            recipe = replace(recipe, precision="float32")
        loss = yield from self.fit(net, [task], recipe=recipe, loss=slots.loss, adjust=slots.adjust)
        end_task(net)
        self.net = net
        return Episode((task.name,), None, loss)

    def convert(self, net: Net) -> Net:
        """The net with a map on each of its layers and batch-norm after it."""
        net.backbone = with_norms(net.backbone)
        replace_modules(net.backbone, Norm, TaskNorm)
        with global_seed(derive(net.seed, "weights"), torch.device("cpu")):
            replace_modules(net.backbone, LAYERS, self.mapped_layer)
        follow(net)
        return net

    def mapped_layer(self, layer: Layer) -> "MappedLayer":
        return MappedLayer(layer, self.steepness, relevance_at(self.least_relevance, self.steepness), self.least_weight)

    @property
    def frozen(self) -> float:
        """The share of the shared weights that tasks so far have frozen."""
        layers = parts(self.net, MappedLayer) if self.net is not None else []
        held = sum(int(layer.frozen().sum()) for layer in layers)
        return held / max(1, sum(layer.shared.numel() for layer in layers))

    @property
    def num_parameters(self) -> int:
        if self.net is None:
            return 0
        bits = sum(layer.kept.numel() for layer in parts(self.net, MappedLayer))
        return super().num_parameters + math.ceil(bits / BITS_PER_WEIGHT)


class MappedLayer(TaskLayer):
    """A layer of which each task sees the weights that its map keeps."""

    kept: Tensor
    alive: Tensor | None
    relevance: nn.Parameter | None

    def __init__(self, layer: Layer, steepness: float, least: float, least_weight: float) -> None:
        super().__init__(layer)
        self.steepness, self.least, self.least_weight = steepness, least, least_weight
        nn.init.normal_(self.shared, std=0.01 if self.shared.ndim == 4 else 0.2)
        self.register_buffer("kept", torch.zeros(0, *self.shared.shape, dtype=torch.bool))  # of each finished task
        self.register_buffer("alive", None)  # of the task that trains: where its map is not yet pruned
        self.register_parameter("relevance", None)

    def begin_task(self) -> None:
        self.relevance = nn.Parameter(torch.rand(self.shared.shape).to(self.shared.device))
        self.alive = torch.ones_like(self.shared, dtype=torch.bool)

    @torch.no_grad()
    def end_task(self) -> None:
        """Prunes the map once more and keeps what is left of it."""
        self.prune()
        relevance, alive = self._under_way()
        chosen = alive & (relevance > 0.5)
        self.kept = torch.cat([self.kept, chosen[None]])
        self.relevance = self.alive = None

    @torch.no_grad()
    def prune(self) -> None:
        """Drops weights that are not relevant or too small, fewer of the small ones if nothing would be left."""
        relevance, alive = self._under_way()
        relevant = alive & (relevance > self.least)
        size = self.shared.abs() * self.mapped()
        least = self.least_weight
        while relevant.any() and not (relevant & (size > least)).any() and least > 0:
            least = least / 10 if least > torch.finfo(torch.float32).tiny else 0.0
        left = relevant & (size > least)
        if left.any():
            self.alive = left

    def frozen(self) -> Tensor:
        """Where a finished task needs the shared weight as it is."""
        return self.kept.any(dim=0)

    def mapped(self) -> Tensor:
        """How relevant each weight is to the task that trains."""
        relevance, alive = self._under_way()
        return torch.sigmoid(self.steepness * (relevance - 0.5)) * alive

    def _under_way(self) -> tuple[Tensor, Tensor]:
        assert self.relevance is not None
        assert self.alive is not None
        return self.relevance, self.alive

    def weight(self) -> Tensor:
        if self.task < len(self.kept):
            return self.shared * self.kept[self.task]
        return self.shared * self.mapped()

    def bias(self) -> None:
        """None: batch-norm shifts instead."""


class Selection:
    """The two slots of one episode: the loss under a map that is pruned now and then, and the guarded gradients."""

    def __init__(self, learner: Rmn, net: Net, task: Task) -> None:
        self.layers = parts(net, MappedLayer)
        self.sparsity = learner.sparsity
        self.steps = steps_per_epoch(len(task.train), learner.recipe.batch_size)
        self.first_pruned = math.floor(learner.recipe.epochs * (1 - learner.prune_share) + 1e-9)  # against rounding
        movable = net.trainable([task.name])
        free = {id(layer.shared): (~layer.frozen()).to(layer.shared.dtype) for layer in self.layers}
        maps = {id(layer.relevance) for layer in self.layers}
        self.guard = GradientMask(
            [(weight, free.get(id(weight), torch.ones_like(weight))) for weight in movable if id(weight) not in maps],
            learner.recipe.weight_decay,
        )

    def loss(self, net: Net, batch: Batch) -> Tensor:
        """The loss of the batch, and of the weights that the map takes in."""
        if batch.step % self.steps == 0 and batch.epoch >= self.first_pruned:
            for layer in self.layers:
                layer.prune()
        loss = cross_entropy(net, batch)
        if self.sparsity:
            loss = loss + self.sparsity * torch.cat([layer.mapped().flatten() for layer in self.layers]).mean()
        return loss

    def adjust(self, _: Net, __: Batch) -> None:
        """Blocks the gradients of frozen weights."""
        self.guard()


def relevance_at(q: float, steepness: float) -> float:
    """The r of a relevance q = sigmoid(steepness (r - 0.5)).

    >>> round(relevance_at(0.999999, 100.0), 3)
    0.638
    """
    return 0.5 + math.log(q / (1 - q)) / steepness


def with_norms(body: nn.Module) -> nn.Module:
    """A body with batch-norm after each layer of its sequence that has none."""
    modules = sequence(body)
    normed: list[nn.Module] = []
    for place, module in enumerate(modules):
        normed.append(module)
        if isinstance(module, LAYERS) and not any(isinstance(after, Norm) for after in modules[place + 1 : place + 2]):
            norm = nn.BatchNorm2d if isinstance(module, nn.Conv2d) else nn.BatchNorm1d
            normed.append(norm(module.weight.shape[0]))
    return nn.Sequential(*normed)
