"""What `zoo judge` has found out, gathered from files, and its part of `docs/beyond.md`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path

from zoolearn.files import Json, load_json
from zoolearn.lab.judge import FILE, Judged, record_judgement
from zoolearn.lab.tables import Table, human, markdown
from zoolearn.runs.records import JUDGED, find_files, iter_records
from zoolearn.runs.results import Results


def load_judged(folders: Sequence[Path]) -> list[Judged]:
    """What `zoo judge` has found out about runs below these folders, each once."""
    found: dict[str, Judged] = {}
    for folder in folders:
        for place, content in iter_judged(folder).items():
            record = record_judgement(content, str(place))
            found.setdefault(json.dumps([record.benchmark, record.run], sort_keys=True), record)
    return list(found.values())


def iter_judged(folder: Path) -> dict[Path, dict[str, Json]]:
    """What `zoo judge` has written below a folder, by where it lies."""
    found = {file.parent: load_json(file) for file in find_files(folder, FILE)}
    for file in find_files(folder, JUDGED):
        found |= {file / name: record for name, record in iter_records(file)}
    return found


def describe_judged(records: Sequence[Judged], name_of: Callable[[Results], str]) -> list[str]:
    """Runs that were not told the task, voted in other ways, and nets distilled from them, as Markdown."""
    unknown, nets, votes, members = [], [], [], []
    for record in records:
        whole, small = record.zoo, record.distilled
        run = Results(method="model-zoo", benchmark=record.benchmark, tasks=[], settings=record.run)
        name = f"{record.benchmark}, {name_of(run)}, seed {record.run['seed']}"
        for evidence, found in record.unknown_task.items():
            unknown.append((name, evidence, *map(_percent, (whole.accuracy, *astuple(found)))))
        for what, net in (("the zoo", whole), (f"distilled, {small.epochs} epoch(s)", small)):
            nets.append((name, what, _percent(net.accuracy), human(net.num_parameters), f"{net.ms:.2f}"))
        votes += [(name, rule, _percent(value)) for rule, value in record.voting.items()]
        members.append((name, *map(_percent, astuple(record.members))))
    columns = ("told the task", "not told", "task found", "answered", "right if answered")
    return [
        "## When the task is not given, and one net for all",
        "",
        "`zoo judge RUN`. *Not told* counts an answer as right if task and class are (class-incremental accuracy); it is",
        "*answered* where the chance of the likeliest task is at least a half, else the zoo says that it is not sure.",
        "",
        markdown(Table(("run", "evidence", *columns), tuple(unknown), labels=2)),
        "",
        markdown(Table(("run", "answered by", "accuracy", "parameters", "ms per row"), tuple(nets), labels=2)),
        "",
        "## Voting otherwise, and each member alone",
        "",
        "`zoo judge RUN`: the same members and test rows, other ways to make one answer of theirs. *Product* is the geometric",
        "mean of probabilities, *all alike* leaves the weights of votes out, *tempered* softened each member's answers by the",
        "temperature that held-out rows liked best, while members held rows out ([the log](log.md)). *Newest* is the last member",
        "that speaks for a task, alone: where the zoo is not above it, the others add nothing. *Differ* is the share of rows on",
        "which two members name different classes.",
        "",
        markdown(Table(("run", "voting by", "accuracy"), tuple(votes), labels=2)),
        "",
        markdown(Table(("run", "zoo", "newest", "best", "average", "differ"), tuple(members), labels=1)),
        "",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"
