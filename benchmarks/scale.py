"""A zoo of ten, a hundred, a thousand, ten thousand tasks: what should be flat is flat, the rest is linear.

Zoos are written through the package's own classes, with members that were never trained: what is stored, read and written
is the same. Then a task is learned, asked about and undone as people do it. Start-up, the interpreter and imports, is not
counted: each piece of work opens the folder again, in a program that has imported everything. Recognising fits what tells
tasks apart first, which a server does once for each state.
"""

import io
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import reduce
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
import torch
from msgspec.structs import replace as changed
from torch import Tensor

import zoolearn
from benchmarks.tables import Table
from benchmarks.timing import Contender, ratio, stopwatch, take_turns
from zoolearn import cli
from zoolearn.data.task import Examples, Task
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.nets.net import Net
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.disk.entries import EpisodeEntry, Measure
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.intake.intake import store_task
from zoolearn.zoo.learning.episode import make_entry, now
from zoolearn.zoo.serve.app import make_app
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.listing import Listing
from zoolearn.zoo.serve.service import Service

SIZES = (10, 100, 1_000, 10_000)
ROWS, HELD, WIDTH, BESIDE, REPEATS = 20, 4, 16, 4, 5
VOTERS = 4  # members that answer for the task that is asked about, in every zoo
AT_ONCE = 25  # tasks in one commit of a zoo that is written
FLAT, PAGED, LINEAR = "at most 1.5", "at most 1.5 from 100 on", "linear"


def measure(*, quick: bool) -> list[Table]:
    """Processor seconds for each number of tasks, and how many times those of ten tasks a thousand take."""
    sizes = SIZES[:2] if quick else SIZES
    last = min(sizes[-1], 1_000)
    table = Table(
        "a zoo of many tasks: processor seconds, and bytes",
        ["what", *(f"{size:,} tasks" for size in sizes), f"{last:,} / 10", "bar"],
    )
    with tempfile.TemporaryDirectory(prefix="zoo-scale-") as place:
        for size in sizes:
            grown(Path(place, str(size)), size)
        works = {size: pieces(Path(place, str(size)), size) for size in sizes}
        for what, (_, bar) in works[10].items():
            work = {str(size): works[size][what][0] for size in sizes}
            found = {size: [once()] for size, once in work.items()} if bar == LINEAR else take_turns(work, REPEATS)
            values = [median(found[str(size)]) for size in sizes]
            table.rows.append([what, *values, ratio(found, "10", str(last)), bar])
    return [table]


def task(number: int) -> Task:
    """A table of 20 rows, 4 of them held out."""
    rng = np.random.default_rng(number)
    labels = torch.arange(ROWS) % 2
    x = torch.from_numpy(rng.normal(size=(ROWS, WIDTH)).astype(np.float32)) + labels[:, None]
    return Task(f"task {number}", Examples(x[HELD:], labels[HELD:]), Examples(x[:HELD], labels[:HELD]), ("no", "yes"))


def grown(folder: Path, tasks: int) -> None:
    """A zoo that knows this many tasks; each member but the first few knows four drawn before it."""
    zoo = zoolearn.new(folder, epochs=3)
    zoo.learn(task(0))
    rng = np.random.default_rng(0)
    learner = zoo.settings.learner()
    nets = [learner.new_net(map(task, range(known)), seed=0) for known in range(1, BESIDE + 2)]  # by their heads
    for start in range(1, tasks, AT_ONCE):
        with patch("os.fsync"), zoo.folder.begin_change() as index:  # nobody waits for the disk here
            numbers = range(start, min(tasks, start + AT_ONCE))
            done = reduce(lambda known, number: _with_task(zoo.folder, known, number, nets, rng), numbers, index)
            zoo.folder.commit(done)


