"""`zoo run METHOD BENCHMARK`: flags are the learner's and the recipe's own fields."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from zoolearn.benchmarks import BENCHMARKS, benchmark
from zoolearn.cli.bars import show
from zoolearn.cli.flags import learner_from, optional, parse, settings_form
from zoolearn.errors import SettingsError, one_of
from zoolearn.learner import Learner
from zoolearn.methods import METHODS
from zoolearn.presets import Preset, find_preset
from zoolearn.report import single_run
from zoolearn.run import describe, progress
from zoolearn.store import RunFolder
from zoolearn.task import Benchmark
from zoolearn.train import Recipe

USAGE = """usage: zoo run METHOD BENCHMARK [--out DIR] [--epochs N] [--seed N] ...

Shows the tasks of a benchmark to a learner, one an episode, and writes a run folder (results.json and the learner's
files). The same command again continues a run that was stopped, exactly where it was. `zoo run METHOD --help` lists the
settings of a method; they are its fields in Python.

methods:    {methods}
benchmarks: {benchmarks}

example:    zoo run model-zoo split-cifar100 --epochs 1 --out runs/zoo"""


@dataclass
class RunOptions:
    """The run."""

    out: Annotated[Path | None, optional("DIR", "run folder", "runs/METHOD-BENCHMARK-seedN")] = None
    checkpoint_every: Annotated[
        int | None, optional("N", "save an unfinished training every N epochs, so that at most N are lost", "never")
    ] = None
    preset: Annotated[
        str | None,
        optional("NAME", "start from the settings behind a published number; see `zoo list --presets`", "none"),
    ] = None
    threads: Annotated[int | None, optional("N", "threads of this process", "torch's choice")] = None


@dataclass
class BenchmarkOptions:
    """The benchmark."""

    data: Annotated[Path | None, optional("DIR", "data root", "$ZOOLEARN_DATA, else the cache folder")] = None
    samples_per_class: Annotated[int | None, optional("N", "train on N random examples of each class", "all")] = None
    samples_seed: Annotated[int, tyro.conf.arg(help="seed that picks those examples")] = 0
    order_seed: Annotated[int | None, optional("SEED", "shuffle the tasks with this seed", "as listed")] = None
    first_tasks: Annotated[int | None, optional("N", "only the first N tasks", "all")] = None


def main(arguments: Sequence[str]) -> None:
    """Runs one learner on one benchmark."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE.format(methods=", ".join(METHODS), benchmarks=", ".join(BENCHMARKS)))
        return
    name = arguments[0]
    if name not in METHODS:
        raise SettingsError(one_of("method", name, METHODS))
    method = METHODS[name]
    form = parse(_form(method), arguments[1:], f"zoo run {name}", _idea(method))
    if form.run.preset is not None:
        preset = find_preset(form.run.preset, name, form.benchmark)
        form = parse(_form(method, preset), arguments[1:], f"zoo run {name}", _idea(method))
    learner = learner_from(method, form.learner, form.recipe)
    chosen = benchmark(form.benchmark, **vars(form.tasks))
    out = form.run.out or Path("runs") / f"{name}-{form.benchmark}-seed{learner.seed}"
    _limit_threads(form.run.threads)
    _run(learner, chosen, out, form.run.checkpoint_every, name)


def _form(method: type[Learner], preset: Preset | None = None) -> type:
    names = "one of: " + ", ".join(BENCHMARKS)
    learner = settings_form(method, preset.learner if preset else None)
    recipe = settings_form(Recipe, preset.recipe if preset else None)
    return make_dataclass(
        "Run",
        [
            ("benchmark", Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help=names)]),
            ("run", RunOptions, field(default_factory=RunOptions)),
            ("tasks", BenchmarkOptions, field(default_factory=BenchmarkOptions)),
            ("learner", learner, field(default_factory=learner)),
            ("recipe", recipe, field(default_factory=recipe)),
        ],
    )


def _idea(method: type[Learner]) -> str:
    return (method.__doc__ or "").partition("\n\n")[0]


def _run(learner: Learner, chosen: Benchmark, out: Path, checkpoint_every: int | None, name: str) -> None:
    console = Console()
    done = _episodes_kept(learner, chosen, out)
    if done == len(chosen):
        console.print(f"{out} is finished; nothing to train. Another run needs another folder (--out)")
    elif done:
        console.print(f"continuing {out} after episode {done} of {len(chosen)}")
    try:
        results = show(progress(learner, chosen, out, checkpoint_every), name, len(chosen), console)
    except KeyboardInterrupt:
        kept = _episodes_kept(learner, chosen, out)
        print(
            f"\nzoo: stopped; {kept} of {len(chosen)} episodes are kept in {out}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    print(single_run(results))
    console.print(f"written to {out}; `zoo report {out.parent}` compares runs")


def _episodes_kept(learner: Learner, chosen: Benchmark, out: Path) -> int:
    folder = RunFolder(out)
    if not folder.exists:
        return 0
    folder.refuse_other(describe(learner, chosen))
    return len(folder.episodes())


def _limit_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        if threads < 1:
            raise SettingsError(f"threads is {threads}; give 1 or more")
        torch.set_num_threads(threads)
