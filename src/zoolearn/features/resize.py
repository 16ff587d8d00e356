"""Pictures at the side that an extractor takes: the largest centred square, bicubic, smoothed when it shrinks."""

import numpy as np

from zoolearn.errors import DataError
from zoolearn.features.probe import Pictures


def resize(pictures: Pictures, size: int) -> Pictures:
    """Pictures (count, 1 or 3, height, width) as (count, 3, size, size); grey ones get three equal channels.

    >>> resize(np.full((1, 1, 8, 12), 7, np.uint8), 4).tolist() == np.full((1, 3, 4, 4), 7).tolist()
    True
    """
    from PIL import Image, ImageOps

    if pictures.ndim != 4 or pictures.shape[1] not in (1, 3):
        raise DataError(f"pictures of shape {pictures.shape}; give (count, 1 or 3, height, width)")
    made = np.empty((len(pictures), 3, size, size), np.uint8)
    for place, picture in enumerate(pictures):
        colours = np.ascontiguousarray(np.broadcast_to(picture, (3, *picture.shape[1:])).transpose(1, 2, 0))
        image = Image.fromarray(colours)
        if image.size != (size, size):
            image = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
        made[place] = np.asarray(image).transpose(2, 0, 1)
    return made
