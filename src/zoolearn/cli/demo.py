"""`zoo demo`: the whole idea in a minute, on data that comes with scikit-learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from zoolearn.cli import output
from zoolearn.cli.bars import follow_all
from zoolearn.cli.flags import flag, parse
from zoolearn.data.benchmarks import benchmark
from zoolearn.lab.report import report
from zoolearn.lab.tables import text
from zoolearn.runs.execute import Plan, job
from zoolearn.runs.jobs import Failed, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

CONTENDERS = {
    "model-zoo": "one small net per episode, trained on the new task and on hard past ones; the zoo votes",
    "isolated": "one small net per task, nothing shared",
    "fine-tune": "one net, trained on each task in turn",
    "multi-head": "one net that sees all tasks at once; not continual, the reference from above",
}


@dataclass
class DemoOptions:
    """How long to train."""

    epochs: int = flag("passes over the training data", default=20)
    seed: int = flag("seed of everything random", default=0)


def main(arguments: Sequence[str]) -> None:
    """Grows a zoo beside its reference learners and prints what came of it."""
    options = parse(DemoOptions, arguments, "zoo demo", "Grow a zoo on embedded digits beside its reference learners.")
    console = output.console()
    tasks = benchmark("rotated-digits")
    console.print(
        f"[bold]rotated-digits[/]: {len(tasks)} tasks of 10 digits, each at another angle, "
        f"{len(tasks[0].train)} training images a task"
    )
    for name, idea in CONTENDERS.items():
        console.print(f"  [bold]{name}[/]: {idea}")
    console.print()
    results = _learn(options, console)
    console.print()
    print(text(report(results), output.width()))
    console.print(
        f"\n{verdict({name: run.summary()['average_accuracy'] or 0.0 for name, run in zip(CONTENDERS, results, strict=True)})}"
    )
    console.print(
        "Next, with data of your own, a folder with one subfolder of images for each class or a table:\n"
        "  zoo learn my-zoo birds FOLDER\n"
        "or for research: `zoo list` shows what there is, `zoo data` how to get the data; then for example\n"
        "  zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo"
    )


def verdict(accuracies: Mapping[str, float]) -> str:
    """What the demo has shown, whoever ends above.

    >>> verdict({"model-zoo": 0.9235, "isolated": 0.9, "fine-tune": 0.6, "multi-head": 0.9272})
    'The zoo ends 2.3 points above isolated nets, 32.3 points above fine-tuning and 0.4 points below multi-head, which sees all tasks at once.'
    """
    zoo = 100 * accuracies["model-zoo"]
    isolated, tuned, together = (_points(zoo - 100 * accuracies[name]) for name in list(CONTENDERS)[1:])
    return f"The zoo ends {isolated} isolated nets, {tuned} fine-tuning and {together} multi-head, which sees all tasks at once."


def _points(difference: float) -> str:
    return f"{abs(difference):.1f} points {'above' if difference >= 0 else 'below'}"


def _learn(options: DemoOptions, console: Console) -> list[Results]:
    """All contenders, side by side on the cores that there are; the results in the order of the contenders."""
    spec = RunSpec("", "rotated-digits", {"epochs": options.epochs}, seed=options.seed)
    jobs = [job(name, replace(spec, method=name), Plan()) for name in CONTENDERS]
    ended = {}
    for end in follow_all(map_jobs(jobs), console):
        if isinstance(end, Failed):
            raise end.error
        ended[end.job.name] = end.result
    return [ended[name] for name in CONTENDERS]
