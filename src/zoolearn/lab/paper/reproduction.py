"""`REPRODUCTION.md`, written from run folders alone: for each cell the paper's number, ours, and how to make it again."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from zoolearn.files import load_json, save_json
from zoolearn.lab.judge import FILE as JUDGED
from zoolearn.lab.paper.compare import MEASURES, cells, is_row, missing_data, runs_of
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import FIGURES, TABLES
from zoolearn.lab.provenance import run_command, short_name
from zoolearn.lab.studies.study import Study
from zoolearn.lab.tables import Table, markdown
from zoolearn.runs.results import Results

ONE_NET = ("fine-tune", "stable-sgd", "er", "ewc", "si", "gem", "a-gem", "mega-ii", "ogd", "tag", "mc-sgd")
DIFFERENCES = (
    "Accuracy is always that of the test set, after all tasks; forgetting is defined as in the paper, and so is forward "
    "(transfer): the accuracy right after a task is learned, which others call learning accuracy.",
    "Every member of a zoo starts from a seed of its own; the authors' code starts all from one.",
    "Past tasks are drawn without repeats and the new task is always trained on: the text leaves both open, the code does so.",
    "The weights of the draw are exp(loss), as in the text; `--weigh released` gives those of the code.",
    "One-epoch runs use no augmentation: the code that made the published numbers did not, although the text says otherwise.",
    "Limited replay keeps the same share of each class, and half of a batch is of the new task.",
    "Split-miniImageNet has 20 tasks of 5 labels (the text says 10, but there are 100 classes); of each class the first "
    "80 % of the images train and the rest test, fixed once. Runs on a part of the images say so below their table, and "
    "compare with each other, not with the paper. The paper's jump of old tasks on it, from 66.57 to 81.05, was not seen; "
    "docs/evidence.md has what was found.",
    "The ensemble of isolated nets has 5 nets a task; the paper's is of another size.",
    "CPU runs compute in float32, the paper's in mixed precision on a GPU. Minutes are those of the machine of the run, "
    "which may have been busy with other work.",
)


def reproduction(runs: Sequence[Results], studies: Sequence[Study] = ()) -> str:
    """The page as Markdown."""
    parts = [
        "# Reproduction",
        "",
        "Written by `zoo paper --write REPRODUCTION.md` from the results of finished runs; nothing here is typed by hand.",
        "Numbers are percentages; ours are mean and sample standard deviation over seeds, minutes the mean of a run, and",
        "the commit the one whose source made them. A table of the paper that has no finished run is listed at the end.",
        "",
    ]
    empty = []
    for table in TABLES.values():
        section = _section(table, runs)
        if section:
            parts += section
        else:
            empty.append(f"`{table.name}` ({table.where}: {table.title})")
    parts += _finding(runs)
    if studies:
        parts += ["## Studies", "", *(_study(study) for study in studies), ""]
    parts += ["## Known differences", "", *(f"- {difference}" for difference in DIFFERENCES), ""]
    if empty:
        parts += ["## Not run yet", "", *(f"- {line}" for line in empty), ""]
    parts += ["## Figures of the paper", "", *(f"- {what}: `{command}`" for what, command in FIGURES.items()), ""]
    return "\n".join(parts)


def _finding(runs: Sequence[Results]) -> list[str]:
    """Whether nets that share nothing beat one net that learns on, where both see the data once."""
    rows = [row for table in TABLES.values() for row in table.rows if row.recipe.get("epochs") == 1]
    lines = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        here = {row.name: (row, runs_of(row, runs)) for row in rows if row.benchmark == benchmark}
        isolated = here.get("isolated-small", (None, []))[1]
        rivals = {name: _mean(found) for name, (row, found) in here.items() if found and row.method in ONE_NET}
        if isolated and rivals:
            best = max(rivals, key=lambda name: rivals[name])
            holds = "yes" if _mean(isolated) > rivals[best] else "no"
            numbers = (f"{_mean(isolated):.2f}", f"{rivals[best]:.2f} ({best})", str(len(rivals)), holds)
            lines.append((benchmark, *numbers))
    if not lines:
        return []
    header = ("benchmark", "isolated-small", "best with one net", "methods with one net", "isolated is better")
    return [
        "## The paper's finding: Isolated beats one net that learns on, one epoch",
        "",
        markdown(Table(header, tuple(lines), labels=1)),
        "",
    ]


def _mean(runs: Sequence[Results]) -> float:
    return 100 * fmean(run.summary()["average_accuracy"] or 0.0 for run in runs)


def _section(table: PaperTable, runs: Sequence[Results]) -> list[str]:
    answered = [(row, found) for row in table.rows if (found := runs_of(row, runs))]
    if not answered:
        return []
    lines = [_line(row, found, measure) for row, found in answered for measure in row.numbers]
    header = ("row", "benchmark", "measure", "paper", "ours", "difference", "seeds", "minutes", "commit")
    missing = len(table.rows) - len(answered)
    notes = sorted({f"{row.name} on {row.benchmark}: {row.differs}" for row, _ in answered if row.differs})
    notes += [sentence for row, found in answered if (sentence := missing_data(row, found))]
    commands = list(dict.fromkeys(run_command(found) for _, found in answered))
    return [
        f"## {table.where}: {table.title}",
        "",
        f"`zoo paper {table.name}`" + (f"; {missing} of {len(table.rows)} rows not run yet" if missing else ""),
        "",
        markdown(Table(header, tuple(lines), labels=3)),
        "",
        *(f"- {note}" for note in notes),
        *([""] if notes else []),
        "```sh",
        *commands,
        "```",
        "",
    ]


def _line(row: Row, runs: Sequence[Results], measure: str) -> tuple[str, ...]:
    cell = next(cell for cell in cells(row, runs) if cell.measure == measure)
    minutes = fmean(sum(run.seconds.values()) for run in runs) / 60
    return (
        row.name,
        row.benchmark,
        MEASURES[measure],
        cell.paper_text,
        cell.text,
        cell.difference,
        str(len(runs)),
        f"{minutes:.1f}",
        ", ".join(dict.fromkeys(_commit(run) for run in runs)),
    )


def _commit(run: Results) -> str:
    commit = run.environment.get("commit")
    if not isinstance(commit, str):
        return "unknown"
    sha, _, dirty = commit.partition("-")
    return sha[:8] + ("+" if dirty else "")


def _study(study: Study) -> str:
    commands = ", ".join(
        f"`{command}`" for command in dict.fromkeys(c for figure in study.figures for c in figure.commands)
    )
    return f"- {study.name} on {study.benchmark}: {'; '.join(figure.title for figure in study.figures)} ({commands})"


def collect(folders: Sequence[Path], to: Path) -> list[Path]:
    """Copies what is small and says all: `results.json` of finished runs, what judged them, `study.json` of studies.

    Of the runs that a study consists of, only those are copied that are also rows of a table.
    """
    from zoolearn.lab.provenance import run_name
    from zoolearn.lab.studies.study import find_studies

    written = []
    studies = find_studies(folders)
    for folder in folders:
        for file in sorted(folder.rglob(Results.FILE)):
            results = Results.load(file)
            if results.finished and (is_row(results) or not any(study in file.parents for study in studies)):
                results.save(to / run_name(results))
                if (file.parent / JUDGED).exists():
                    save_json(to / run_name(results) / JUDGED, load_json(file.parent / JUDGED), indent=1)
                written.append(to / run_name(results) / Results.FILE)
    for study_folder in studies:
        study = Study.load(study_folder)
        words = [f"{name.replace('_', '')}{value}" for name, value in study.settings.items() if name != "seeds"]
        target = to / short_name("-".join(["study", study.name, study.benchmark, *words]))
        study.save(target)
        written.append(target / Study.FILE)
    return list(dict.fromkeys(written))
