"""`REPRODUCTION.md` and its pages, written from runs alone: for each cell the paper's number, ours, how to make it again."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from zoolearn.files import save_text
from zoolearn.lab.groups import Group, mean_accuracy
from zoolearn.lab.paper import board, equal
from zoolearn.lab.paper.beyond import name_settings, sum_up
from zoolearn.lab.paper.compare import (
    ABOVE,
    BELOW,
    MEASURES,
    NOT_RUN,
    STAND_IN,
    WITHIN,
    cells,
    commits,
    pair_precisions,
    precision,
    remarks,
    runs_of,
    tally,
)
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import FIGURES, TABLES
from zoolearn.lab.studies.study import Study
from zoolearn.lab.tables import MISSING, Table, markdown, mean, percent
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

VERDICTS = (WITHIN, ABOVE, BELOW, STAND_IN, NOT_RUN)
ONE_NET = ("fine-tune", "stable-sgd", "er", "ewc", "si", "gem", "a-gem", "mega-ii", "ogd", "tag", "mc-sgd")
DIFFERENCES = (
    "Accuracy is always that of the test set, after all tasks; forgetting is defined as in the paper, and so is forward "
    "(transfer): the accuracy right after a task is learned, which others call learning accuracy.",
    "Every member of a zoo starts from a seed of its own; the authors' code starts all from one.",
    "Past tasks are drawn without repeats and the new task is always trained on: the text leaves both open, the authors' code "
    "does the same. We draw up to b - 1 past tasks from the second episode on; their code draws none in the second and one in "
    "the third.",
    "The weights of the draw are exp(loss), as in the text; `--weigh released` gives those of the code, whose mean is over all "
    "tasks of the stream, those not met yet at log C.",
    "One-epoch runs use no augmentation: the released code has none there, although the text says otherwise. Neither choice "
    "fits both benchmarks: AUGMENTED.",
    "Limited replay keeps the same share of each class, and half of a batch is of the new task.",
    "Split-miniImageNet has 20 tasks of 5 labels (the text says 10, but there are 100 classes); of each class the first "
    "80 % of the images train and the rest test, fixed once. Runs on a part of the images say so below their table, and "
    "compare with each other, not with the paper. The paper's jump of old tasks on it, from 66.57 to 81.05, was not seen; "
    "docs/evidence.md has what was found.",
    "The ensemble of isolated nets has 5 nets a task; the paper's is of another size.",
    "CPU runs compute in float32 unless their table's page says bfloat16, the paper's in mixed precision on a GPU; runs of "
    "two precisions are never averaged, and [precision](docs/reproduction/precision.md) has what it changes. Minutes are those of the machine of the run, "
    "which may have been busy with other work.",
)


ALSO = {"unique_accuracy": "unique", "class_incremental_accuracy": "not told"}  # of runs that have it
PAGES = Path("docs/reproduction")  # beside REPRODUCTION.md, a page for each table
BEYOND = "docs/beyond.md"


def write_reproduction(file: Path, runs: Sequence[Results], studies: Iterable[Study] = ()) -> list[Path]:
    """Writes the front page, and below the folder that it is in a page for each table, for figures and for precision.

    A README.md beside it that has marks for it gets the summary of the board.
    """
    pages = {file: front_page(runs)}
    readme = file.parent / "README.md"
    if (text := board.put_summary(readme, runs)) is not None:
        pages |= {readme: text}
    pages |= {file.parent / PAGES / f"{equal.NAME}.md": board.page(runs)}
    pages |= {file.parent / PAGES / "figures.md": figures_page(studies)}
    pages |= {file.parent / PAGES / "precision.md": precision_page(runs)}
    pages |= {file.parent / PAGES / f"{table.name}.md": table_page(table, runs) for table in TABLES.values()}
    for path, page in pages.items():
        save_text(path, page)
    return list(pages)


def front_page(runs: Sequence[Results]) -> str:
    """How much of the paper is reproduced, as Markdown, with the way to each table's page."""
    tallies = {table.name: tally(table, runs) for table in TABLES.values()}
    own, others = Counter[str](), Counter[str]()
    for name, counted in tallies.items():
        (own if TABLES[name].of_paper else others).update(counted)
    counts = tuple(_counts(TABLES[name], counted) for name, counted in tallies.items())
    parts = [
        "# Reproduction",
        "",
        f"**{own[WITHIN]} of {own.total()} cells of the paper within one point**; {own[ABOVE]} above, {own[BELOW]} below, "
        f"{own[STAND_IN]} answered by a stand-in alone, {own[NOT_RUN]} not run. Some numbers stand in several tables, and the "
        "forgetting of isolated nets is 0 by definition.",
        "",
        f"Beside them, {others[WITHIN]} of {others.total()} numbers that others published or the paper quotes: "
        f"{others[ABOVE]} above, {others[BELOW]} below, {others[STAND_IN]} by a stand-in, {others[NOT_RUN]} not run.",
        "",
        "A cell is a number of the paper, in percent, and ours the mean over seeds; *above* and *below*: ours is more than a",
        "point higher or lower (of forgetting, higher is worse). A *stand-in* is a run with a smaller net, fewer epochs or a part",
        "of the data, and reproduces nothing. Written by `zoo paper --write REPRODUCTION.md` from the runs in `results/`; nothing is typed by hand.",
        "",
        markdown(Table(("table", "cells", *VERDICTS, "page"), counts, labels=1)).replace(
            "\\[", "["
        ),  # links stay links
        "",
        "## The paper's finding: isolated nets beat one net that learns on, one epoch",
        "",
        board.paragraph(equal.board(runs)),
        "",
        f"The board: [{equal.NAME}]({PAGES.as_posix()}/{equal.NAME}.md), by `zoo paper {equal.NAME}`.",
        "",
        *_finding(runs),
    ]
    if told := sum_up(runs):
        parts += [f"Past the paper, preset `beyond` has in one pass {told}: [beyond]({BEYOND}).", ""]
    parts += [f"The paper's figures, and the studies that were run: [figures]({PAGES.as_posix()}/figures.md).", ""]
    text = [difference.replace("AUGMENTED", _note_augmentation(runs)) for difference in DIFFERENCES]
    parts += ["## Known differences", "", *(f"- {difference}" for difference in text), ""]
    return "\n".join(parts)


