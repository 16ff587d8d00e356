"""A served zoo under load, beside the bare model call; its memory over a million rows; a zoo that grows underneath.

The server has one core, the load generator (and whoever teaches the zoo meanwhile) the other. The bare call is
`Zoo.predict_proba` in a process on the server's core while the server idles, with as many rows as the server's calls had
on average, after each load.
"""

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import torch
from PIL import Image

import zoolearn
from benchmarks.streams import task
from benchmarks.tables import Table
from zoolearn.nets.backbones import BACKBONES
from zoolearn.training.recipe import Recipe
from zoolearn.zoo import Zoo

CORES = sorted(os.sched_getaffinity(0))
SERVER, OTHERS = {CORES[0]}, {CORES[-1]}
RAW = "application/octet-stream"
BAR = 0.7


def zoo_of(folder: Path, tasks: int, shape: tuple[int, int, int], backbone: str) -> Zoo:
    """A zoo whose first task is known by all members, taught in a moment."""
    zoo = zoolearn.new(
        folder, backbone=BACKBONES[backbone], recipe=Recipe(epochs=1, device="cpu"), tasks_per_episode=tasks
    )
    for number in range(tasks):
        zoo.learn(task(f"task-{number}", shape, 40, 20))
    return zoo


@dataclass(frozen=True)
class Served:
    """A server at work in a process of its own."""

    port: int
    process: int

    def get(self, path: str) -> str:
        return urlopen(f"http://127.0.0.1:{self.port}{path}").read().decode()

    def calls(self) -> tuple[int, float]:
        """Model calls so far, and the rows they had."""
        text = self.get("/metrics")
        count, rows = (re.search(rf"^zoo_batch_rows_{name} (\S+)$", text, re.MULTILINE)[1] for name in ("count", "sum"))
        return int(count), float(rows)

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "zoolearn", "serve", str(folder), "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            os.sched_setaffinity(process.pid, SERVER)
            assert process.stdout is not None
            port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
            served = Served(port, process.pid)
            served.get("/healthz")
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), SERVER)
            yield served
        finally:
            process.terminate()