def _with_task(folder: ZooFolder, index: Index, number: int, nets: list[Net], rng: np.random.Generator) -> Index:
    """The zoo after an episode in which a member came that was never trained; it differs from others by one number."""
    index, arrival = store_task(folder, index, task(number))
    names = [arrival.task, *(f"task {place}" for place in rng.choice(number, min(BESIDE, number), replace=False))]
    net = nets[len(names) - 1]
    made = Member(net, {name: Vote(1.0, arrival.classes) for name in names}, 0.1, number)
    index = index.with_arrival(arrival)
    votes: dict[str, Tensor] = {}
    for place in range(len(names)):
        chance = torch.from_numpy(rng.random(ROWS).astype(np.float32))
        votes |= {
            f"test.{place}": torch.stack([chance[:HELD], 1 - chance[:HELD]], dim=1),
            f"train.{place}": chance[HELD:],
        }
    state = {**net.state_dict(), "heads.0.bias": torch.full((2,), float(number))}
    file, size = folder.store_tensors("members", state)
    digest, _ = folder.store_tensors("votes", votes)
    entry = changed(make_entry(made, number + 1, names, number, 0.1), file=file, votes=digest, bytes=size)
    measures = {name: Measure(0.5, 0.5, 0.5, float(rng.uniform(0.1, 1.0))) for name in names}
    ended = EpisodeEntry(number + 1, arrival.task, tuple(names), now(), measures)
    return index.with_member(entry).end_episode(ended).with_log("learned", now(), arrival.task, "by hand")


def pieces(folder: Path, tasks: int) -> dict[str, tuple[Contender, str]]:
    """What people do with a zoo, and its bar."""
    rows, index = task(0).test.x[:1], ZooFolder(folder).read()
    middle = sorted(range(tasks), key=lambda number: abs(number - tasks // 2))
    name = next(f"task {number}" for number in middle if len(index.voters(f"task {number}")) == VOTERS)

    def show(*options: str) -> Contender:
        return _seconds(lambda: _said("show", str(folder), *options))

    def listed() -> float:
        service = Service(folder, Limits(), learns=False)
        return _seconds(lambda: Listing(service.live, "zoo", learns=False).tasks("", None, 100))()

    return {
        "learn one more, 3 epochs": (lambda: _learned(folder)[0], FLAT),
        "bytes written by it": (lambda: _learned(folder)[1], FLAT),
        "undo": (lambda: _learned(folder)[2], FLAT),
        "predict 1 row": (_seconds(lambda: zoolearn.open(folder).predict(rows, name)), FLAT),
        "zoo log": (_seconds(lambda: _said("log", str(folder))), FLAT),
        "start a server": (_seconds(lambda: make_app(Service(folder, Limits(), learns=False))), FLAT),
        "GET /tasks, made": (listed, PAGED),
        "read the contents": (_seconds(lambda: ZooFolder(folder).read()), LINEAR),
        "zoo show": (show(), LINEAR),
        "zoo show --all": (show("--all"), LINEAR),
        "verify": (_seconds(lambda: run_to_end(zoolearn.open(folder).verify())), LINEAR),
        "recognise 1 row": (_seconds(lambda: zoolearn.open(folder).recognise(rows, sure=0.0)), LINEAR),
        "forget that task": (_seconds(lambda: zoolearn.open(folder).forget(name)), LINEAR),  # last: it is gone then
    }


def _learned(folder: Path) -> tuple[float, float, float]:
    """The seconds of an episode, the bytes that it writes, and the seconds of taking it back."""
    before = _bytes_written()
    learned = _seconds(lambda: zoolearn.open(folder).learn(task(1 << 20)))()
    written = _bytes_written() - before
    return learned, written, _seconds(lambda: zoolearn.open(folder).undo())()


def _seconds(work: Callable[[], object]) -> Contender:
    def measured() -> float:
        with stopwatch() as watch:
            work()
        return watch.seconds

    return measured


def _said(*words: str) -> None:
    with redirect_stdout(io.StringIO()):
        cli.main([*words])


def _bytes_written() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))
