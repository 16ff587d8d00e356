"""Inheritance: a new member begins with the backbone of members before it instead of from scratch."""

from collections.abc import Callable, Sequence

import torch

from zoolearn.nets.net import Net

Probe = Callable[[int], float]  # how well the features of a member, by its place in the zoo, fit the new task
Inherit = Callable[[int, Probe], tuple[int, ...]]


def nobody(members: int, probe: Probe) -> tuple[int, ...]:
    """Every member starts from scratch, as in the paper."""
    return ()


def last(members: int, probe: Probe) -> tuple[int, ...]:
    """The newest member, heir of all that came before it.

    >>> last(3, lambda place: 0.0), last(0, lambda place: 0.0)
    ((2,), ())
    """
    return (members - 1,) if members else ()


def best(members: int, probe: Probe) -> tuple[int, ...]:
    """The member whose features fit the new task best; of equals the newest.

    >>> best(3, lambda place: -abs(place - 1))
    (1,)
    """
    return (max(range(members), key=lambda place: (probe(place), place)),) if members else ()


def average(members: int, probe: Probe) -> tuple[int, ...]:
    """The mean of all members' weights; they share an ancestor, so their weights are comparable."""
    return tuple(range(members))


INHERIT: dict[str, Inherit] = {"nobody": nobody, "last": last, "best": best, "average": average}


@torch.no_grad()
def begin_from(net: Net, parents: Sequence[Net], shrink: float, perturb: float) -> None:
    """Gives an untrained net `shrink` times the parents' mean backbone plus `perturb` times its own random one.

    Batch-norm's statistics are taken over as they are: they count, they do not learn.
    """
    if not parents:
        return
    states = [parent.body.state_dict() for parent in parents]
    weights = dict(net.body.named_parameters())
    for name, own in net.body.state_dict().items():
        if not own.is_floating_point():
            own.copy_(states[-1][name])
            continue
        theirs = [state[name].to(own.device) for state in states]
        inherited = theirs[0] if len(theirs) == 1 else torch.stack(theirs).mean(dim=0)
        if name in weights and (shrink, perturb) != (1.0, 0.0):
            inherited = shrink * inherited + perturb * own
        own.copy_(inherited)
