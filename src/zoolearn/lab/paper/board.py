"""The board of equal conditions as tables, as a page, and as the summary that README and REPRODUCTION quote."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill

from zoolearn.lab.groups import Group, mean_accuracy
from zoolearn.lab.paper.compare import FLOAT32, commits, precision
from zoolearn.lab.paper.equal import BUDGETS, MOST_TRIALS, NAME, STREAMS, Line, board
from zoolearn.lab.tables import MISSING, Table, human, markdown, mean, percent
from zoolearn.runs.results import Results

TITLE = "Equal conditions: one net (small-conv), one recipe, one pass, settings chosen by one search"
HEADER = (
    "budget", "method", "chosen", "seeds", "accuracy", "forgetting", "forward", "unique", "not told", "stored", "MB",
    "parameters", "trained", "asked", "minutes", "processor", "commit",
)  # fmt: skip
MARKS = ("<!-- board -->", "<!-- end of board -->")  # around the summary, in pages that are otherwise written by hand
ISOLATED = "isolated"
OURS = "model-zoo"
JOINT = "multi-head"  # meets all tasks at once, so it is no rival


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
    mixed = sorted({precision(run) for run in line.runs} - {FLOAT32})
    chosen = ", ".join([*(f"{name} {value}" for name, value in (line.chosen or {}).items()), *mixed])
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
        mean(group.recorded("processor_seconds"), "{:.1f}".format, unit=60),
        commits(line.runs),
    )


def page(runs: Sequence[Results]) -> str:
    """The whole board as Markdown, with the commands that made it."""
    lines = board(runs)
    commands = list(dict.fromkeys(run.made_by for line in lines for run in line.runs))
    parts = [
        f"# {TITLE}",
        "",
        f"`zoo paper {NAME} --rows all`. [All tables](../../REPRODUCTION.md). One pass over every task, `small-conv`, batches of",
        "16, SGD with Nesterov's momentum 0.9 and a cosine, no augmentation; methods with steps of their own keep them. Equal are",
        "network, passes and stored samples, not the number of nets: see *parameters* and *asked*. Where more epochs are named,",
        "all tasks are trained on at once, and there is no single pass; with *mirror images* an answer is the mean of two views.",
        f"Free settings of each method were chosen by at most {MOST_TRIALS} trials on the first 5 tasks of Coarse-CIFAR100, judged by",
        "a fifth of their training rows: the search read no test row. (That heads are refitted, views mirrored and members begin",
        "where the last one ended, as in rows with the tricks of beyond, had once been chosen on test rows of Coarse-CIFAR100.)",
        "*Chosen* is what won there; computed in float32 unless it says otherwise. *Forward* is the accuracy right after a task is",
        "learned; *unique* leaves out test rows that have a near-duplicate among the training rows (ciFAIR); *not told* is",
        "class-incremental accuracy by the heads side by side. *Stored* are samples, *MB* their size; *trained* and *asked* are rows",
        "in thousands, *minutes* by the clock, with other programs beside, *processor* minutes of processors where they were",
        "counted, *commit* the one whose source made the runs. Percent, mean and standard deviation over seeds; one seed has none.",
        "",
        summary(lines),
        "",
    ]
    for stream in STREAMS:
        parts += [f"## {stream}", "", markdown(table(lines, stream)), "", *name_missing(lines, stream).splitlines(), ""]
    return "\n".join([*parts, *(["```sh", *commands, "```", ""] if commands else [])])


def summary(lines: Sequence[Line]) -> str:
    """What the board says of the paper's finding, and the best of each budget."""
    shown = short_table(lines)
    return f"{paragraph(lines)}\n\n{markdown(shown)}" if shown.rows else paragraph(lines)


def paragraph(lines: Sequence[Line]) -> str:
    """How many rivals isolated nets beat, and what the best rival and the paper's zoo have; only of what was run."""
    run = [line for line in lines if line.runs]
    counts = "; ".join(told for stream in STREAMS if (told := _count_beaten(run, stream)))
    said = ["The paper finds that isolated nets, which share nothing, beat every method that goes on training one net."]
    if counts:
        equal = "Under equal conditions (the same network, passes and search of settings) they beat, of the rivals that were run"
        said.append(f"{equal}: {counts}.")
    if compared := _compare_with_rival(run, STREAMS[0]):
        said.append(compared)
    if len(run) < len(lines):
        said.append(f"{len(run)} of {len(lines)} lines of the board were run so far.")
    return fill(" ".join(said), width=128, break_long_words=False, break_on_hyphens=False)


def short_table(lines: Sequence[Line]) -> Table:
    """The best and the best rival of each budget beside isolated nets and the paper's zoo: average accuracy on each stream."""
    rows = []
    for budget, words in BUDGETS.items():
        here = _rank(lines, budget)
        rivals = [name for name in here if _is_rival(here[name][0])]
        shown = [name for name in here if name in (*[*here][:1], *rivals[:1], ISOLATED, OURS)]
        rows += [(words, name, *map(_accuracy, here[name])) for name in shown]
    return Table(("memory", "method", *STREAMS), tuple(rows), labels=2)


def _rank(lines: Sequence[Line], budget: str) -> dict[str, list[Line]]:
    """The lines of a budget by method: those run on more streams first, then by their mean."""
    names = dict.fromkeys(line.entry.name for line in lines if line.entry.budget == budget and line.runs)
    here = {name: [line for line in lines if (line.entry.budget, line.entry.name) == (budget, name)] for name in names}
    ranked = sorted(here, key=lambda name: (sum(not line.runs for line in here[name]), -_mean_score(here[name])))
    return {name: here[name] for name in ranked}


def _compare_with_rival(lines: Sequence[Line], stream: str) -> str:
    """What the best rival and the paper's zoo have on a stream, at each budget where both were run."""
    parts = []
    for budget, words in BUDGETS.items():
        here = {
            name: found[0] for name, found in _rank([line for line in lines if line.stream == stream], budget).items()
        }
        rival = next((line for line in here.values() if _is_rival(line)), None)
        if rival and OURS in here:
            parts.append(
                f"with {words} {rival.entry.name} has {score(rival):.2f}, the paper's zoo {score(here[OURS]):.2f}"
            )
    return f"On {stream}, {'; '.join(parts)}." if parts else ""


def _count_beaten(lines: Sequence[Line], stream: str) -> str:
    here = [line for line in lines if line.stream == stream]
    isolated = next((line for line in here if line.entry.name == ISOLATED), None)
    rivals = [line for line in here if _is_rival(line)]
    parts = []
    for budget, words in BUDGETS.items():
        found = [line for line in rivals if line.entry.budget == budget]
        if isolated and found:
            beaten = sum(score(line) < score(isolated) for line in found)
            parts.append(f"{beaten} of {len(found)} with {words}")
    return f"on {stream}, {', '.join(parts)}" if parts else ""


def _is_rival(line: Line) -> bool:
    """Whether it is of a method with one net that learns on."""
    return line.entry.method not in (ISOLATED, OURS, JOINT)


def _mean_score(lines: Sequence[Line]) -> float:
    return fmean(score(line) for line in lines if line.runs)


def _accuracy(line: Line) -> str:
    return percent(Group(tuple(line.runs)).values("average_accuracy")) if line.runs else MISSING


def put_summary(file: Path, runs: Sequence[Results]) -> str | None:
    """The text of a page with the summary between its marks; None where it has no such marks."""
    begin, end = MARKS
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if begin not in text or end not in text:
        return None
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{summary(board(runs))}\n{end}{rest.partition(end)[2]}"
