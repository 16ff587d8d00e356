"""Weights as a shared part, scaled by the task, plus a sparse correction of the task's own: what APD and FedWeIT train."""

import math
from collections.abc import Callable, Generator

import torch
from torch import Tensor, nn

from zoolearn.batches import Batch
from zoolearn.errors import SettingsError
from zoolearn.nets import Net
from zoolearn.parts.adam import fitting_by
from zoolearn.parts.taskweight import LAYERS, Layer, Norm, TaskLayer, TaskNorm, follow, parts, replace_modules
from zoolearn.recipe import Recipe
from zoolearn.task import Task
from zoolearn.train import Checkpoints, Loss, Progress, cross_entropy

OWNED = ("mask", "correction", "shift")


class AdditiveLayer(TaskLayer):
    """A layer with the weight shared * sigmoid(mask_t) + correction_t, the mask a number per output unit, and its bias.

    What past tasks own is stacked, so that a penalty over all tasks is one operation. A new correction starts at `start`
    times the shared weight. When answering, entries of corrections no larger than `threshold` count as 0. Corrections of
    past tasks move on only with `retroactive`; their masks and biases do not.
    """

    mask: nn.Parameter  # of the newest task
    correction: nn.Parameter
    shift: nn.Parameter  # its bias; empty where the layer has none
    past_mask: nn.Parameter  # of the tasks before it, in order
    past_correction: nn.Parameter
    past_shift: nn.Parameter

    def __init__(self, layer: Layer, threshold: float, start: float, retroactive: bool) -> None:
        super().__init__(layer)
        self.threshold, self.start, self.retroactive = threshold, start, retroactive
        self.shifts = 0 if layer.bias is None else len(self.shared)
        shapes = (self.shared.shape[:1], self.shared.shape, (self.shifts,))
        for name, shape in zip(OWNED, shapes, strict=True):
            self.register_parameter(name, None)
            self.register_parameter(f"past_{name}", nn.Parameter(torch.empty(0, *shape), requires_grad=False))

    @torch.no_grad()
    def begin_task(self) -> None:
        """Puts what the newest task owns to the past's, and gives the new one a mask, a correction and a bias."""
        if self.mask is not None:
            for name in OWNED:
                past = torch.cat([getattr(self, f"past_{name}"), getattr(self, name)[None]])
                moves = self.retroactive and name == "correction"
                setattr(self, f"past_{name}", nn.Parameter(past, requires_grad=moves))
        outputs, device = len(self.shared), self.shared.device
        self.mask = nn.Parameter(torch.randn(outputs).to(device) / math.sqrt(outputs))
        self.correction = nn.Parameter(self.start * self.shared)
        self.shift = nn.Parameter(torch.zeros(self.shifts, device=device))

    def _own(self, name: str) -> Tensor:
        past = getattr(self, f"past_{name}")
        owned: Tensor = past[self.task] if self.task < len(past) else getattr(self, name)
        return owned

    def weight(self) -> Tensor:
        """What the task makes of the shared weight."""
        correction = self._own("correction")
        if not self.training:
            correction = self.sparse(correction)
        return self.shared * self.per_output(torch.sigmoid(self._own("mask"))) + correction

    def bias(self) -> Tensor | None:
        """The task's own bias."""
        return self._own("shift") if self.shifts else None

    def sparse(self, correction: Tensor) -> Tensor:
        """A correction without its small entries."""
        return torch.where(correction.abs() > self.threshold, correction, 0.0)

    def past_weights(self) -> Tensor:
        """The weights that all past tasks have now, stacked, their corrections in full."""
        return self.shared * self.per_output(torch.sigmoid(self.past_mask)) + self.past_correction

    def penalty(self, anchors: Tensor, sparsity: float, retention: float, decay: float) -> Tensor:
        """What the loss adds for sparse corrections, for past tasks' weights away from their anchors, and for decay.

        Weight decay is on what the newest task owns, and on the shared weight while there is no other task.
        """
        size = self.correction.abs().sum() + self.past_correction.abs().sum()
        decayed = self.correction.square().sum() + self.mask.square().sum()
        if not len(anchors):
            return sparsity * size + decay / 2 * (decayed + self.shared.square().sum())
        moved = (self.past_weights() - anchors).square().sum()
        return sparsity * size + retention / 2 * moved + decay / 2 * decayed


def additive(net: Net, new: Callable[[Layer], AdditiveLayer]) -> Net:
    """The net with additive layers and batch-norm of every task's own."""
    replace_modules(net.body, LAYERS, new)
    replace_modules(net.body, Norm, TaskNorm)
    follow(net)
    return net


def fitted(
    net: Net,
    task: Task,
    recipe: Recipe,
    *,
    sparsity: float,
    retention: float,
    seed: int,
    checkpoints: Checkpoints | None,
) -> Generator[Progress, None, float]:
    """Trains a net with additive layers on a new task, with Adam's steps; the recipe's weight decay is the penalty's."""
    loss = objective(net.to(recipe.torch_device), sparsity, retention, recipe.weight_decay)
    return fitting_by("adam", net, task, recipe, seed=seed, loss=loss, heads=[task.name], checkpoints=checkpoints)


def objective(net: Net, sparsity: float, retention: float, decay: float) -> Loss:
    """The loss of an episode that begins with the net as it is: anchors are the weights of past tasks now."""
    layers = parts(net, AdditiveLayer)
    with torch.no_grad():
        anchors = [layer.past_weights().clone() for layer in layers]

    def loss(net: Net, batch: Batch) -> Tensor:
        pairs = zip(layers, anchors, strict=True)
        added = [layer.penalty(anchor, sparsity, retention, decay) for layer, anchor in pairs]
        return cross_entropy(net, batch) + sum(added, torch.zeros((), device=batch.y.device))

    return loss


def check_strengths(**strengths: float) -> None:
    """Refuses negative weights of penalties."""
    for name, strength in strengths.items():
        if not 0 <= strength < math.inf:
            raise SettingsError(f"{name} is {strength}; it must be 0 or more")
