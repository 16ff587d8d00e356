"""APD: additive parameter decomposition (Yoon et al., 2020)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.methods.bases.task_net import (
    LAYERS,
    Layer,
    Norm,
    TaskLayer,
    TaskNet,
    TaskNorm,
    end_task,
    follow,
    parts,
    replace_modules,
)
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.adam import CACHED, Adam
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Loss, Work, cross_entropy
from zoolearn.training.recipe import Recipe

OWNED = ("mask", "correction", "shift")


@dataclass(kw_only=True, eq=False)
class Apd(TaskNet):
    """Gives each task the shared weights, scaled unit by unit, plus a sparse correction that absorbs later changes.

    "Scalable and Order-robust Continual Learning with Additive Parameter Decomposition" (Yoon et al., 2020), equation 3.
    Task t sees the weights shared * sigmoid(mask_t) + correction_t. Its loss adds `sparsity` times the sum of the sizes of
    all tasks' corrections, and `retention` / 2 times the squared distance of every past task's weights from what they
    were when this task began: the shared weights may move if corrections of past tasks make up for it, which they can
    without data. Masks, biases and heads of past tasks are fixed, corrections of at most `sparsity` count as 0 in
    answers. The recipe's weight decay applies to the newest task's mask and correction, and to the shared weights during
    the first task.

    Steps are Adam's, at the recipe's learning rate and schedule, with its momentum as the decay of the first moment (the
    authors: 1e-3, 0.9, times 0.95 every epoch, 20 epochs, batches of 100, weight decay 1e-4).

    Backbones: any; batch-norm, which the authors' LeNet (lenet-apd) does not have, is each task's own.

    `num_parameters` counts the shared weights and a dense mask, correction, bias, norm and head per task, since corrections of
    past tasks are trained on, small entries too. Nothing is replayed.

    Where we differ: (1) the consolidation of corrections into groups every few tasks, "APD(2)", is left out: this is
    APD(1) and its memory grows by a net per task; (2) there is no validation set, so the last epoch is taken, not the best
    of the last five; (3) gradients are not multiplied by ten, which matters to Adam's epsilon alone; (4) biases start at
    0. The anchors are taken again with every task, as published, so small movements of old weights add up.
    """

    recipe: Recipe = recipe_field(lr=3e-3)
    sparsity: float = setting(6e-4, "weight of the size of corrections (lambda 1)", least=0)
    retention: float = setting(100.0, "weight of past tasks' changes (lambda 2)", least=0)

    def _train(self, task: Task) -> Work[Episode]:
        net = self.grow_net(task).to(self.recipe.torch_device)
        penalised = objective(net, self.sparsity, self.retention, self.recipe.weight_decay)
        recipe = replace(self.recipe, weight_decay=0.0, precision="float32")
        loss = yield from self.fit(net, [task], recipe=recipe, loss=penalised, optimizer=Adam)
        end_task(net)
        self.net = net
        return Episode((task.name,), None, loss)

    def convert(self, net: Net) -> Net:
        """The net with additive layers, and batch-norm of every task's own."""
        replace_modules(net.backbone, LAYERS, self.decomposed_layer)
        replace_modules(net.backbone, Norm, TaskNorm)
        follow(net)
        return net

    def decomposed_layer(self, layer: Layer) -> "AdditiveLayer":
        """A layer whose corrections start as copies of the shared weight and move on after their task."""
        return AdditiveLayer(layer, threshold=self.sparsity, start=1.0, retroactive=True)


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
        correction = self._own("correction")
        if not self.training:
            correction = self.sparse(correction)
        return self.shared * self.per_output(torch.sigmoid(self._own("mask"))) + correction

    def bias(self) -> Tensor | None:
        return self._own("shift") if self.shifts else None

    def sparse(self, correction: Tensor) -> Tensor:
        """A correction without its small entries."""
        return torch.where(correction.abs() > self.threshold, correction, 0.0)

    def past_weights(self) -> Tensor:
        """The weights that all past tasks have now, stacked, their corrections in full."""
        return torch.addcmul(self.past_correction, self.shared, self.per_output(torch.sigmoid(self.past_mask)))

    def penalty(self, anchors: Tensor, sparsity: float, retention: float, decay: float) -> Tensor:
        """What the loss adds for sparse corrections, for past tasks' weights away from their anchors, and for decay.

        Weight decay is on what the newest task owns, and on the shared weight while there is no other task.
        """
        size = self.correction.abs().sum()
        decayed = self.correction.square().sum() + self.mask.square().sum()
        if not len(anchors):
            return sparsity * size + decay / 2 * (decayed + self.shared.square().sum())
        scales = torch.sigmoid(self.past_mask)
        held: Tensor = HeldCorrections.apply(  # type: ignore[no-untyped-call]
            self.shared, self.past_correction, scales, anchors, sparsity, retention
        )
        return sparsity * size + held + decay / 2 * decayed


class HeldCorrections(torch.autograd.Function):
    """What the loss adds for the corrections C_j of all past tasks j, given a shared weight S, scales s_j and anchors A_j.

    sum over j of sparsity * |C_j| + retention / 2 * |S s_j + C_j - A_j|^2, with its gradients for S and all C_j. These are
    several nets' worth of numbers, so each is read once, a few rows at a time that stay in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any, shared: Tensor, past: Tensor, scales: Tensor, anchors: Tensor, sparsity: float, retention: float
    ) -> Tensor:
        """The penalty; the gradients are found on the way."""
        of_shared = torch.zeros_like(shared)
        of_past = torch.empty_like(past) if ctx.needs_input_grad[1] else None
        size, moved = torch.zeros((), device=shared.device), torch.zeros((), device=shared.device)
        step = len(shared) if shared.is_cuda else max(1, CACHED * len(shared) // shared.numel())
        wide = (-1, *[1] * (shared.dim() - 1))
        for first in range(0, len(shared), step):
            rows = slice(first, first + step)
            for task in range(len(past)):
                scale, correction = scales[task, rows].view(wide), past[task, rows]
                apart = torch.addcmul(correction, shared[rows], scale).sub_(anchors[task, rows])
                of_shared[rows].addcmul_(apart, scale, value=retention)
                moved += torch.linalg.vector_norm(apart).square()
                size += torch.linalg.vector_norm(correction, ord=1)
                if of_past is not None:
                    torch.sign(correction, out=of_past[task, rows]).mul_(sparsity).add_(apart, alpha=retention)
        ctx.gradients = of_shared, of_past
        return sparsity * size + retention / 2 * moved

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the shared weight and of the corrections."""
        found, ctx.gradients = ctx.gradients, None  # held here alone, so they become .grad as they are
        if float(outer[0]) != 1.0:
            found = tuple(part if part is None else part * outer[0] for part in found)
        return (*found, None, None, None, None)


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
