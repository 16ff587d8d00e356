"""A-GEM (Chaudhry et al., 2019a): no step may oppose the average gradient of what is remembered."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.methods.bases.with_memory import GradientGuided
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.batches import Batch


@dataclass(kw_only=True, eq=False)
class AGem(GradientGuided):
    """Projects each gradient g that opposes the gradient r of a batch drawn from the memory of all past tasks.

    "Efficient Lifelong Learning with A-GEM", equation 11: if <g, r> < 0 the step is g - (<g, r> / <r, r>) r, else g.
    The first task is plain training. The memory batch passes through the net in training mode before the new one, so
    that batch-norm statistics follow it too, as in the authors' code; in TAG's, where the new batch passes once before
    it and once after (`look_first`), they follow it less. `stored_samples` is the memory; nothing else is kept.

    Where we differ: the memory of a task is drawn uniformly when the task ends, from its raw training data, in place of
    a ring of the last examples of a class. A projected step also moves the heads of past tasks; they have no gradient
    in the other steps, so neither momentum nor weight decay moves them then. The guarantee is about the gradient: with
    momentum the step may still oppose r (the paper has none). The memory gradient is computed in float32 throughout.
    """

    look_first: bool = setting(
        False, "pass each batch once more before the memory's, for batch-norm alone", omit_default=True
    )

    def look(self, net: Net, batch: Batch) -> None:
        """The pass of TAG's code whose loss is not used."""
        if self.look_first:
            with torch.no_grad():
                net.embed(batch.x)

    def guide(self, gradient: Tensor, past: Tensor, loss: Tensor, past_loss: Tensor) -> Tensor:
        return project(gradient, past)


def project(gradient: Tensor, reference: Tensor) -> Tensor:
    """The nearest vector to `gradient` that does not oppose `reference`; the gradient itself if it does not.

    >>> project(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 2.0])).tolist()
    [1.0, 0.0]
    """
    product = torch.dot(gradient, reference)
    if not bool(product < 0):
        return gradient
    return gradient - (product / torch.dot(reference, reference)) * reference
