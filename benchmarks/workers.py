"""Isolated on two workers against one; meaningful only while two cores are quiet, so the load is shown beside it."""

import os
import tempfile
from statistics import median
from time import perf_counter

import torch

from benchmarks.streams import stream
from benchmarks.tables import Table
from zoolearn.cores import usable_cores
from zoolearn.data.stream import Benchmark
from zoolearn.methods.isolated import Isolated
from zoolearn.nets.backbones import small_conv
from zoolearn.runs.run import run
from zoolearn.training.recipe import Recipe


def measure(*, quick: bool) -> list[Table]:
    """Seconds on the clock, in turn."""
    torch.set_num_threads(1)
    tasks = stream(4 if quick else 20, (3, 32, 32), 160 if quick else 2500, 100)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(1 if quick else 3):
        for workers, values in seconds.items():
            values.append(_seconds(tasks, workers))
    table = Table("isolated, small-conv, seconds on the clock", ["workers", "seconds", "times one worker", "bar"])
    for workers, values in seconds.items():
        table.rows.append([workers, median(values), median(seconds[1]) / median(values), 1.8 if workers == 2 else "-"])
    load = os.getloadavg()[0]
    table.notes.append(f"load {load:.1f} on {usable_cores()} cores at the end; 2.0 is what the two workers make")
    return [table]


def _seconds(tasks: Benchmark, workers: int) -> float:
    learner = Isolated(backbone=small_conv, recipe=Recipe(epochs=1, device="cpu"))
    with tempfile.TemporaryDirectory() as folder:
        started = perf_counter()
        run(learner, tasks, folder, workers=workers)
        return perf_counter() - started
