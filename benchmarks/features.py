"""Heads from statistics on pre-trained features: seconds, the bars on rows of their own drawing, growth, whole benchmarks.

All but the first table need an extractor: ZOOLEARN_EXTRACTOR=lite0.onnx python -m benchmarks features. Each picture of
CIFAR-100 passes through it once and is kept below the data root ($ZOOLEARN_DATA). Coarse: tasks are superclasses, draws take
the first and the last ten by turns; Split: random classes. A draw has 10 tasks of 5 classes, rows to learn from drawn out of
all 500 of a class, and all 100 test rows of each; told means that the task of a row is given.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import zoolearn
from benchmarks.serve import CORES, RAW, SERVER, Served, result, serving
from benchmarks.serve import generator as generator_of
from benchmarks.tables import Table
from benchmarks.timing import stopwatch
from zoolearn.beyond.by_statistics import StatInference, by_statistics
from zoolearn.beyond.stat_head import UNIT, stat_head
from zoolearn.data.benchmarks import benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.features import Extractor, embed_inputs
from zoolearn.features.cache import FeatureCache
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import identity
from zoolearn.seeds import derive, generator
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.learning.scores import Scores

SIZES = (
    (25, 320, 5),
    (100, 320, 5),
    (500, 320, 5),
    (500, 1280, 5),
    (1000, 320, 50),
    (5000, 320, 50),
    (50_000, 320, 100),
)
KINDS = ("coarse", "split")
DRAWS = {1: 20, 5: 20, 20: 10, 100: 4}  # of this many rows a class
BARS = {
    ("coarse", 1): (46.5, 11.0, 29.2, 3.7), ("split", 1): (70.3, 5.1, 33.1, 5.1),
    ("coarse", 5): (63.6, 5.0, 50.4, 2.4), ("split", 5): (84.9, 5.4, 55.6, 3.2),
    ("coarse", 20): (73.3, 2.4, 62.3, 2.9), ("split", 20): (90.4, 1.5, 66.2, 3.5),
    ("coarse", 100): (79.2, 1.9, 67.2, 3.6), ("split", 100): (92.5, 1.1, 70.8, 3.3),
}  # of the prototype, on two draws: accuracy and calibration error, told and not  # fmt: skip
LEEWAY = (-1.0, 1.5, -1.5, 1.5)


def measure(*, quick: bool) -> list[Table]:
    """All tables; those of accuracy only where an extractor is given."""
    tables = [_seconds(3 if quick else 9)]
    if "ZOOLEARN_EXTRACTOR" in os.environ:
        extractor = Path(os.environ["ZOOLEARN_EXTRACTOR"])
        tables += [_photographs(extractor), _served(extractor, 3 if quick else 9), _large(extractor, quick=quick)]
        rows = CifarRows.of(Extractor.of_file(extractor))
        draws = {count: 2 if quick else number for count, number in DRAWS.items()}
        tables += [
            _bars(rows, draws),
            _bars(rows.unseen(), {1: 2 if quick else 40}, first=1000),
            _growth(rows, 5 if quick else 30),
            _whole(rows, (20,) if quick else (20, 500)),
        ]
    return tables


def _seconds(repeats: int) -> Table:
    table = Table("a head from statistics, one core", ["rows", "features", "classes", "seconds", "bar"])
    for rows, d, classes in SIZES:
        x, labels = _noise(rows, d, classes), torch.arange(rows) % classes
        best = min(_timed(x, labels, classes) for _ in range(repeats))
        table.rows.append([rows, d, classes, best, 0.1 if (rows, d) == (500, 320) else ""])
    return table


def _noise(count: int, d: int, classes: int) -> Tensor:
    rng = generator(0)
    x = 0.5 * torch.randn(classes, d, generator=rng)[torch.arange(count) % classes] + torch.randn(
        count, d, generator=rng
    )
    x = x.relu()
    return (x / x.norm(dim=1, keepdim=True) * UNIT).round().clamp(max=UNIT - 1).to(torch.int16)


def _timed(rows: Tensor, labels: Tensor, classes: int) -> float:
    with stopwatch() as watch:
        stat_head(rows, labels, classes)
    return watch.seconds


def _photographs(extractor: Path) -> Table:
    """A folder of 200 photographs, half of 1.2 and half of 4 megapixels, learned from, and one asked about."""
    table = Table("200 photographs, processor seconds", ["what", "seconds", "bar"])
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "photographs"
        size = sum(_photograph(folder, number) for number in range(200)) / 200
        zoo = zoolearn.new(Path(temporary) / "zoo", features=extractor)
        _ = zoo.rows(next(folder.rglob("*.jpg")))  # opens the extractor: start-up
        with stopwatch() as learning:
            zoo.learn_from("things", folder)
        with stopwatch() as asking:
            zoo.predict(next(folder.rglob("*.jpg")), "things")
    table.rows = [
        ["learning", learning.seconds, ""],
        ["one answer", asking.seconds, ""],
        ["both", learning.seconds + asking.seconds, 4.0],
    ]
    table.notes.append(
        f"JPEG files of {size / 1e6:.2f} MB on average; reading, digests, features of both views, the head"
    )
    return table


def _photograph(folder: Path, number: int) -> int:
    """Writes one, smooth with noise as cameras make it; gives its bytes."""
    from PIL import Image

    rng = np.random.default_rng(number)
    width, height = (1280, 960) if number % 2 else (2310, 1732)
    look = rng.integers(0, 256, (60, 80, 3)) // 2 + rng.integers(0, 256, (1, 1, 3)) // 2
    smooth = Image.fromarray(look.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    noisy = np.asarray(smooth) + rng.normal(0, 7, (height, width, 3))
    path = folder / f"thing {number // 2 % 5}" / f"{number}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=80)
    return path.stat().st_size


def _served(extractor: Path, rounds: int) -> Table:
    """A served zoo at 64 connections, and the bare extractor on the same core, by turns; a row is a raw picture."""
    table = Table(
        "serving at 64 connections, medians",
        ["what", "rows/s", "processor ms a row", "share of bare", "in rows/s", "bar"],
    )
    with TemporaryDirectory() as temporary:
        zoo = zoolearn.new(Path(temporary) / "zoo", features=extractor)
        assert zoo.extractor is not None
        x = np.random.default_rng(0).integers(0, 256, (40, *(zoo.settings.shape or ())), dtype=np.uint8)
        examples = Examples(torch.from_numpy(x), torch.arange(40) % 2)
        train, test = examples.select(torch.arange(4, 40)), examples.select(torch.arange(4))
        zoo.learn(Task("things", train, test, ("this", "that")))
        with serving(zoo.path) as served:
            result(generator_of(served, "things", x[:1].tobytes(), RAW, 4, 20))  # to warm up
            found = [(*_served_round(served, x[:1]), *_bare_round(zoo.extractor, x)) for _ in range(rounds)]
    speeds, costs, bare_speeds, bare_costs = map(median, zip(*found, strict=True))
    share = median(bare / cost for _, cost, _, bare in found)
    in_speed = median(speed / bare for speed, _, bare, _ in found)
    table.rows = [
        ["served", round(speeds), 1e3 * costs, share, in_speed, 0.8],
        ["bare, both views", round(bare_speeds), 1e3 * bare_costs, "", "", ""],
    ]
    table.notes.append(
        "share of bare: in processor seconds a row, which other programs disturb less than rows a second"
    )
    return table


def _served_round(served: Served, x: NDArray[np.uint8], requests: int = 256) -> tuple[float, float]:
    spent = served.seconds
    said = result(generator_of(served, "things", x.tobytes(), RAW, 64, requests))
    assert not said["errors"]
    return requests / said["seconds"], (served.seconds - spent) / requests


def _bare_round(extractor: Extractor, x: NDArray[np.uint8], rows: int = 256) -> tuple[float, float]:
    os.sched_setaffinity(0, SERVER)
    started, processor = time.perf_counter(), time.process_time()
    for row in range(rows):
        embed_inputs(extractor, x[row % len(x)][None])
    spent, cost = time.perf_counter() - started, time.process_time() - processor
    os.sched_setaffinity(0, set(CORES))
    return rows / spent, cost / rows


def _large(extractor: Path, *, quick: bool) -> Table:
    """The highest memory of `zoo learn` on folders of many photographs, each folder in a process of its own."""
    columns = ["photographs", "megapixels", "extractor", "peak MB", "bar", "processor ms each"]
    table = Table("a folder of many photographs", columns)
    with TemporaryDirectory() as temporary:
        for count in (20, 60) if quick else (100, 400, 1600):
            folder = Path(temporary) / f"large {count}"
            size = _cuts(folder, count, (4000, 3000))
            table.rows.append([count, 12, "the one above", *_learned_apart(folder, extractor, count)])
            table.notes = [f"photographs of 12 megapixels are JPEG files of {size / 1e6:.1f} MB"]
            shutil.rmtree(folder)
        for count in (2000,) if quick else (5000, 50_000):
            folder = Path(temporary) / f"small {count}"
            _cuts(folder, count, (32, 24))
            table.rows.append([count, 0.001, "a light one, 320", *_learned_apart(folder, None, count)])
    return table


def _cuts(folder: Path, count: int, size: tuple[int, int]) -> float:
    """Writes JPEG files of random parts of one photograph, in two classes; gives their bytes on average."""
    from PIL import Image

    rng, (width, height) = np.random.default_rng(0), size
    look = rng.integers(0, 256, (60, 80, 3)).astype(np.uint8)
    smooth = Image.fromarray(look).resize((width + 400, height + 300), Image.Resampling.BICUBIC)
    noisy = (np.asarray(smooth) + rng.normal(0, 7, (height + 300, width + 400, 3))).clip(0, 255).astype(np.uint8)
    places = rng.choice(400 * 300, count, replace=False)
    for number, (top, left) in enumerate(zip(places // 400, places % 400, strict=True)):
        path = folder / f"thing {number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy[top : top + height, left : left + width]).save(path, quality=80)
    return fmean(path.stat().st_size for path in folder.rglob("*.jpg"))


def _learned_apart(folder: Path, extractor: Path | None, count: int) -> tuple[int, int, float]:
    code = (
        f"from benchmarks.features import learn_large; learn_large({str(folder)!r}, {extractor and str(extractor)!r})"
    )
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    peak, seconds = map(float, said.stdout.split())
    return round(peak), 1500, 1e3 * seconds / count


def learn_large(folder: str, extractor: str | None) -> None:
    """Learns from a folder, and says its highest resident memory in MB and the processor seconds that it took."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as temporary:
        place = Path(temporary) / "zoo"
        zoo = zoolearn.new(place, features=extractor) if extractor else zoolearn.new(place, features=light, size=16)
        with stopwatch() as watch:
            zoo.learn_from("things", Path(folder))
    status = Path("/proc/self/status").read_text(
        encoding="ascii"
    )  # what getrusage tells began with the parent's memory
    print(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e3, watch.seconds)


