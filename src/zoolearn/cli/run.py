"""`zoo run METHOD BENCHMARK`: flags are the learner's and the recipe's own fields."""

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from zoolearn.benchmarks import BENCHMARKS, benchmark
from zoolearn.cli.bars import show
from zoolearn.cli.flags import learner_from, optional, parse, settings_form
from zoolearn.cli.side_by_side import run_side_by_side
from zoolearn.cores import default_threads, usable_cores
from zoolearn.errors import SettingsError, one_of
from zoolearn.learner import Learner
from zoolearn.methods import METHODS
from zoolearn.order import Order
from zoolearn.presets import Preset, find_preset
from zoolearn.report import single_run
from zoolearn.runs import describe, progress
from zoolearn.store import RunFolder
from zoolearn.task import Benchmark
from zoolearn.train import Recipe

USAGE = """usage: zoo run METHOD[,METHOD...] BENCHMARK [--out DIR] [--epochs N] [--seed N] [--seeds N] [--workers N] ...

Shows the tasks of a benchmark to a learner, one an episode, and writes a run folder (results.json and the learner's
files). The same command again continues a run that was stopped, exactly where it was. `zoo run METHOD --help` lists the
settings of a method; they are its fields in Python. Several methods or seeds run side by side, a folder each.

methods:    {methods}
benchmarks: {benchmarks}

examples:   zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo
            zoo run model-zoo,isolated split-cifar100 --epochs 1 --seeds 3 --out runs/compared"""


@dataclass
class RunOptions:
    """The run."""

    out: Annotated[
        Path | None,
        optional("DIR", "run folder; of several runs, the folder of their folders", "runs/METHOD-BENCHMARK-seedN"),
    ] = None
    seeds: Annotated[int, tyro.conf.arg(help="so many runs, with this seed and the ones after it")] = 1
    workers: Annotated[
        int | None, optional("N", "processes that train side by side what is independent", "the usable cores")
    ] = None
    checkpoint_every: Annotated[
        int | None, optional("N", "save an unfinished training every N epochs, so that at most N are lost", "never")
    ] = None
    preset: Annotated[
        str | None,
        optional("NAME", "start from the settings behind a published number; see `zoo list --presets`", "none"),
    ] = None
    threads: Annotated[int | None, optional("N", "threads of each process", "$OMP_NUM_THREADS, else 1")] = None


@dataclass
class BenchmarkOptions:
    """The benchmark."""

    data: Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")] = None
    samples_per_class: Annotated[int | None, optional("N", "train on N random examples of each class", "all")] = None
    samples_seed: Annotated[int, tyro.conf.arg(help="seed that picks those examples")] = 0
    order_seed: Annotated[int | None, optional("SEED", "shuffle the tasks with this seed", "as listed")] = None
    tasks: Annotated[int | None, optional("N", "length of a stream that can have any: permuted-mnist", "5")] = None
    first_tasks: Annotated[int | None, optional("N", "only the first N tasks", "all")] = None
    after_tasks: Annotated[
        int | None, optional("N", "leave out the first N tasks: those that settings were chosen on", "none")
    ] = None


def main(arguments: Sequence[str]) -> None:
    """Runs one learner on one benchmark, or several side by side."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE.format(methods=", ".join(METHODS), benchmarks=", ".join(BENCHMARKS)))
        return
    names = list(dict.fromkeys(arguments[0].split(",")))
    for name in names:
        if name not in METHODS:
            raise SettingsError(one_of("method", name, METHODS))
    form = _read(names, arguments)
    if form.run.seeds < 1:
        raise SettingsError(f"seeds is {form.run.seeds}; it counts runs, so 1 or more")
    threads = _threads(form.run.threads)
    torch.set_num_threads(threads)
    learners = {name: learner_from(METHODS[name], form.learner, form.recipe) for name in names}
    on_gpu = learners[names[0]].recipe.torch_device.type == "cuda"
    workers = form.run.workers or (1 if on_gpu else max(1, usable_cores() // threads))
    if len(names) == form.run.seeds == 1:
        _run(names[0], learners[names[0]], form, workers)
    else:
        orders = {
            f"{name}-{form.benchmark}-seed{seed}": Order(
                replace(learner, seed=seed),
                form.benchmark,
                vars(form.tasks),
                checkpoint_every=form.run.checkpoint_every,
            )
            for name, learner in learners.items()
            for seed in range(learner.seed, learner.seed + form.run.seeds)
        }
        run_side_by_side(orders, form.run.out or Path("runs"), workers, threads)


def _read(names: Sequence[str], arguments: Sequence[str]) -> Any:
    """The filled-in form: of one method with its own settings, of several with those that all learners have."""
    program = f"zoo run {arguments[0]}"
    if len(names) > 1:
        form = parse(_form(Learner), arguments[1:], program, "Several methods, with settings that all have.")
        if form.run.preset is not None:
            raise SettingsError(f"preset {form.run.preset!r} is of one method, but {len(names)} are to be run")
        return form
    method = METHODS[names[0]]
    form = parse(_form(method), arguments[1:], program, _idea(method))
    if form.run.preset is not None:
        preset = find_preset(form.run.preset, names[0], form.benchmark)
        form = parse(_form(method, preset), arguments[1:], program, _idea(method))
    return form


def _form(method: type, preset: Preset | None = None) -> type:
    names = "one of: " + ", ".join(BENCHMARKS)
    learner = settings_form(method, preset.learner if preset else None)
    recipe = settings_form(Recipe, preset.recipe if preset else None)
    return make_dataclass(
        "Run",
        [
            ("benchmark", Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help=names)]),
            ("run", RunOptions, field(default_factory=RunOptions)),
            (
                "tasks",
                BenchmarkOptions,
                field(default_factory=lambda: BenchmarkOptions(**(preset.tasks if preset else {}))),
            ),
            ("learner", learner, field(default_factory=learner)),
            ("recipe", recipe, field(default_factory=recipe)),
        ],
    )


def _idea(method: type[Learner]) -> str:
    return (method.__doc__ or "").partition("\n\n")[0]


def _run(name: str, learner: Learner, form: Any, workers: int) -> None:
    console = Console()
    chosen = benchmark(form.benchmark, **vars(form.tasks))
    out = form.run.out or Path("runs") / f"{name}-{form.benchmark}-seed{learner.seed}"
    done = _episodes_kept(learner, chosen, out)
    if done == len(chosen):
        console.print(f"{out} is finished; nothing to train. Another run needs another folder (--out)", soft_wrap=True)
    elif done:
        console.print(f"continuing {out} after episode {done} of {len(chosen)}")
    events = progress(learner, chosen, out, form.run.checkpoint_every, workers)
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
    folder.refuse_other(describe(learner, chosen))
    return len(folder.episodes())


def _threads(asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise SettingsError(f"threads is {asked}; give 1 or more")
    return asked or default_threads()
