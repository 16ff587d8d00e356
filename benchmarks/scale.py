"""A zoo of ten, a hundred, a thousand, ten thousand tasks: what should be flat is flat, the rest is linear.

Zoos are written through the package's own classes, with members that were never trained: what is stored, read and written
is the same. Then a task is learned, asked about and undone as people do it. Start-up, the interpreter and imports, is not
counted: each piece of work opens the folder again, in a program that has imported everything.
"""

import io
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import reduce
from math import nan
from pathlib import Path
from statistics import median
from time import process_time
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import zoolearn
from benchmarks.tables import Table
from zoolearn import cli
from zoolearn.data.task import Examples, Task
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.disk.entries import EpisodeEntry, Measure
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.intake.intake import store_task
from zoolearn.zoo.learning.episode import entry_of, now, write_member
from zoolearn.zoo.serve.app import make_app
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.listing import Listing
from zoolearn.zoo.serve.service import Service

SIZES = (10, 100, 1_000, 10_000)
ROWS, WIDTH, BESIDE, REPEATS = 20, 16, 4, 5
MOST_RECOGNISED = 1_000  # tasks
VOTERS = 4  # members that answer for the task that is asked about, in every zoo
AT_ONCE = 100  # tasks in one commit of a zoo that is written
FLAT, LINEAR = "at most 1.5", "linear"


def measure(*, quick: bool) -> list[Table]:
    """Processor seconds for each number of tasks, and how many times those of ten tasks a thousand take."""
    sizes = SIZES[:2] if quick else SIZES
    found = {size: of_size(size) for size in sizes}
    last = sizes[-1] if quick else 1_000
    table = Table(
        "a zoo of many tasks: processor seconds, and bytes",
        ["what", *(f"{size:,} tasks" for size in sizes), f"{last:,} / 10", "bar"],
    )
    for what, (_, bar) in found[10].items():
        values = [found[size][what][0] for size in sizes]
        table.rows.append([what, *values, found[last][what][0] / found[10][what][0], bar])
    return [table]


def task(number: int) -> Task:
    """A table of 20 rows, 4 of them held out."""
    rng = np.random.default_rng(number)
    labels = torch.arange(ROWS) % 2
    x = torch.from_numpy(rng.normal(size=(ROWS, WIDTH)).astype(np.float32)) + labels[:, None]
    return Task(f"task {number}", Examples(x[4:], labels[4:]), Examples(x[:4], labels[:4]), ("no", "yes"))


def grown(folder: Path, tasks: int) -> None:
    """A zoo that knows this many tasks; each member but the first few knows four drawn before it."""
    zoo = zoolearn.new(folder, epochs=3)
    zoo.learn(task(0))
    rng = np.random.default_rng(0)
    for start in range(1, tasks, AT_ONCE):
        with patch("os.fsync"), zoo.folder.writing() as index:  # nobody waits for the disk here
            numbers = range(start, min(tasks, start + AT_ONCE))
            done = reduce(lambda known, number: _with_task(zoo.folder, known, number, rng), numbers, index)
            zoo.folder.commit(done)


def _with_task(folder: ZooFolder, index: Index, number: int, rng: np.random.Generator) -> Index:
    """The zoo after an episode in which a member came that was never trained."""
    learner = index.settings.learner()
    index, arrival = store_task(folder, index, task(number))
    drawn = rng.choice(number, min(BESIDE, number), replace=False)
    names = [arrival.task, *(f"task {place}" for place in drawn)]
    net = learner.new_net([task(number), *map(task, drawn)], number).freeze()
    made = Member(net, {name: Vote(1.0, arrival.classes) for name in names}, 0.1, number)
    index = index.with_arrival(arrival)
    index = index.with_member(
        write_member(folder, index, entry_of(made, number + 1, names, number, 0.1), net, learner.recipe, {})
    )
    measures = {name: Measure(0.5, 0.5, 0.5, float(rng.uniform(0.1, 1.0))) for name in names}
    ended = EpisodeEntry(number + 1, arrival.task, tuple(names), now(), measures)
    return index.ended(ended).after("learned", now(), arrival.task, "by hand")


def of_size(tasks: int) -> dict[str, tuple[float, str]]:
    """What each piece of work takes, and its bar."""
    place = Path(tempfile.mkdtemp(prefix="zoo-scale-"))
    folder = place / "zoo"
    try:
        grown(folder, tasks)
        return {**_changes(folder), **_questions(folder, tasks), **_server(folder)}
    finally:
        shutil.rmtree(place)


def _changes(folder: Path) -> dict[str, tuple[float, str]]:
    learned, bytes_written, undone = [], [], []
    for _ in range(REPEATS + 1):
        before = _bytes_written()
        learned.append(_seconds(lambda: zoolearn.open(folder).learn(task(1 << 20))))
        bytes_written.append(_bytes_written() - before)
        undone.append(_seconds(lambda: zoolearn.open(folder).undo()))
    return {
        "learn one more, 3 epochs": (median(learned[1:]), FLAT),
        "bytes written by it": (median(bytes_written[1:]), FLAT),
        "undo": (median(undone[1:]), FLAT),
    }


def _questions(folder: Path, tasks: int) -> dict[str, tuple[float, str]]:
    rows, index = task(0).test.x[:1], ZooFolder(folder).read()
    middle = sorted(range(tasks), key=lambda number: abs(number - tasks // 2))
    name = next(f"task {number}" for number in middle if len(index.voters(f"task {number}")) == VOTERS)
    return {
        "predict 1 row": (_often(lambda: zoolearn.open(folder).predict(rows, name)), FLAT),
        "zoo log": (_often(lambda: _said("log", str(folder))), FLAT),
        "read the index": (_often(lambda: ZooFolder(folder).read()), LINEAR),
        "zoo show": (_often(lambda: _said("show", str(folder))), LINEAR),
        "zoo show --all": (_seconds(lambda: _said("show", str(folder), "--all")), LINEAR),
        "verify": (_seconds(lambda: run_to_end(zoolearn.open(folder).verify())), LINEAR),
        "recognise 1 row": (_recognised(folder, rows) if tasks <= MOST_RECOGNISED else nan, LINEAR),
    }


def _recognised(folder: Path, rows: Tensor) -> float:
    """With the fit of what tells tasks apart, which a server makes once for each state."""
    return _seconds(lambda: zoolearn.open(folder).recognise(rows, sure=0.0))


def _server(folder: Path) -> dict[str, tuple[float, str]]:
    """From nothing to a server that can listen, and the first page of a list."""
    service = Service(folder, Limits(), learns=False)
    return {
        "start a server": (_often(lambda: make_app(Service(folder, Limits(), learns=False))), FLAT),
        "GET /tasks, made": (
            _often(lambda: Listing(service.live, "zoo", learns=False).tasks("", None, 100)),
            FLAT,
        ),
    }


def _often(work: Callable[[], object]) -> float:
    return median([_seconds(work) for _ in range(REPEATS + 1)][1:])


def _seconds(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


def _said(*words: str) -> None:
    with redirect_stdout(io.StringIO()):
        cli.main([*words])


def _bytes_written() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))