LIGHT = np.random.default_rng(0).normal(size=(3 * 16 * 16, 320)).astype(np.float32)


def light(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """320 features that cost next to nothing."""
    return pictures.reshape(len(pictures), -1).astype(np.float32) @ LIGHT


@dataclass(frozen=True)
class CifarRows:
    """The features of CIFAR-100 by class, and the classes of its superclasses."""

    superclasses: Sequence[Sequence[str]]
    train: Mapping[str, Tensor]
    test: Mapping[str, Tensor]

    @classmethod
    def of(cls, extractor: Extractor) -> "CifarRows":
        cache = FeatureCache(extractor)
        coarse = benchmark("coarse-cifar100")
        train: dict[str, Tensor] = {}
        test: dict[str, Tensor] = {}
        for task in coarse:
            for part, found in ((task.train, train), (task.test, test)):
                rows = torch.from_numpy(cache.rows(part.x, task.name))
                found |= {name: rows[part.y == label] for label, name in enumerate(task.classes)}
        return cls([task.classes for task in coarse], train, test)

    def unseen(self) -> "CifarRows":
        """Of the rows to learn from, 40 of each class that no draw of one row took, and 100 more to test on."""
        places = {name: unseen_places(name)[:140] for name in self.train}
        train = {name: self.train[name][found[:40]] for name, found in places.items()}
        return CifarRows(
            self.superclasses, train, {name: self.train[name][found[40:]] for name, found in places.items()}
        )

    def groups(self, kind: str, draw: int) -> Sequence[Sequence[str]]:
        """The classes of 20 tasks, of which a draw takes the first 10."""
        if kind == "coarse":
            return self.superclasses if draw % 2 == 0 else self.superclasses[::-1]
        names = np.random.default_rng(derive(draw, "classes")).permutation(sorted(self.train)).tolist()
        return [names[first : first + 5] for first in range(0, 100, 5)]

    def task(self, name: str, counts: Mapping[str, int], draw: int) -> Task:
        """So many random rows of each class to learn from, and all test rows."""
        train = [
            self.train[kind][_drawn_places(draw, kind, len(self.train[kind]))[:count]] for kind, count in counts.items()
        ]
        return Task(name, *map(_examples, (train, [self.test[kind] for kind in counts])), tuple(counts))


def _drawn_places(draw: int, kind: str, rows: int) -> Tensor:
    return torch.randperm(rows, generator=generator(derive(draw, kind)))


def unseen_places(name: str) -> list[int]:
    """The rows of a class that no draw of one row takes, in an order of chance."""
    seen = {int(_drawn_places(derive(draw, kind, 1), name, 500)[0]) for kind in KINDS for draw in range(DRAWS[1])}
    return [place for place in _drawn_places(derive(0, "unseen"), name, 500).tolist() if place not in seen]


def _examples(parts: Sequence[Tensor]) -> Examples:
    sizes = torch.tensor([len(part) for part in parts])
    return Examples(torch.cat(list(parts)), torch.repeat_interleave(torch.arange(len(parts)), sizes))


def _learned(tasks: Sequence[Task]) -> ModelZoo:
    zoo = ModelZoo(backbone=identity, recipe=Recipe(device="cpu"), tasks_per_episode=1, grow=by_statistics)
    for task in tasks:
        zoo.learn(task)
    return zoo


def _scored(tasks: Sequence[Task]) -> tuple[Scores, Scores]:
    """How the rows of tasks are answered where their task is told, and where it is not."""
    zoo, which = _learned(tasks), StatInference(tasks)
    told = torch.cat([zoo.predict_proba(task.test.x, task.name) for task in tasks])
    labels = torch.cat([task.test.y for task in tasks])
    first = Scores.of(told, labels, tuple(map(str, range(told.shape[1]))))
    return first, Scores.of(*_untold(which, tasks))


def _untold(which: StatInference, tasks: Sequence[Task]) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """What is said of all classes: how likely the task is, times how likely the class is in it."""
    said, labels, first = [], [], 0
    for task in tasks:
        chances = which.infer(task.test.x).chances
        parts = [chances[:, [place]] * which.answer(task.test.x, name)[0] for place, name in enumerate(which.tasks)]
        said.append(torch.cat(parts, dim=1))
        labels.append(task.test.y + first)
        first += len(task.classes)
    return torch.cat(said), torch.cat(labels), tuple(map(str, range(first)))


def _bars(rows: CifarRows, draws: Mapping[int, int], first: int = 0) -> Table:
    """So many draws of so many rows a class, from the draw of this number on."""
    columns = ["tasks", "rows a class", "draws"]
    for name in ("told", "told ece", "not told", "not told ece"):
        columns += [name, "bar"]
    unseen = ", rows that chose nothing" if first else ""
    table = Table(f"10 tasks of 5 classes, percent{unseen}", [*columns, "sd told", "log-loss"])
    for kind in KINDS:
        for count, number in draws.items():
            found = list(_drawn(rows, kind, count, range(first, first + number)))
            measured = [fmean(column) for column in zip(*found, strict=True)]
            bars = [value + more for value, more in zip(BARS[kind, count], LEEWAY, strict=True)]
            cells = [cell for pair in zip(measured, bars, strict=False) for cell in pair]
            table.rows.append([kind, count, number, *cells, stdev(values[0] for values in found), measured[4]])
    return table


def _drawn(rows: CifarRows, kind: str, count: int, draws: range) -> Iterator[tuple[float, ...]]:
    for draw in draws:
        groups = rows.groups(kind, draw)[:10]
        tasks = [
            rows.task(str(place), dict.fromkeys(group, count), derive(draw, kind, count))
            for place, group in enumerate(groups)
        ]
        yield _percent(*_scored(tasks))


def _percent(told: Scores, untold: Scores) -> tuple[float, ...]:
    shares = (told.accuracy.value, told.calibration_error, untold.accuracy.value, untold.calibration_error)
    return (*(100 * share for share in shares), told.log_loss)


def _growth(rows: CifarRows, growths: int) -> Table:
    """A class of few rows beside four of 100."""
    table = Table(
        "a new class beside four of 100 rows, percent", ["its rows", "growths", "recall", "bar", "accuracy", "bar"]
    )
    for count, bars in ((2, ("", "")), (5, (64.0, 75.0)), (20, ("", ""))):
        recalls, accuracies = [], []
        for draw in range(growths):
            names = rows.superclasses[draw % 20]
            new = names[draw // 20 % 5]
            task = rows.task("grown", {name: count if name == new else 100 for name in names}, derive(draw, "growth"))
            said = _learned([task]).predict_proba(task.test.x, "grown").argmax(dim=1)
            right = (said == task.test.y).double()
            recalls.append(100 * float(right[task.test.y == names.index(new)].mean()))
            accuracies.append(100 * float(right.mean()))
        table.rows.append([count, growths, fmean(recalls), bars[0], fmean(accuracies), bars[1]])
    return table


def _whole(rows: CifarRows, counts: Sequence[int]) -> Table:
    columns = ["benchmark", "rows a class", "told", "told ece", "not told", "not told ece", "log-loss", "seconds"]
    table = Table("all 20 tasks, percent; seconds to learn and answer", columns)
    for kind in KINDS:
        for count in counts:
            groups = rows.groups(kind, 0)
            tasks = [rows.task(str(place), dict.fromkeys(group, count), 0) for place, group in enumerate(groups)]
            with stopwatch() as watch:
                found = _percent(*_scored(tasks))
            table.rows.append([kind, count, *found, watch.seconds])
    return table
