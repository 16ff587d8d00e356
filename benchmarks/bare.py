"""The least that training can be: prepared float batches, forward, backward, step, and nothing else."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import stopwatch
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net

LR, MOMENTUM, DECAY = 0.01, 0.9, 1e-5


def net_for(backbone: str, shape: tuple[int, ...], classes: int = 5) -> Net:
    """Our net with one head, for a task named "task"."""
    net = Net(BACKBONES[backbone], shape)
    net.add_head("task", classes)
    return net


def train(net: nn.Module, batches: Sequence[tuple[Tensor, Tensor]], *, fused: bool = True) -> float:
    """Seconds of one pass over prepared batches."""
    optimizer = torch.optim.SGD(
        net.parameters(), lr=LR, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY, fused=fused
    )
    net.train()
    with stopwatch() as watch:
        for x, y in batches:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    return watch.seconds


@torch.inference_mode()
def evaluate(net: nn.Module, batches: Sequence[Tensor]) -> float:
    """Seconds of class probabilities for prepared batches."""
    net.eval()
    with stopwatch() as watch:
        for x in batches:
            torch.softmax(net(x), dim=1)
    return watch.seconds


def usual_small_conv(classes: int = 5) -> nn.Module:
    """The paper's small network as it is usually written: NCHW, ReLU, then pooling."""
    layers: list[nn.Module] = []
    for block in range(3):
        layers.append(nn.Conv2d(3 if block == 0 else 80, 80, 3, bias=block > 0))
        if block > 0:
            layers.append(nn.BatchNorm2d(80))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(320, classes))
