"""The same stream, net and batch size in Avalanche, each library with its natural form of the same network.

Needs benchmarks/requirements-peers.txt; without, the benchmark says so and measures nothing. Avalanche gets float
tensors that are scaled already and no loggers, which favours it: its usual pipelines decode and scale every sample.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from benchmarks.streams import stream
from benchmarks.tables import Table
from benchmarks.timing import ratio, stopwatch, take_turns
from zoolearn.data.stream import Benchmark
from zoolearn.methods.learner import Learner
from zoolearn.methods.parts.pergrad import batched
from zoolearn.methods.registry import METHODS
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp
from zoolearn.training.recipe import Recipe

TASKS, BATCH, MEMORY = 3, 16, 64
NETS = {"small-conv": (small_conv, (3, 32, 32), 160, 1.4), "mlp": (mlp, (1, 28, 28), 1600, 2.0)}
COMPARED = ("fine-tune", "er", "ewc", "a-gem", "gem")


def measure(*, quick: bool) -> list[Table]:
    """Times faster than Avalanche, training and evaluation, for each method that both have."""
    table = Table(
        f"{TASKS} tasks of 5 classes, batch {BATCH}: times faster than Avalanche",
        ["net", "method", "training", "bar", "evaluation", "bar "],
    )
    if find_spec("avalanche") is None:
        table.notes.append("Avalanche is not installed; benchmarks/requirements-peers.txt says how")
        return [table]
    torch.set_num_threads(1)
    for backbone, (ours, shape, samples, bar) in NETS.items():
        tasks = stream(TASKS, shape, samples, samples // 2)
        theirs = _avalanche_stream(tasks)
        for method in COMPARED:
            evaluations: dict[str, list[float]] = {"ours": [], "theirs": []}
            seconds = take_turns(
                {
                    "ours": lambda m=method, o=ours, t=tasks, e=evaluations: _ours(_learner(m, o, t), t, e["ours"]),
                    "theirs": lambda m=method, b=backbone, s=theirs, e=evaluations: _theirs(m, b, s, e["theirs"]),
                },
                1 if quick else 3,
            )
            evaluated = {name: values[1:] for name, values in evaluations.items()}
            table.rows.append(
                [backbone, method, ratio(seconds, "ours", "theirs"), bar, ratio(evaluated, "ours", "theirs"), 1.7]
            )
    return [table]


def _learner(method: str, backbone: Callable[..., nn.Module], tasks: Benchmark) -> Learner:
    settings: dict[str, dict[str, Any]] = {
        "er": {"memory_size": MEMORY * TASKS, "memory_batch": BATCH, "replay_from": 2},
        "ewc": {"fisher": batched, "fisher_batch": BATCH, "fisher_samples": len(tasks[0].train), "strength": 1.0},
        "a-gem": {"memory_size": MEMORY, "memory_per": "task", "memory_batch": MEMORY},
        "gem": {"memory_size": MEMORY, "memory_per": "task"},
    }
    recipe = Recipe(epochs=1, batch_size=BATCH, dropout=0.0, device="cpu")
    return METHODS[method](backbone=backbone, recipe=recipe, **settings.get(method, {}))


def _ours(learner: Learner, tasks: Benchmark, evaluations: list[float]) -> float:
    with stopwatch() as watch:
        for task in tasks:
            learner.learn(task)
    with stopwatch() as evaluation:
        learner.evaluate(tasks)
    evaluations.append(evaluation.seconds)
    return watch.seconds


def _theirs(method: str, backbone: str, scenario: Any, evaluations: list[float]) -> float:
    strategy = _strategy(method, _avalanche_net(backbone))
    with stopwatch() as watch:
        for experience in scenario.train_stream:
            strategy.train(experience)
    with stopwatch() as evaluation:
        strategy.eval(scenario.test_stream)
    evaluations.append(evaluation.seconds)
    return watch.seconds


def _strategy(method: str, net: nn.Module) -> Any:
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.training import AGEM, EWC, GEM, Naive, Replay
    from avalanche.training.plugins import EvaluationPlugin

    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-5)
    common: dict[str, Any] = {
        "model": net,
        "optimizer": optimizer,
        "criterion": nn.CrossEntropyLoss(),
        "train_mb_size": BATCH,
        "train_epochs": 1,
        "eval_mb_size": BATCH,
        "evaluator": EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
    }
    strategies: dict[str, Callable[[], Any]] = {
        "fine-tune": lambda: Naive(**common),
        "er": lambda: Replay(mem_size=MEMORY * TASKS, **common),
        "ewc": lambda: EWC(ewc_lambda=1.0, mode="online", decay_factor=1.0, **common),
        "a-gem": lambda: AGEM(patterns_per_exp=MEMORY, sample_size=MEMORY, **common),
        "gem": lambda: GEM(patterns_per_exp=MEMORY, memory_strength=0.5, **common),
    }
    return strategies[method]()


def _avalanche_net(backbone: str) -> nn.Module:
    from avalanche.models import MultiHeadClassifier, MultiTaskModule

    class Network(MultiTaskModule):  # type: ignore[misc]
        def __init__(self, body: nn.Module, features: int) -> None:
            super().__init__()
            self.body = body
            self.classifier = MultiHeadClassifier(features, initial_out_features=5)

        def forward(self, x: torch.Tensor, task_labels: torch.Tensor) -> torch.Tensor:
            return self.classifier(self.body(x), task_labels)

    if backbone == "mlp":
        hidden = [nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        return Network(nn.Sequential(*hidden), 256)
    from benchmarks.bare import usual_small_conv

    return Network(usual_small_conv()[:-1], 320)  # type: ignore[index]


def _avalanche_stream(tasks: Benchmark) -> Any:
    _declare_vision_operators()
    from avalanche.benchmarks import nc_benchmark

    class Pictures(torch.utils.data.TensorDataset):
        def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
            super().__init__((x.float() / 255 - 0.5) / 0.25, y)
            self.targets = y.tolist()

    sets = []
    for split in ("train", "test"):
        parts = [getattr(task, split) for task in tasks]
        labels = torch.cat([part.y + 5 * place for place, part in enumerate(parts)])
        sets.append(Pictures(torch.cat([part.x for part in parts]), labels))
    return nc_benchmark(
        *sets,
        n_experiences=len(tasks),
        task_labels=True,
        shuffle=False,
        class_ids_from_zero_in_each_exp=True,
    )


@cache
def _declare_vision_operators() -> torch.library.Library:
    """torchvision beside a CPU torch: its wheel wants two operators that nobody has declared. Kept, or they are undone."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
