"""The board of equal conditions as tables, as a page, and as the one paragraph that README and REPRODUCTION quote."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill

from zoolearn.lab.groups import Group, mean_accuracy
from zoolearn.lab.paper.equal import BUDGETS, MOST_TRIALS, NAME, NONE, STREAMS, Line, board
from zoolearn.lab.tables import Table, human, markdown, mean, percent
from zoolearn.runs.results import Results

TITLE = "Equal conditions: one net (small-conv), one recipe, one pass, settings chosen by one search"
HEADER = (
    "budget", "method", "chosen", "seeds", "accuracy", "forgetting", "forward", "unique", "not told", "stored", "MB",
    "parameters", "trained", "asked", "minutes",
)  # fmt: skip
MARKS = ("<!-- board -->", "<!-- end of board -->")  # around the paragraph, in pages that are otherwise written by hand
ISOLATED = "isolated"
OURS = "model-zoo"
BEST = 2  # lines of a budget that the paragraph names, beside ours
ONE_SEED = " (one seed)"


def table(lines: Sequence[Line], stream: str) -> Table:
    """What was run of one stream, by budget; the best of each budget first."""
    here = [line for line in lines if line.stream == stream and line.runs]
    here.sort(key=lambda line: (list(BUDGETS).index(line.entry.budget), -score(line)))
    return Table(HEADER, tuple(_cells(line) for line in here), labels=3)


def name_missing(lines: Sequence[Line], stream: str) -> str:
    """What was not run yet of one stream, by budget."""
    missing = [line.entry for line in lines if line.stream == stream and not line.runs]
    names = {budget: "; ".join(entry.name for entry in missing if entry.budget == budget) for budget in BUDGETS}
    return "\n".join(f"Not run yet, {budget}: {found}." for budget, found in names.items() if found)


def score(line: Line) -> float:
    """The average accuracy in percent over seeds."""
    return 100 * fmean(map(mean_accuracy, line.runs))


def _cells(line: Line) -> tuple[str, ...]:
    chosen = ", ".join(f"{name} {value}" for name, value in (line.chosen or {}).items())
    measures = ("average_accuracy", "forgetting", "forward_transfer", "unique_accuracy", "class_incremental_accuracy")
    group = Group(tuple(line.runs))
    return (
        *(line.entry.budget, line.entry.name, chosen, str(len(line.runs))),
        *(percent(group.values(measure)) for measure in measures),
        mean(group.values("stored_samples")),
        mean(group.values("stored_bytes"), "{:.1f}".format, unit=1e6),
        mean(group.values("num_parameters"), human),
        mean(group.values("rows_trained"), unit=1000),
        mean(group.values("rows_asked"), unit=1000),
        mean([sum(run.seconds.values()) for run in line.runs], "{:.1f}".format, unit=60),
    )


def page(runs: Sequence[Results]) -> str:
    """The whole board as Markdown, with the commands that made it."""
    lines = board(runs)
    commands = list(dict.fromkeys(run.made_by for line in lines for run in line.runs))
    parts = [
        f"# {TITLE}",
        "",
        f"`zoo paper {NAME} --rows all`. [All tables](../../REPRODUCTION.md). One pass over every task, `small-conv`, batches of",
        "16, SGD with Nesterov's momentum 0.9 and a cosine, no augmentation; methods with steps of their own keep them. What is",
        f"free of a method's settings was chosen by at most {MOST_TRIALS} trials on the first 5 tasks of Coarse-CIFAR100, judged",
        "by a fifth of their training rows; no test row was asked. *Chosen* is what won there. *Forward* is the accuracy right",
        "after a task is learned; *unique* leaves out test rows that have a near-duplicate among the training rows (ciFAIR);",
        "*not told* is class-incremental: all classes compete. *Stored* are samples, *MB* theirs; *trained* and *asked* are",
        "rows in thousands. Percent, mean and standard deviation over seeds; one seed has no deviation.",
        "",
        paragraph(lines),
        "",
    ]
    for stream in STREAMS:
        parts += [f"## {stream}", "", markdown(table(lines, stream)), "", *name_missing(lines, stream).splitlines(), ""]
    return "\n".join([*parts, *(["```sh", *commands, "```", ""] if commands else [])])


def paragraph(lines: Sequence[Line]) -> str:
    """What the board says of the paper's finding, whoever wins; only of what was run."""
    sentences = [sentence for stream in STREAMS if (sentence := _describe_stream(lines, stream))]
    run = [line for line in lines if line.runs]
    rest = f"{len(run)} of {len(lines)} lines were run so far" if len(run) < len(lines) else "All lines were run"
    ranking = "; ".join(sentences) or "not run yet"
    if run and all(len(line.runs) == 1 for line in run):
        ranking, rest = ranking.replace(ONE_SEED, ""), f"{rest}, with one seed"
    return fill(
        "The paper finds that isolated nets, which share nothing, beat every method with one net that learns on. Under equal "
        f"conditions (one net, recipe, pass and search of settings): {ranking}. {rest}.",
        width=128,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _describe_stream(lines: Sequence[Line], stream: str) -> str:
    here = [line for line in lines if line.stream == stream and line.runs]
    isolated = next((line for line in here if line.entry.name == ISOLATED), None)
    rivals = [line for line in here if line is not isolated]
    if not rivals:
        return ""
    without = [line for line in rivals if line.entry.budget == NONE]
    parts = [f"on {stream} isolated " + (f"has {_score(isolated)}" if isolated else "was not run yet")]
    if isolated and without:
        behind = [line for line in without if score(line) < score(isolated)]
        ahead = sorted((line for line in without if line not in behind), key=score, reverse=True)
        beaten = ", ".join(map(_name_and_score, ahead))
        parts.append(
            f"without stored samples it is ahead of {len(behind)} of {len(without)}"
            + (f", behind {beaten}" if ahead else "")
        )
    for budget, words in BUDGETS.items():
        with_memory = sorted((line for line in rivals if line.entry.budget == budget), key=score, reverse=True)
        if with_memory and not (isolated and budget == NONE):
            shown = [line for rank, line in enumerate(with_memory) if rank < BEST or line.entry.name == OURS]
            ranks = ", ".join(map(_name_and_score, shown))
            parts.append(f"with {words}: {ranks}")
    return "; ".join(parts)


def _name_and_score(line: Line) -> str:
    method, _, more = line.entry.name.partition(", ")
    return f"{method} ({more}) {_score(line)}" if more else f"{method} {_score(line)}"


def _score(line: Line) -> str:
    return f"{score(line):.2f}" + (ONE_SEED if len(line.runs) == 1 else "")


def put_paragraph(file: Path, runs: Sequence[Results]) -> str | None:
    """The text of a page with the paragraph between its marks; None where it has no such marks."""
    begin, end = MARKS
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if begin not in text or end not in text:
        return None
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{paragraph(board(runs))}\n{end}{rest.partition(end)[2]}"
