"""A year of an owned zoo in minutes: it learns or grows every day, is asked, undone, made to forget and pruned, and is served.

Three days of four bring a new task, others more rows of a known one, or a class that is new in it.

What should be flat at its end is: memory, open files, and the files of the folder for as many tasks as it then knows.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import process_time, sleep
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import torch

import zoolearn
from benchmarks.scale import task
from benchmarks.tables import Table
from zoolearn.data.task import Examples, Task
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.serve.app import make_app
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.server import make_server, open_socket
from zoolearn.zoo.serve.service import Service

DAYS, MOST_TASKS = 365, 30


def measure(*, quick: bool) -> list[Table]:
    """The state of things at the end of each fifth of the year."""
    days = 60 if quick else DAYS
    table = Table(
        f"{days} days of a zoo of at most {MOST_TASKS} tasks",
        ["day", "tasks", "files", "MB on disk", "open files", "MB of memory", "CPU s per day"],
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "zoo"
        zoolearn.new(folder, epochs=1, tasks_per_episode=3)
        zoolearn.open(folder).learn(task(0))
        with _served(folder) as address:
            started = process_time()
            for day in range(1, days + 1):
                _day(folder, day, address)
                if day % (days // 5) == 0:
                    table.rows.append([*_state(folder, day), (process_time() - started) / (days // 5)])
                    started = process_time()
        problems = run_to_end(zoolearn.open(folder).verify())
    table.notes.append(f"verified at the end: {problems or 'whole'}")
    return [table]


def _day(folder: Path, day: int, address: str) -> None:
    """Learns a task, or lets one grow; some days that is taken back, or older ones are forgotten, or members pruned."""
    rng = np.random.default_rng(day)
    zoo = zoolearn.open(folder)
    known, draw = str(rng.choice(list(zoo.tasks))), rng.random()
    if draw < 0.75:
        zoo.learn(task(day))
    elif draw < 0.9:
        zoo.learn(replace(task(day), name=known))
    else:
        zoo.learn(_with_class(task(day), known, f"kind {day}"), new_classes="any")
    if rng.random() < 0.15:
        zoo.undo()
    while len(zoo.tasks) > MOST_TASKS:
        zoo.forget(next(iter(zoo.tasks)))
    if day % 30 == 0:
        zoo.prune(loss=0.05)
        zoo.unprune() if day % 60 else zoo.commit_pruning()
    name = str(rng.choice(list(zoo.tasks)))
    rows = task(0).test.x[:2]
    body = json.dumps({"rows": rows.tolist()}).encode()
    url = f"{address}/tasks/{name.replace(' ', '%20')}/predict"
    assert len(_asked(url, body)["predictions"]) == len(zoo.predict(rows, name))


def _with_class(given: Task, known: str, kind: str) -> Task:
    """What a known task grows by, a third of it of a new class."""
    train, test = (Examples(rows.x, torch.arange(len(rows)) % 3) for rows in (given.train, given.test))
    return Task(known, train, test, (*given.classes, kind))


def _asked(url: str, body: bytes) -> Any:
    """The answer of the server, once it has noticed what the day has brought."""
    for _ in range(300):
        with (
            suppress(HTTPError),
            urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=120) as answer,
        ):
            return json.load(answer)
        sleep(0.1)
    raise AssertionError(f"{url} is not answered")


def _state(folder: Path, day: int) -> list[float]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    memory = Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]
    return [
        day,
        len(zoolearn.open(folder).tasks),
        len(files),
        sum(path.stat().st_size for path in files) / 1e6,
        len(os.listdir("/proc/self/fd")),
        int(memory) / 1e3,
    ]


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    service = Service(folder, Limits(), learns=False)
    opened = open_socket("127.0.0.1", 0)
    server = make_server(make_app(service), service)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        opened.close()
