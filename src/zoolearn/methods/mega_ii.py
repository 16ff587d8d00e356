"""MEGA-II (Guo et al., 2020): each gradient is turned towards that of the memory, the further the larger its loss."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from zoolearn.methods.bases.with_memory import GradientGuided

PARALLEL = 1e-10  # below this squared sine the two gradients span no plane to turn in


@dataclass(kw_only=True, eq=False)
class MegaII(GradientGuided):
    """Turns the gradient g of a batch towards the gradient r of a batch from the memory, at the length of g.

    "Improved Schemes for Episodic Memory-based Lifelong Learning", the rotation of MEGA-II: with the losses l of the batch
    and m of the memory batch, and the angle a between g and r, the new angle to g is the one in [0, pi/2] that maximises
    l cos(angle) + m cos(a - angle). The first task is plain training. The memory batch passes through the net in
    training mode before the new one, so that batch-norm statistics follow it too. `stored_samples` is the memory; nothing else is kept.

    Where we differ: the angle has a closed form (`best_angle`) in place of a search by gradient ascent; gradients that
    are parallel or opposite are left alone by a test of their angle, not of their lengths; the memory of a task is drawn
    uniformly when the task ends, from its raw training data, in place of a ring of the last examples of a class. From
    the second task on every step moves all heads, with the recipe's momentum and weight decay (the paper has neither).
    The memory gradient is computed in float32 throughout.
    """

    def guide(self, gradient: Tensor, past: Tensor, loss: Tensor, past_loss: Tensor) -> Tensor:
        return mix(gradient, past, float(loss), float(past_loss))


def mix(gradient: Tensor, reference: Tensor, loss: float, reference_loss: float) -> Tensor:
    """`gradient` turned towards `reference`, at its own length; itself where there is no plane to turn in."""
    both = torch.stack([gradient, reference]).double()
    gram: list[list[float]] = (both @ both.T).tolist()
    (own, product), (_, other) = gram
    if not 0 < own * other < math.inf:
        return gradient
    cosine = min(1.0, max(-1.0, product / math.sqrt(own * other)))
    if 1 - cosine * cosine <= PARALLEL:
        return gradient
    between = math.acos(cosine)
    angle = best_angle(between, loss, reference_loss)
    if angle == 0:
        return gradient
    across = math.sin(angle) / math.sin(between)
    return gradient * (math.cos(angle) - across * cosine) + reference * (across * math.sqrt(own / other))


def best_angle(between: float, loss: float, reference_loss: float) -> float:
    """The angle in [0, pi/2] that maximises loss * cos(angle) + reference_loss * cos(between - angle).

    The sum is one cosine whose peak is the direction of loss * (1, 0) + reference_loss * (cos between, sin between).

    >>> best_angle(math.pi / 3, loss=1.0, reference_loss=1.0) == math.pi / 6
    True
    """
    peak = math.atan2(reference_loss * math.sin(between), loss + reference_loss * math.cos(between))
    return min(max(peak, 0.0), math.pi / 2)
