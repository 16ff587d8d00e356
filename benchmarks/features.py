"""Heads from the statistics of stored features: seconds to make one, by rows, features and classes."""

import torch

from benchmarks.tables import Table
from benchmarks.timing import stopwatch
from zoolearn.beyond.stat_head import UNIT, stat_head
from zoolearn.seeds import generator

SIZES = (
    (25, 320, 5),
    (100, 320, 5),
    (500, 320, 5),
    (500, 1280, 5),
    (1000, 320, 50),
    (5000, 320, 50),
    (50_000, 320, 100),
)


def measure(*, quick: bool) -> list[Table]:
    """How long a head takes, the best of a few."""
    return [_seconds(3 if quick else 9)]


def _seconds(repeats: int) -> Table:
    table = Table("a head from statistics, one core", ["rows", "features", "classes", "seconds", "bar"])
    for rows, d, classes in SIZES:
        x, labels = _rows(rows, d, classes), torch.arange(rows) % classes
        best = min(_timed(x, labels, classes) for _ in range(repeats))
        table.rows.append([rows, d, classes, best, 0.1 if (rows, d) == (500, 320) else ""])
    return table


def _rows(count: int, d: int, classes: int) -> torch.Tensor:
    rng = generator(0)
    x = 0.5 * torch.randn(classes, d, generator=rng)[torch.arange(count) % classes] + torch.randn(
        count, d, generator=rng
    )
    x = x.relu()
    return (x / x.norm(dim=1, keepdim=True) * UNIT).round().clamp(max=UNIT - 1).to(torch.int16)


def _timed(rows: torch.Tensor, labels: torch.Tensor, classes: int) -> float:
    with stopwatch() as watch:
        stat_head(rows, labels, classes)
    return watch.seconds
