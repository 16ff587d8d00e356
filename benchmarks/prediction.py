"""Asking a zoo about a task that 1, 5 or 20 members know, against the bare sum of their forward passes."""

import resource
import subprocess
import sys

import torch

from benchmarks.streams import task
from benchmarks.tables import Table
from benchmarks.timing import ratio, stopwatch, take_turns
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.training.recipe import Recipe

MEMBERS = (1, 5, 20)
BATCHES = (1, 16, 256)


def zoo_of(members: int, backbone: str = "small-conv") -> ModelZoo:
    """A zoo as `load` gives it, its members untrained."""
    data = task("task", (3, 32, 32), 5, 5)
    zoo = ModelZoo(backbone=BACKBONES[backbone], recipe=Recipe(device="cpu"))
    for number in range(members):
        net = Net(BACKBONES[backbone], data.shape, seed=number)
        net.add_head("task", 5)
        zoo.members.append(Member(net.freeze(), {"task": Vote(1.0, data.classes)}, 0.0, 0))
    zoo.classes, zoo.shape, zoo.dtype = {"task": data.classes}, data.shape, torch.uint8
    return zoo


def measure(*, quick: bool) -> list[Table]:
    """Time ratios, then the peak memory of processes that differ only in the number of members."""
    table = Table(
        "small-conv, zoo / bare sum of forwards, time", ["members", "batch", "bare ms", "samples/s", "ratio", "bar"]
    )
    for members in MEMBERS:
        zoo = zoo_of(members)
        for batch in BATCHES:
            x = torch.randint(0, 256, (batch, 3, 32, 32), dtype=torch.uint8)
            passes = max(1, 64 // (batch * members))
            seconds = take_turns(
                {
                    "bare": lambda zoo=zoo, x=x, passes=passes: _bare(zoo, x, passes),
                    "zoo": lambda zoo=zoo, x=x, passes=passes: _zoo(zoo, x, passes),
                },
                3 if quick else (15 if batch < 256 else 7),
            )
            best = min(seconds["bare"]) / passes
            table.rows.append(
                [members, batch, 1000 * best, round(batch / best), 1 / ratio(seconds, "zoo", "bare"), 1.05]
            )
    return [table, _memory()]


@torch.inference_mode()
def _bare(zoo: ModelZoo, x: torch.Tensor, passes: int) -> float:
    with stopwatch() as watch:
        for _ in range(passes):
            total = torch.zeros(len(x), 5)
            for member in zoo.members:
                total += torch.softmax(member.net(x, "task"), dim=1)
    return watch.seconds


def _zoo(zoo: ModelZoo, x: torch.Tensor, passes: int) -> float:
    with stopwatch() as watch:
        for _ in range(passes):
            zoo.predict_proba(x, "task")
    return watch.seconds


def _memory() -> Table:
    table = Table("peak memory of 256 answers", ["members", "MB above 1 member", "MB of their weights"])
    peaks = {members: _peak(members) for members in MEMBERS}
    for members, (peak, weights) in peaks.items():
        table.rows.append([members, (peak - peaks[1][0]) / 1e6, (weights - peaks[1][1]) / 1e6])
    return table


def _peak(members: int) -> tuple[int, int]:
    code = f"from benchmarks.prediction import peak_bytes; print(*peak_bytes({members}))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    peak, weights = output.split()
    return int(peak), int(weights)


def peak_bytes(members: int) -> tuple[int, int]:
    """Peak resident bytes of this process after answering, and the bytes of the weights."""
    torch.set_num_threads(1)
    zoo = zoo_of(members)
    zoo.predict_proba(torch.zeros(256, 3, 32, 32, dtype=torch.uint8), "task")
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 4 * zoo.num_parameters
