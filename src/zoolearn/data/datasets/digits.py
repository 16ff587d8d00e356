"""The handwritten digits that scikit-learn carries inside: 1,797 of 8x8 grey pixels (Alpaydin and Kaynak, 1998)."""

import importlib.util
from pathlib import Path

import numpy as np
import torch

from zoolearn.data.datasets.dataset import DataSet
from zoolearn.data.task import Examples
from zoolearn.errors import MissingData


def digits_file() -> Path:
    """The table within scikit-learn: 64 pixels and the label in each line."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise MissingData("scikit-learn, which carries the digits, is missing")
    return Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"


def digits() -> DataSet:
    """1,253 training and 544 test digits: of each class, in the publisher's order, the first 70 % train and the rest test.

    The publisher's values 0 to 16 become 0 to 255.

    >>> digits().train
    Examples(1253 of 1x8x8 uint8)
    """
    # load_digits() imports pandas and scipy.stats first: over a second
    content = np.loadtxt(digits_file(), delimiter=",")
    x = torch.from_numpy(np.rint(content[:, :-1] * (255 / 16)).astype(np.uint8)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(content[:, -1].astype(np.int64))
    rows = [(y == label).nonzero()[:, 0] for label in range(10)]
    train = torch.cat([of_class[: len(of_class) * 7 // 10] for of_class in rows]).sort().values
    test = torch.cat([of_class[len(of_class) * 7 // 10 :] for of_class in rows]).sort().values
    everything = Examples(x, y)
    return DataSet(everything.select(train), everything.select(test), tuple(map(str, range(10))))
