"""`fit` against a bare loop over prepared float batches: the same net, the same batches, nothing but the steps."""

import torch
from torch import nn

from benchmarks import bare
from benchmarks.streams import task
from benchmarks.tables import Table
from benchmarks.timing import ratio, stopwatch, take_turns
from zoolearn.data.task import Task
from zoolearn.training.at_once import fit
from zoolearn.training.recipe import Recipe

SAMPLES = {  # per pass: enough steps for a steady figure, few enough for many rounds
    ("mlp", 16): 3200,
    ("mlp", 128): 12800,
    ("small-conv", 16): 320,
    ("small-conv", 128): 1024,
    ("resnet18-s", 16): 128,
    ("resnet18-s", 128): 256,
    ("wrn-16-4", 16): 48,
    ("wrn-16-4", 128): 128,
}
BARS = {"mlp 16": 0.80}


def measure(*, quick: bool) -> list[Table]:
    """A row for each net and batch size."""
    repeats = 3 if quick else 9
    table = Table("fit / bare loop, throughput", ["net", "batch", "bare samples/s", "fit", "fit, augmented", "bar"])
    for (backbone, batch), samples in SAMPLES.items():
        if quick and backbone in ("resnet18-s", "wrn-16-4"):
            continue
        shape = (1, 28, 28) if backbone == "mlp" else (3, 32, 32)
        kinds = ("crop",) if backbone == "mlp" else ("crop", "flip")
        data = task("task", shape, samples, 16, augment=kinds)
        seconds = take_turns(
            {
                "bare": lambda data=data, backbone=backbone, batch=batch: _bare(backbone, data, batch),
                "fit": lambda data=data, backbone=backbone, batch=batch: _fit(backbone, data, batch, "no"),
                "augmented": lambda data=data, backbone=backbone, batch=batch: _fit(backbone, data, batch, "yes"),
            },
            repeats,
        )
        table.rows.append(
            [
                backbone,
                batch,
                round(samples / min(seconds["bare"])),
                ratio(seconds, "fit", "bare"),
                ratio(seconds, "augmented", "bare"),
                BARS.get(f"{backbone} {batch}", 0.95),
            ]
        )
    table.notes.append(
        "1.00: nothing but the steps. Processor time of one thread, contenders in turn, median of rounds."
    )
    return [table, _layouts(repeats)]


def _layouts(repeats: int) -> Table:
    data = task("task", (3, 32, 32), 320, 16)
    x = (data.train.x.float() / 255 - 0.5) / 0.25
    batches = list(zip(x.split(16), data.train.y.split(16), strict=True))
    seconds = take_turns(
        {
            "usual": lambda: bare.train(bare.usual_small_conv(), batches),
            "fit": lambda: _fit("small-conv", data, 16, "no"),
            "usual answers": lambda: bare.evaluate(bare.usual_small_conv(), [part for part, _ in batches]),
            "our answers": lambda: bare.evaluate(_model("small-conv", data), [rows for rows, _ in _batches(data, 16)]),
        },
        repeats,
    )
    table = Table("small-conv, batch 16, against the usual layout", ["what", "times faster", "bar"])
    table.rows.append(["fit / bare loop of NCHW, ReLU then pool", ratio(seconds, "fit", "usual"), 1.4])
    table.rows.append(["forward passes", ratio(seconds, "our answers", "usual answers"), "-"])
    return table


def _fit(backbone: str, data: Task, batch: int, augment: str) -> float:
    net = bare.net_for(backbone, data.shape)
    recipe = Recipe(epochs=1, batch_size=batch, augment=augment, dropout=0.0, device="cpu")  # type: ignore[arg-type]
    with stopwatch() as watch:
        fit(net, [data], recipe, seed=0)
    return watch.seconds


def _bare(backbone: str, data: Task, batch: int) -> float:
    return bare.train(_model(backbone, data), _batches(data, batch))


def _model(backbone: str, data: Task) -> nn.Module:
    net = bare.net_for(backbone, data.shape)
    return nn.Sequential(net.backbone, net.head("task"))


def _batches(data: Task, batch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """As `fit` makes them: floats, channels last."""
    x = (data.train.x.float() / 255 - 0.5) / 0.25
    if data.shape[0] == 3:
        x = x.contiguous(memory_format=torch.channels_last)
    return list(zip(x.split(batch), data.train.y.split(batch), strict=True))