def figures_page(studies: Iterable[Study]) -> str:
    """How each figure of the paper is drawn, and the studies that there are, as Markdown."""
    shown = [_study(study) for study in studies]
    drawn = [f"- {what}: `{command}`" for what, command in FIGURES.items()]
    return "\n".join(["# Figures of the paper", "", *drawn, "", *(["## Studies", "", *shown, ""] if shown else [])])


def precision_page(runs: Sequence[Results]) -> str:
    """What mixed precision changes where nothing else was changed, as Markdown."""
    lines, commands = [], []
    for exact, mixed in pair_precisions(runs):
        apart = [_mean([ours]) - _mean([other]) for other, ours in zip(exact, mixed, strict=True)]
        own = f"model-zoo, {name_settings(mixed[0])}" if mixed[0].method == "model-zoo" else mixed[0].method
        what = (own, mixed[0].benchmark, str(len(mixed[0].tasks)), precision(mixed[0]), str(len(apart)))
        difference = f"{fmean(apart):+z.2f}" + (f" ± {stdev(apart):.2f}" if len(apart) > 1 else "")
        lines.append((*what, f"{_mean(exact):.2f}", f"{_mean(mixed):.2f}", difference))
        commands += [run.made_by for run in (*exact, *mixed)]
    header = ("method", "benchmark", "tasks", "precision", "seeds", "float32", "mixed", "difference")
    shown = [markdown(Table(header, tuple(lines), labels=4)), "", "```sh", *dict.fromkeys(commands), "```", ""]
    return "\n".join(
        [
            "# Mixed precision beside float32",
            "",
            "Runs that differ in their precision alone: average accuracy in percent, and the difference seed by seed.",
            "",
            *(shown if lines else ["There are none yet.", ""]),
        ]
    )


def _counts(table: PaperTable, counted: Counter[str]) -> tuple[str, ...]:
    page = f"[{table.name}]({(PAGES / table.name).as_posix()}.md)"
    counts = (counted.total(), *(counted[verdict] for verdict in VERDICTS))
    return (f"{table.where}: {table.title}", *map(str, counts), page)


def _finding(runs: Sequence[Results]) -> list[str]:
    """Whether nets that share nothing beat one net that learns on, where both see the data once; not with equal nets."""
    rows = [row for table in TABLES.values() for row in table.rows if row.spec.settings.get("epochs") == 1]
    lines = []
    for benchmark in dict.fromkeys(row.spec.benchmark for row in rows):
        here = {row.name: (row, runs_of(row, runs)) for row in rows if row.spec.benchmark == benchmark}
        isolated = here.get("isolated-small", (None, []))[1]
        rivals = {name: found for name, (row, found) in here.items() if found and row.spec.method in ONE_NET}
        if isolated and rivals:
            best = max(rivals, key=lambda name: _mean(rivals[name]))
            holds = "yes" if _mean(isolated) > _mean(rivals[best]) else "no"
            seeds = ", one seed" if len(rivals[best]) == 1 else ""
            numbers = (f"{_mean(isolated):.2f}", f"{_mean(rivals[best]):.2f} ({best}{seeds})", str(len(rivals)), holds)
            lines.append((benchmark, *numbers))
    if not lines:
        return []
    header = ("benchmark", "isolated (small-conv)", "best one-net method as published", "methods", "isolated is better")
    return [
        "As published, with a ResNet18, plain SGD and at most one stored sample a class for most; isolated nets have `small-conv`,",
        "momentum and a cosine. This compares publications, the board compares methods:",
        "",
        markdown(Table(header, tuple(lines), labels=1)),
        "",
    ]


