"""Inputs made by integer arithmetic, equal on every machine, that identify an extractor by its features of them."""

import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.uint8]

TEXT = "The quick brown fox jumps over the lazy dog, twice."


def probe_picture(size: int) -> Pictures:
    """One picture (1, 3, size, size) with edges, slopes and rings, unlike its mirror image.

    >>> probe_picture(4)[0, :, 1].tolist()
    [[64, 0, 192, 128], [128, 192, 0, 64], [32, 160, 160, 32]]
    """
    y, x = np.mgrid[:size, :size] * 256 // size
    planes = [x ^ y, x + 2 * y, ((x - 96) ** 2 + (y - 160) ** 2) // 64]
    return (np.stack(planes) % 256).astype(np.uint8)[None]


def trial_pictures(size: int) -> Pictures:
    """Pictures that a net is tried with: the probe, its mirror image, black, white, and noise."""
    probe = probe_picture(size)
    noise = np.cumsum(np.arange(1, probe.size + 1, dtype=np.uint64) ** 2 * 2654435761) >> 24  # whole numbers wrap
    kinds = [probe, probe[..., ::-1], np.zeros_like(probe), np.full_like(probe, 255), noise.reshape(probe.shape)]
    return np.concatenate([kind.astype(np.uint8) for kind in kinds])
