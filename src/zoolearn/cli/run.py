"""`zoo run METHOD BENCHMARK`: flags are the learner's and the recipe's own fields."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from traceback import format_exception

import torch

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.commands import wrap
from zoolearn.cli.failures import describe_error, format_own_trace
from zoolearn.cli.form import RunOptions, make_plan, make_specs, read_form
from zoolearn.cli.side_by_side import run_side_by_side
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.data.stream import Benchmark
from zoolearn.errors import ZooError
from zoolearn.lab.one_run import single_run
from zoolearn.methods.registry import METHODS
from zoolearn.runs.execute import Plan, execute
from zoolearn.runs.jobs import Local
from zoolearn.runs.own import split_names
from zoolearn.runs.run import describe
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.store import RunFolder

USAGE = """usage: zoo run METHOD[,METHOD...] BENCHMARK [--out DIR] [--epochs N] [--seed N] [--seeds N] [--workers N] ...

Shows the tasks of a benchmark to a learner, one an episode, and writes a run folder (results.json and the learner's
files). The same command again continues a run that was stopped: after the last finished episode, or in its midst with
`--checkpoint-every N`. `zoo run METHOD --help` lists the settings of a method; they are its fields in Python. Several methods or seeds run side by side, a folder each; with
`--on ray`, on a cluster. A method, benchmark or backbone of your own is FILE.py:NAME or package.module:NAME; the
folder of a zoo is a benchmark too: its tasks, in the order that it learned them, with the rows that it stores.

methods:    {methods}
benchmarks: {benchmarks}

examples:   zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo
            zoo run model-zoo,isolated split-cifar100 --epochs 1 --seeds 3 --out runs/compared
            zoo run mymethods.py:Lwf mybench.py:stream --backbone mynets.py:wide
            zoo run ewc my-zoo --epochs 5"""


def main(arguments: Sequence[str]) -> None:
    """Runs one learner on one benchmark, or several side by side."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(wrap(USAGE.format(methods=", ".join(METHODS), benchmarks=", ".join(BENCHMARKS))))
        return
    names = list(dict.fromkeys(split_names(arguments[0])))
    form = read_form(names, arguments[1:], f"zoo run {arguments[0]}", RunOptions)
    specs = {
        f"{spec.method}-{spec.benchmark}-seed{spec.seed}": spec
        for name in names
        for spec in make_specs(name, form).values()
    }
    (title, spec), *others = specs.items()
    on_gpu = spec.learner().recipe.torch_device.type == "cuda"
    place = form.place.place(few=on_gpu)
    torch.set_num_threads(place.threads)
    plan = make_plan(form, "run", *arguments)
    if others:
        run_side_by_side(specs, form.run.out or Path("runs"), plan, place)
        return
    out = form.run.out or Path("runs") / title
    if isinstance(place, Local):
        _run(spec, replace(plan, out=out, workers=place.workers_for()), out)
    else:
        run_side_by_side({out.name: spec}, out.parent, plan, place)


def _run(spec: RunSpec, plan: Plan, out: Path) -> None:
    console = output.console()
    out.parent.mkdir(parents=True, exist_ok=True)
    whole = spec.whole(plan.data)
    tasks = spec.tasks(plan.data, whole)
    done = _episodes_kept(spec, tasks, plan)
    if done == len(tasks):
        console.print(f"{out} is finished; nothing to train. Another run needs another folder (--out)", soft_wrap=True)
    elif done:
        console.print(f"continuing {out} after episode {done} of {len(tasks)}")
    try:
        results = follow(execute(spec, plan, whole), console, spec.method)
    except KeyboardInterrupt:
        kept = _episodes_kept(spec, tasks, plan)
        print(
            f"\nzoo: stopped; {kept} of {len(tasks)} episodes are kept in {out}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    except ZooError:
        raise
    except Exception as error:
        kept = _episodes_kept(spec, tasks, plan)
        print(format_own_trace(error) or "".join(format_exception(error)), file=sys.stderr, end="")
        print(
            f"zoo: {spec.method} failed in episode {kept + 1}, {tasks[kept].name}: {describe_error(error)}. {kept} of {len(tasks)} "
            f"episodes are kept in {out}. The same command continues; after a change of your code, with --continue-anyway",
            file=sys.stderr,
        )
        sys.exit(1)
    print(single_run(results))
    console.print(f"written to {out}; `zoo report {out.parent}` compares runs", soft_wrap=True)


def _episodes_kept(spec: RunSpec, tasks: Benchmark, plan: Plan) -> int:
    folder = RunFolder(plan.out or Path())
    if not folder.exists:
        return 0
    folder.check_other(describe(spec.learner(), tasks), anyway=plan.anyway)
    return len(folder.episodes())