def _note_augmentation(runs: Sequence[Results]) -> str:
    """What isolated nets have with and without augmentation beside the paper's, on the benchmarks where both were run."""
    parts = []
    for benchmark, paper in (("split-cifar100", 71.6), ("coarse-cifar100", 58.72)):
        specs = [RunSpec("isolated", benchmark, {"epochs": 1, "augment": choice}) for choice in ("yes", "auto")]
        varied, plain = (runs_of(Row("isolated", spec, {}), runs) for spec in specs)
        if varied and plain:
            seeds = ", one seed" if len(varied) == 1 else ""
            parts.append(
                f"isolated has {_mean(varied):.2f} with it{seeds} and {_mean(plain):.2f} without on {benchmark}, the paper {paper}"
            )
    return "; ".join(parts) or "the runs with it are not there yet"


def _mean(runs: Sequence[Results]) -> float:
    return 100 * fmean(map(mean_accuracy, runs))


def table_page(table: PaperTable, runs: Sequence[Results]) -> str:
    """A table of the paper as Markdown: the paper's numbers, ours, how they differ and the commands that made ours."""
    found = [(row, runs_of(row, runs)) for row in table.rows]
    answered = [(row, here) for row, here in found if here]
    counted = tally(table, runs)
    verdicts = ", ".join(f"{counted[verdict]} {verdict}" for verdict in VERDICTS if counted[verdict])
    parts = [
        f"# {table.where}: {table.title}",
        "",
        f"`zoo paper {table.name}`; {counted.total()} cells: {verdicts}. [All tables](../../REPRODUCTION.md).",
        "",
    ]
    if answered:
        parts += [
            "Numbers are percentages; ours are mean and sample standard deviation over seeds, minutes by the clock, and",
            "the commit the one whose source made them. In place of a difference stands what of net, epochs, tasks or data is not",
            "the paper's. *Unique* is the accuracy without test rows that have a near-duplicate among the training rows, *not",
            "told* that of all classes together (class-incremental), of runs that have it.",
            "",
            *_answers(answered),
        ]
    missing = [row for row, here in found if not here]
    if missing:
        wanted = [(row, cell) for row in missing for cell in cells(row, [])]
        lines = tuple((row.name, row.spec.benchmark, MEASURES[cell.measure], cell.paper_text) for row, cell in wanted)
        parts += [f"## Not run: {len(missing)} of {len(found)} rows", ""]
        parts += [markdown(Table(("row", "benchmark", "measure", "paper"), lines, labels=3)), ""]
        if notes := [f"- {row}: {row.differs}" for row in missing if row.differs]:
            parts += [*notes, ""]
    return "\n".join(parts)


def _answers(answered: Sequence[tuple[Row, Sequence[Results]]]) -> list[str]:
    known = [[run.summary() for run in found] for _, found in answered]
    also = [measure for measure in ALSO if any(all(run[measure] is not None for run in row) for row in known if row)]
    lines = [_line(row, found, measure, also) for row, found in answered for measure in row.numbers]
    compared = ("row", "benchmark", "measure", "paper", "ours", "difference")
    header = (*compared, *(ALSO[measure] for measure in also), "seeds", "minutes", "commit")
    notes = [f"- {sentence}" for row, found in answered for sentence in remarks(row, found)]
    commands = list(dict.fromkeys(run.made_by for _, found in answered for run in found))
    table = markdown(Table(header, tuple(lines), labels=3))
    return [table, "", *notes, *([""] if notes else []), "```sh", *commands, "```", ""]


def _line(row: Row, runs: Sequence[Results], measure: str, also: Sequence[str]) -> tuple[str, ...]:
    cell = next(cell for cell in cells(row, runs) if cell.measure == measure)
    group = Group(tuple(runs))
    minutes = mean([sum(run.seconds.values()) for run in runs], "{:.1f}".format, unit=60)
    return (
        *(row.name, row.spec.benchmark, MEASURES[measure], cell.paper_text, cell.text, cell.difference),
        *(percent(group.values(each)) if measure == "average_accuracy" else MISSING for each in also),
        *(str(len(runs)), minutes, commits(runs)),
    )


def _study(study: Study) -> str:
    commands = ", ".join(dict.fromkeys(f"`{command}`" for figure in study.figures for command in figure.commands))
    return f"- {study.name} on {study.benchmark}: {'; '.join(figure.title for figure in study.figures)} ({commands})"
