"""`zoo compare FOLDER`: the zoo beside other ways to learn the same tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from zoolearn.cli import output
from zoolearn.cli.bars import continues, follow
from zoolearn.cli.flags import ZooPath, command_line, flag, parse
from zoolearn.cores import check_threads, default_threads
from zoolearn.files import save_text
from zoolearn.lab.beside import beside_figure, beside_table
from zoolearn.lab.plots import save_figures
from zoolearn.lab.tables import markdown, text
from zoolearn.zoo import Zoo
from zoolearn.zoo.auto_epochs import check_epochs
from zoolearn.zoo.rivals import iter_compare, list_differences

IDEA = """Set a zoo beside other ways to learn its tasks, on its own stored rows and in its own order: one net that is
fine-tuned on each task, a net for each task, and one net that is trained on all rows, once and after every lesson. One table
and one figure, with accuracy, time, rows trained and size. What is trained already is not trained again."""


@dataclass
class CompareOptions:
    """Which zoo."""

    folder: ZooPath
    out: Path | None = flag("where the runs, the table and the figure go", "DIR", "runs/compare-FOLDER")
    epochs: int | None = flag("passes of its rivals over the rows", "N", "as many rows in all as the zoo was shown")
    threads: int | None = flag("threads of this process", "N", "$OMP_NUM_THREADS, else 1")


def main(arguments: Sequence[str]) -> None:
    """Trains the rivals one after another, and shows all."""
    options = parse(CompareOptions, arguments, "zoo compare", IDEA)
    check_epochs(options.epochs)
    threads = default_threads() if options.threads is None else options.threads
    check_threads(threads)
    torch.set_num_threads(threads)
    console = output.console()
    zoo = Zoo(options.folder)
    out = options.out or Path("runs") / f"compare-{zoo.path.resolve().name}"
    with continues(f"what was learned is kept in {out}"):
        shown = follow(iter_compare(zoo, out, options.epochs, command_line("compare", *arguments)), console)
    table = beside_table(shown, list_differences(zoo, options.epochs))
    print(text(table, output.width()))
    save_text(out / "compared.md", markdown(table))
    (figure,) = save_figures([beside_figure(shown, f"{zoo.path.resolve().name}, beside its rivals")], out, "svg")
    console.print(f"written to {out / 'compared.md'} and {figure}", soft_wrap=True)
