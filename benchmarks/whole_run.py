"""Whole runs against the sum of what cannot be left out: the training steps, and one pass for each new vote."""

import tempfile

import torch
from torch import nn

from benchmarks import bare
from benchmarks.streams import stream
from benchmarks.tables import Table
from benchmarks.timing import ratio, stopwatch, take_turns
from zoolearn.data.stream import Benchmark
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.learner import Learner
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.runs.run import run
from zoolearn.training.recipe import Recipe


def measure(*, quick: bool) -> list[Table]:
    """Model Zoo and Isolated with small-conv on a made-up stream of 20 tasks of 32x32 colour images."""
    tasks = stream(5 if quick else 20, (3, 32, 32), 160, 32)
    table = Table(
        f"{len(tasks)} tasks, small-conv, batch 16",
        ["method", "run / (bare training + least evaluation)", "bar", "rows evaluated / least", "bar "],
    )
    for name, method in (("model-zoo", ModelZoo), ("isolated", Isolated)):
        trained, evaluated = _least(method, tasks)
        seconds = take_turns(
            {
                "bare": lambda trained=trained, evaluated=evaluated: _bare(trained, evaluated),
                "run": lambda method=method: _run(method, tasks),
            },
            1 if quick else 3,
        )
        counted = _evaluated_rows(method, tasks)
        table.rows.append([name, 1 / ratio(seconds, "run", "bare"), 1.10, counted / evaluated, 1.00])
    table.notes.append("rows evaluated: counted in the run, but for the timing of answers after the last episode")
    return [table]


def _learner(method: type[Learner]) -> Learner:
    return method(backbone=BACKBONES["small-conv"], recipe=Recipe(epochs=1, device="cpu"))


def _least(method: type[Learner], tasks: Benchmark) -> tuple[int, int]:
    """Rows that must be trained on, and rows that must be evaluated: an episode's tasks, for weights and for accuracy."""
    results = run(_learner(method), tasks)
    size = {task.name: (len(task.train), len(task.test)) for task in tasks}
    trained = sum(size[name][0] for episode in results.episodes for name in episode.tasks)
    tested = sum(size[name][1] for episode in results.episodes for name in episode.tasks)
    return trained, tested + (0 if method is Isolated else trained)


def _run(method: type[Learner], tasks: Benchmark) -> float:
    with tempfile.TemporaryDirectory() as folder, stopwatch() as watch:
        run(_learner(method), tasks, folder)
    return watch.seconds


def _bare(trained: int, evaluated: int) -> float:
    net = bare.net_for("small-conv", (3, 32, 32))
    model = nn.Sequential(net.backbone, net.head("task"))
    layout = torch.channels_last
    x, y = torch.zeros(16, 3, 32, 32).contiguous(memory_format=layout), torch.arange(16) % 5
    answers = torch.zeros(16, 3, 32, 32).contiguous(memory_format=layout)
    return bare.train(model, [(x, y)] * (trained // 16)) + bare.evaluate(model, [answers] * (evaluated // 16))


def _evaluated_rows(method: type[Learner], tasks: Benchmark) -> int:
    """Rows that pass through a net in evaluation mode while a run goes on."""
    rows = 0
    embed = Net.embed

    def counting(net: Net, x: torch.Tensor) -> torch.Tensor:
        nonlocal rows
        rows += 0 if net.training else len(x)
        return embed(net, x)

    learner = _learner(method)
    Net.embed = counting  # type: ignore[method-assign]
    try:
        for number, task in enumerate(tasks, 1):
            learner.learn(task)
            learner.evaluate(tasks.tasks[:number])
    finally:
        Net.embed = embed  # type: ignore[method-assign]
    return rows
