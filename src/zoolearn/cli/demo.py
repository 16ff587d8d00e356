"""`zoo demo`: the whole idea in a minute, on data that comes with scikit-learn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import tyro
from rich.console import Console

from zoolearn.benchmarks import benchmark
from zoolearn.cli.bars import show
from zoolearn.cli.flags import parse
from zoolearn.methods import METHODS
from zoolearn.report import report, text
from zoolearn.results import Results
from zoolearn.run import progress
from zoolearn.train import Recipe

CONTENDERS = {
    "model-zoo": "one small net per episode, trained on the new task and on hard past ones; the zoo votes",
    "isolated": "one small net per task, nothing shared",
    "fine-tune": "one net, trained on each task in turn",
    "multi-head": "one net that sees all tasks at once; not continual, the reference from above",
}


@dataclass
class DemoOptions:
    """How long to train."""

    epochs: Annotated[int, tyro.conf.arg(help="passes over the training data")] = 20
    seed: Annotated[int, tyro.conf.arg(help="seed of everything random")] = 0


def main(arguments: Sequence[str]) -> None:
    """Grows a zoo beside its reference learners and prints what came of it."""
    options = parse(DemoOptions, arguments, "zoo demo", "Grow a zoo on embedded digits beside its reference learners.")
    torch.set_num_threads(1)  # the nets are small: a second thread costs more than it gives
    console = Console()
    tasks = benchmark("rotated-digits")
    console.print(
        f"[bold]rotated-digits[/]: {len(tasks)} tasks of 10 digits, each at another angle, "
        f"{len(tasks[0].train)} training images a task"
    )
    results = [_learn(name, options, console) for name in CONTENDERS]
    console.print()
    print(text(report(results), console.width if console.is_terminal else None))
    zoo, isolated, tuned = (100 * (run.summary()["average_accuracy"] or 0) for run in results[:3])
    console.print(
        f"\nThe zoo ends {zoo - isolated:+.1f} points from isolated nets and {zoo - tuned:+.1f} from fine-tuning, "
        "and forgets almost nothing.\n"
        "Next: `zoo list` shows what there is; `zoo data` how to get the data; then for example\n"
        "  zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo"
    )


def _learn(name: str, options: DemoOptions, console: Console) -> Results:
    console.print(f"\n[bold]{name}[/]: {CONTENDERS[name]}")
    learner = METHODS[name](recipe=Recipe(epochs=options.epochs), seed=options.seed)
    tasks = benchmark("rotated-digits")
    return show(progress(learner, tasks), name, len(tasks), console)
