"""`zoo run METHOD BENCHMARK`: flags are the learner's and the recipe's own fields."""

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch

from zoolearn.cli import output
from zoolearn.cli.bars import show
from zoolearn.cli.commands import wrapped
from zoolearn.cli.form import RunOptions, orders_of, read_form
from zoolearn.cli.side_by_side import run_side_by_side
from zoolearn.data.benchmarks import BENCHMARKS, benchmark
from zoolearn.data.task import Benchmark
from zoolearn.lab.one_run import single_run
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.runs.jobs import Local
from zoolearn.runs.run import describe, progress
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.store import RunFolder

USAGE = """usage: zoo run METHOD[,METHOD...] BENCHMARK [--out DIR] [--epochs N] [--seed N] [--seeds N] [--workers N] ...

Shows the tasks of a benchmark to a learner, one an episode, and writes a run folder (results.json and the learner's
files). The same command again continues a run that was stopped: after the last finished episode, or in its midst with
`--checkpoint-every N`. `zoo run METHOD --help` lists the settings of a method; they are its fields in Python. Several methods or seeds run side by side, a folder each; with
`--on ray`, on a cluster.

methods:    {methods}
benchmarks: {benchmarks}

examples:   zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo
            zoo run model-zoo,isolated split-cifar100 --epochs 1 --seeds 3 --out runs/compared"""


def main(arguments: Sequence[str]) -> None:
    """Runs one learner on one benchmark, or several side by side."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(wrapped(USAGE.format(methods=", ".join(METHODS), benchmarks=", ".join(BENCHMARKS))))
        return
    names = list(dict.fromkeys(arguments[0].split(",")))
    form = read_form(names, arguments[1:], f"zoo run {arguments[0]}", RunOptions)
    orders = {
        f"{name}-{form.benchmark}-seed{seed}": order for name in names for seed, order in orders_of(name, form).items()
    }
    (title, order), *others = orders.items()
    on_gpu = order.learner.recipe.torch_device.type == "cuda"
    place = form.place.place(few=on_gpu)
    torch.set_num_threads(place.threads)
    if others:
        folder = form.run.out or Path("runs")
        run_side_by_side({title: replace(order, out=folder / title) for title, order in orders.items()}, folder, place)
    else:
        out = form.run.out or Path("runs") / title
        order = replace(order, out=out)
        if isinstance(place, Local):
            _run(names[0], order, out, place.workers_for())
        else:
            run_side_by_side({title: order}, out, place)


def _run(name: str, order: RunSpec, out: Path, workers: int) -> None:
    console = output.console()
    learner = order.learner
    chosen = benchmark(order.benchmark, order.data, **order.options)
    done = _episodes_kept(learner, chosen, out)
    if done == len(chosen):
        console.print(f"{out} is finished; nothing to train. Another run needs another folder (--out)", soft_wrap=True)
    elif done:
        console.print(f"continuing {out} after episode {done} of {len(chosen)}")
    events = progress(learner, chosen, out, order.checkpoint_every, workers, order.exact)
    try:
        with closing(events):
            results = show(events, name, len(chosen), console)
    except KeyboardInterrupt:
        kept = _episodes_kept(learner, chosen, out)
        print(
            f"\nzoo: stopped; {kept} of {len(chosen)} episodes are kept in {out}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    print(single_run(results))
    console.print(f"written to {out}; `zoo report {out.parent}` compares runs", soft_wrap=True)


def _episodes_kept(learner: Learner, chosen: Benchmark, out: Path) -> int:
    folder = RunFolder(out)
    if not folder.exists:
        return 0
    folder.check_other(describe(learner, chosen))
    return len(folder.episodes())