def generator(served: Served, name: str, body: bytes, kind: str, connections: int, requests: int) -> subprocess.Popen:
    words = [str(served.port), name, kind, str(connections), str(requests)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    os.sched_setaffinity(process.pid, OTHERS)
    process.stdin.write(f"{len(body)}\n".encode() + body)
    process.stdin.flush()
    return process


def result(process: subprocess.Popen) -> dict:
    output, _ = process.communicate(b"\n")
    assert process.returncode == 0
    return json.loads(output)


def measure(*, quick: bool) -> list[Table]:
    with TemporaryDirectory() as place:
        return [
            _load(Path(place) / "load", quick),
            _memory(Path(place) / "memory", quick),
            _growth(Path(place) / "growth", quick),
        ]


def _load(folder: Path, quick: bool) -> Table:
    zoo = zoo_of(folder, 5, (3, 32, 32), "small-conv")
    table = Table(
        "five small-conv members, images of 3x32x32",
        ["form", "rows", "conns", "req/s", "rows/s", "p50 ms", "p99 ms", "errors", "rows/call", "bare rows/s", "ratio", "cpu ratio", "bar"],
        notes=[
            "bare: Zoo.predict_proba with as many rows as the server's calls had on average",
            "cpu ratio: the same in processor seconds a row, which other programs disturb less",
        ],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (256, 3, 32, 32), dtype=np.uint8)
    cases = [("raw", rows, connections) for rows in (1, 16) for connections in (1, 8, 64)]
    cases += [("json", 1, 64), ("png", 1, 64)]
    with serving(folder) as served:
        result(generator(served, "task-0", x[:1].tobytes(), RAW, 4, 50))  # to warm up
        for form, rows, connections in cases:
            body, kind = _body(form, x[:rows])
            requests = max(4 * connections, (200 if quick else 3000) // rows)
            (calls, asked), spent = served.calls(), served.seconds
            said = result(generator(served, "task-0", body, kind, connections, requests))
            spent, (after_calls, after_asked) = served.seconds - spent, served.calls()
            together = (after_asked - asked) / (after_calls - calls)
            bare, bare_seconds = _bare(zoo, torch.from_numpy(x[: max(1, round(together))]), 0.5 if quick else 4.0)
            speed = requests * rows / said["seconds"]
            half, most = np.percentile(said["latencies"], [50, 99])
            table.rows.append(
                [form, rows, connections, round(requests / said["seconds"]), round(speed), round(half, 1), round(most, 1),
                 said["errors"], round(together, 1), round(bare), speed / bare, bare_seconds * requests * rows / spent, BAR if connections == 64 and form == "raw" else "-"]
            )  # fmt: skip
    return table


def _body(form: str, x: np.ndarray) -> tuple[bytes, str]:
    if form == "raw":
        return x.tobytes(), RAW
    if form == "json":
        return json.dumps({"rows": x.tolist()}).encode(), "application/json"
    file = io.BytesIO()
    Image.fromarray(x[0].transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue(), "image/png"


def _bare(zoo: Zoo, x: torch.Tensor, seconds: float) -> tuple[float, float]:
    """Rows a second of the bare call on the server's core, and its processor seconds a row: medians of five parts."""
    os.sched_setaffinity(0, SERVER)
    torch.set_num_threads(1)
    zoo.predict_proba(x, "task-0")
    speeds, costs = [], []
    for _ in range(5):
        rows, started, processor = 0, time.perf_counter(), time.process_time()
        while (spent := time.perf_counter() - started) < seconds / 5:
            zoo.predict_proba(x, "task-0")
            rows += len(x)
        speeds.append(rows / spent)
        costs.append((time.process_time() - processor) / rows)
    os.sched_setaffinity(0, set(CORES))
    return median(speeds), median(costs)


def _memory(folder: Path, quick: bool) -> Table:
    zoo_of(folder, 2, (1, 8, 8), "mlp-100")
    table = Table(
        "memory of the server, two mlp-100 members, 256 rows a request, 8 connections",
        ["rows", "resident MB", "errors"],
    )
    body = bytes(256 * 64)
    with serving(folder) as served:
        for _ in range(3 if quick else 11):
            said = result(generator(served, "task-0", body, RAW, 8, 40 if quick else 391))
            table.rows.append([int(served.calls()[1]), round(served.megabytes, 1), said["errors"]])
    return table


def _growth(folder: Path, quick: bool) -> Table:
    zoo_of(folder, 1, (1, 8, 8), "mlp-100")
    episodes = 3 if quick else 20
    table = Table(f"{episodes} episodes learned underneath a load of 8 connections", ["what", "value", "bar"])
    with serving(folder) as served:
        load = generator(served, "task-0", bytes(64), RAW, 8, 0)
        code = f"from benchmarks.serve import grow; grow({str(folder)!r}, {episodes})"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as teacher:
            os.sched_setaffinity(teacher.pid, OTHERS)
            delays = [_delay(served, *line.split()) for line in teacher.stdout]
        said = result(load)
    half, most = np.percentile(said["latencies"], [50, 99])
    table.rows += [
        ["requests", len(said["latencies"]), "-"],
        ["failed requests", said["errors"], 0],
        ["p50 ms", round(half, 1), "-"],
        ["p99 ms", round(most, 1), "-"],
        ["seconds from commit to answer, median", round(median(delays), 2), "-"],
        ["seconds from commit to answer, longest", round(max(delays), 2), "at most 2"],
    ]
    return table


def grow(folder: str, episodes: int) -> None:
    """Learns new tasks, and says after each its name and the time of its commit."""
    torch.set_num_threads(1)
    zoo = zoolearn.open(folder)
    for number in range(episodes):
        zoo.learn(task(f"new-{number}", (1, 8, 8), 200, 50))
        print(f"new-{number}", os.stat(zoo.path / "zoo.json").st_mtime, flush=True)


def _delay(served: Served, name: str, committed: str) -> float:
    """Seconds from the commit of a task to its first answer."""
    while True:
        try:
            place = f"http://127.0.0.1:{served.port}/tasks/{name}/predict"
            urlopen(Request(place, bytes(64), {"Content-Type": RAW}))
            return time.time() - float(committed)
        except HTTPError as error:
            if error.code != 404:
                raise
            time.sleep(0.02)
