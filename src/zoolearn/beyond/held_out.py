"""Kept rows of past tasks that are not trained on again, so that they can say how far a member is to be trusted."""

from hashlib import blake2b

import torch
from torch import Tensor

from zoolearn.data.task import Examples


def is_held_out(examples: Examples, share: float, seed: int) -> Tensor:
    """Which rows are held out: about this share, decided for each row by its content alone.

    So the same rows are held out of whatever part of the data is kept, in any order, and of two equal rows both or none.
    A class of which nothing would be left to train on gives none.

    >>> rows = Examples(torch.arange(200.0)[:, None], torch.arange(200) % 2)
    >>> held = is_held_out(rows, 0.25, seed=0)
    >>> torch.equal(is_held_out(rows.select(torch.arange(100, 200)), 0.25, seed=0), held[100:])
    True
    """
    limit = round(share * 2**32)
    key = seed.to_bytes(8, "big", signed=True)
    numbers = [
        int.from_bytes(blake2b(row.tobytes(), digest_size=4, key=key).digest(), "big")
        for row in examples.x.contiguous().numpy()
    ]
    held = torch.tensor(numbers) < limit
    for label in set(examples.y[held].tolist()):
        rows = examples.y == label
        if bool(held[rows].all()):
            held &= ~rows
    return held
