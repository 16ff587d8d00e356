"""`zoo study KIND BENCHMARK`: the paper's analyses; what is finished is reused, the rest runs on all cores, or on a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.commands import wrap
from zoolearn.cli.flags import DataRoot, command_line, flag, parse
from zoolearn.cli.place import PlaceOptions
from zoolearn.data.benchmarks import BENCHMARKS, benchmark
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.studies.conduct import STUDIES, TRANSFER, conduct
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import Study

SUMMARIES = {**{name: kind.summary for name, kind in STUDIES.items()}, TRANSFER: "transfer exponents, and a simulation"}

USAGE = """usage: zoo study KIND BENCHMARK [--epochs N] [--seeds N] [--samples-per-class N] [--out DIR] ...

Many small runs read together: figures with standard errors over seeds, in study.json, to be seen with
`zoo report DIR --html page.html`. The same command again reuses what is finished.

{kinds}

example:    zoo study competition split-digits --epochs 5 --samples-per-class 20"""


@dataclass
class StudyOptions:
    """The study."""

    benchmark: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="BENCHMARK", help="one of: " + ", ".join(BENCHMARKS))
    ]
    epochs: int | None = flag("epochs of every training", "N", "the paper's for this study")
    seeds: int | None = flag("number of seeds", "N", "3, or 5 for samples")
    seed: int = flag("the first seed", default=0)
    samples_per_class: int | None = flag("training samples of each class, 0 for all", "N", "the paper's for this study")
    backbone: str = flag("network of every learner", default="small-conv")
    precision: str = flag("arithmetic of every net", default="auto")
    first_tasks: int | None = flag("only the first N tasks", "N", "all")
    data: DataRoot = None
    out: Path | None = flag("folder of the study", "DIR", "runs/study-KIND-BENCHMARK")
    reuse: tuple[Path, ...] = flag("also reuse finished runs below these folders", "DIR...", "none", default=())
    place: PlaceOptions = field(default_factory=PlaceOptions)


def main(arguments: Sequence[str]) -> None:
    """Does what is missing of a study and says where it is."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(wrap(USAGE.format(kinds="\n".join(f"  {name:<20}{summary}" for name, summary in SUMMARIES.items()))))
        return
    name = arguments[0]
    if name not in SUMMARIES:
        raise SettingsError(unknown_name("study", name, SUMMARIES))
    options = parse(StudyOptions, arguments[1:], f"zoo study {name}", SUMMARIES[name])
    setup = replace(_setup(name, options), command=command_line("study", *arguments))
    folder = options.out or Path("runs") / f"study-{name}-{options.benchmark}"
    work = conduct(setup, folder, options.place.place(), options.reuse)
    study = follow(work, output.console(stderr=True), f"{name} on {options.benchmark}")
    print(f"{folder / Study.FILE}: {', '.join(figure.title for figure in study.figures)}")
    print(f"see it with: zoo report {folder} --html {name}.html")


def _setup(name: str, options: StudyOptions) -> Setup:
    kind = STUDIES.get(name)
    whole = benchmark(options.benchmark, options.data)
    epochs, samples, seeds = (kind.epochs, kind.samples_per_class, kind.seeds) if kind else (20, 100, 3)
    if options.samples_per_class is not None:
        samples = options.samples_per_class or None
    count = options.seeds if options.seeds is not None else seeds
    if options.first_tasks is not None and options.first_tasks < 1:
        raise SettingsError(f"first_tasks is {options.first_tasks}; give 1 or more")
    if samples is not None and samples < 0:
        raise SettingsError(f"samples_per_class is {samples}; give 1 or more, or 0 for all")
    if count < 1:
        raise SettingsError(f"seeds is {count}; give 1 or more")
    return Setup(
        study=name,
        benchmark=options.benchmark,
        tasks=tuple(task.name for task in whole)[: options.first_tasks],
        classes=len(whole[0].classes),
        epochs=options.epochs if options.epochs is not None else epochs,
        seeds=tuple(range(options.seed, options.seed + count)),
        backbone=options.backbone,
        precision=options.precision,
        samples_per_class=samples,
        first_tasks=options.first_tasks,
        data=options.data,
    )
