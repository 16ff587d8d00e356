"""A zoo of two hundred episodes: do time and bytes per episode stay what they were, and what does resuming take?"""

import tempfile
from pathlib import Path
from statistics import median
from time import process_time

import torch
from torch import nn

from benchmarks import bare
from benchmarks.streams import stream
from benchmarks.tables import Table
from zoolearn import files
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.run import episodes, run
from zoolearn.runs.store import load
from zoolearn.training.recipe import Recipe

TASKS = 210
WINDOW = 10  # episodes around the one that is looked at, since single ones are noisy


class Written:
    """Counts the bytes of all files that are put in place."""

    def __init__(self) -> None:
        self.total = 0
        self.of_results = 0

    def note(self, path: Path) -> None:
        self.total += path.stat().st_size
        self.of_results += path.stat().st_size if path.name == "results.json" else 0


def measure(*, quick: bool) -> list[Table]:
    """Medians over the ten episodes that end with the tenth (6th to 15th) and with the 200th (196th to 205th)."""
    tasks = stream(60 if quick else TASKS, (1, 8, 8), 200, 100)
    early, late = 10, len(tasks) - 10
    seconds, yardsticks, sizes, results_sizes = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, _counting() as written:
        started, before, results_before = process_time(), 0, 0
        for _ in episodes(_zoo(), tasks, folder):
            seconds.append(process_time() - started)
            sizes.append(written.total - before - (written.of_results - results_before))
            results_sizes.append(written.of_results - results_before)
            yardsticks.append(_yardstick())
            started, before, results_before = process_time(), written.total, written.of_results
        whole = Path(folder, "results.json").stat().st_size
        resumed = _seconds(lambda: run(_zoo(), tasks, folder))
        loaded = _seconds(lambda: load(folder))
    table = Table(
        f"a zoo of {len(tasks)} episodes of mlp-100, b = 5",
        ["what", f"around episode {early}", f"around episode {late}", "ratio", "bar"],
    )

    def around(values: list[float], episode: int) -> list[float]:
        return values[episode - WINDOW // 2 : episode + WINDOW // 2]

    relative = [second / yardstick for second, yardstick in zip(seconds, yardsticks, strict=True)]
    for what, values in (
        ("milliseconds", [1000 * s for s in seconds]),
        ("time, in bare steps' time at that moment", relative),
        ("bytes, without results.json", sizes),
    ):
        first, last = median(around(values, early)), median(around(values, late))
        table.rows.append([what, first, last, last / first, 1.1])
    both = [size + of_results for size, of_results in zip(sizes, results_sizes, strict=True)]
    first, last = median(around(both, early)), median(around(both, late))
    table.rows.append(["bytes, median of all files", first, last, last / first, 1.1])
    spread = sum(results_sizes[late - 50 : late]) / 50 if late > 80 else sum(results_sizes[40:late]) / (late - 40)
    table.notes.append(
        f"results.json: {whole / 1000:.0f} kB in the end; {spread / 1000:.1f} kB an episode on average before episode {late}"
    )
    table.notes.append(f"resume of the finished run {resumed:.2f} s, load {loaded:.2f} s (processor seconds)")
    return [table]


def _zoo() -> ModelZoo:
    return ModelZoo(backbone=mlp_100, recipe=Recipe(epochs=1, device="cpu"))


def _yardstick() -> float:
    """Seconds of a fixed piece of training: how fast the machine is just now."""
    net = bare.net_for("mlp-100", (1, 8, 8))
    x, y = torch.zeros(16, 1, 8, 8), torch.arange(16) % 5
    return bare.train(nn.Sequential(net.backbone, net.head("task")), [(x, y)] * 30)


def _seconds(work: object) -> float:
    started = process_time()
    work()  # type: ignore[operator]
    return process_time() - started


class _counting:  # noqa: N801 (read as a verb)
    """Notes every file that `files.replace_file` puts in its place."""

    def __enter__(self) -> Written:
        written, self.replace = Written(), files.os.replace

        def replace(source: Path, target: Path) -> None:
            self.replace(source, target)
            written.note(Path(target))

        files.os.replace = replace  # type: ignore[assignment]
        return written

    def __exit__(self, *_: object) -> None:
        files.os.replace = self.replace
