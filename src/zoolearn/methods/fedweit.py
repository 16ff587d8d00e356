"""FedWeIT with a single client: additive weights and attention over what past tasks published (Yoon et al., 2021)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from zoolearn.methods.apd import AdditiveLayer, Apd
from zoolearn.methods.bases.task_net import Layer, parts
from zoolearn.settings import setting

Base = Literal["all", "last"]


@dataclass(kw_only=True, eq=False)
class FedWeit(Apd):
    """Additive weights as in APD, plus a learned mixture of the sparse corrections that past tasks published.

    "Federated Continual Learning with Weighted Inter-client Transfer" (Yoon et al., 2021), equations 1 and 2, for one
    client. Task t sees the weights shared * sigmoid(mask_t) + correction_t + sum_k attention_tk published_k. The loss adds
    `sparsity` times the sum of the sizes of all tasks' corrections and `retention` / 2 times the squared distance of past
    tasks' weights (without the mixture, which cannot move) from what they were when this task began. Corrections of past
    tasks are fixed as in the released code, so that term holds the shared weights alone; with `retroactive` they move, as
    in APD. A task's correction is published when it is learned, without entries of at most `sparsity`, which count as 0
    in answers too. The recipe's weight decay applies to the newest task's mask and correction, and to the shared weights
    during the first task.

    The server's part is left out, because with one client it changes nothing: what the client receives is what it sent.
    The published 55.16 on Coarse-CIFAR100 is of five clients.

    Steps are Adam's, at the recipe's learning rate and schedule, with its momentum as the decay of the first moment (the
    authors: 1e-3 / 3, a third of it after three rounds without improvement, 20 rounds of an epoch, batches of 100, weight
    decay 1e-4).

    Backbones: any; batch-norm, which the authors' LeNet (lenet-apd) does not have, is each task's own.

    `num_parameters` counts the shared weights, a dense mask, correction, bias, norm and head per task, the attentions, and the
    published corrections. Nothing is replayed.

    Where we differ: (1) a task may attend to all past tasks (`knowledge_base=all`); the released code, with one client,
    keeps the last one only (`last`); (2) corrections start at a third of the shared weights as they are, the authors' at a
    third of what they were before any training; (3) no validation set: the last epoch is taken; (4) batches are shuffled,
    theirs are not; (5) biases start at 0.
    """

    sparsity: float = setting(1e-3, "weight of the size of corrections (lambda 1)", least=0)
    knowledge_base: Base = setting("all", "past tasks whose corrections a new one may mix in")
    retroactive: bool = setting(False, "let past tasks' corrections move, as in APD")

    def decomposed_layer(self, layer: Layer) -> "KnowingLayer":
        """A layer whose corrections start at a third of the shared weight."""
        return KnowingLayer(
            layer,
            threshold=self.sparsity,
            start=1 / 3,
            retroactive=self.retroactive,
            reach=1 if self.knowledge_base == "last" else None,
        )

    @property
    def num_parameters(self) -> int:
        layers = parts(self.net, KnowingLayer) if self.net is not None else []
        return super().num_parameters + sum(layer.published.numel() for layer in layers)


class KnowingLayer(AdditiveLayer):
    """An additive layer to which each task adds a mixture of the corrections that were published before it."""

    published: Tensor

    def __init__(self, layer: Layer, *, threshold: float, start: float, retroactive: bool, reach: int | None) -> None:
        super().__init__(layer, threshold, start, retroactive)
        self.reach = reach  # how many tasks back a task looks; None: to the first
        self.attentions = nn.ParameterList()
        self.register_buffer("published", torch.empty(0, *self.shared.shape))

    def begin_task(self) -> None:
        """Adds attention to what is published, beside what every additive layer adds."""
        super().begin_task()
        known = len(self.base(len(self.attentions)))
        attention = torch.randn(known) / math.sqrt(max(1, known))
        self.attentions.requires_grad_(False)
        self.attentions.append(nn.Parameter(attention.to(self.shared.device)))

    @torch.no_grad()
    def end_task(self) -> None:
        self.published = torch.cat([self.published, self.sparse(self.correction)[None]])

    def base(self, task: int) -> Tensor:
        """What a task could know when it was learned."""
        return self.published[0 if self.reach is None else max(0, task - self.reach) : task]

    def weight(self) -> Tensor:
        own = super().weight()
        known = self.base(self.task)
        return own + torch.tensordot(self.attentions[self.task], known, dims=1) if len(known) else own
