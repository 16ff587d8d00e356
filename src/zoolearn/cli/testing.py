"""`zoo test FOLDER NAME DATA`: how good a task's answers are on new labelled data."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.bars import follow
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import IgnoredColumns, LabelColumn, LabelsFile, TaskName, ZooPath, about, flag, parse
from zoolearn.cli.scores import format_interval, show_calibration, show_confusion, show_scores
from zoolearn.files import Json
from zoolearn.words import plural, printable
from zoolearn.zoo import Zoo
from zoolearn.zoo.inputs import open_source
from zoolearn.zoo.learning.evaluation import Tested

IDEA = """How good is a zoo on new labelled data: accuracy with its interval, class by class, what is mistaken for what, and
what confidence is worth. DATA is what `zoo learn` takes; its classes are the task's. Nothing of it is kept.

Rows that the zoo was trained on are no test: give data that it has not seen."""
MOST_NAMED = 10


@dataclass
class TestOptions:
    """What to test, and on what."""

    folder: ZooPath
    name: TaskName
    data: Annotated[Path, tyro.conf.Positional, about("labelled rows", "DATA")]
    json: bool = flag("print one JSON object instead", default=False)
    label: LabelColumn = None
    ignore: IgnoredColumns = ()
    labels: LabelsFile = None


def main(arguments: Sequence[str]) -> None:
    """Tests a task on new data."""
    options = parse(TestOptions, arguments, "zoo test", IDEA)
    zoo = Zoo(options.folder)
    zoo.index.task(options.name)
    source = open_source(
        options.data, replace(zoo.columns, label=options.label, ignore=options.ignore), labels=options.labels
    )
    console = output.console()
    tested: Tested = follow(
        zoo.iter_test(options.name, source), output.console(stderr=True) if options.json else console
    )
    if options.json:
        print(json.dumps(as_json(tested)))
        return
    show_scores(tested.scores, console, f"on {plural(tested.scores.rows, 'row')} of {options.data}")
    if tested.seen:
        console.print(
            Text(f"! {plural(tested.seen, 'row')} of these the zoo was trained on: the accuracy is no test", "yellow")
        )
    show_confusion(tested.scores, console)
    show_calibration(tested.scores, console)
    _show_mistakes(tested, console)
    expected = zoo.accuracy(options.name)
    console.print(
        f"on the {expected.rows:,} rows that were held out when it was learned: {expected.value:.1%}, "
        f"{format_interval(expected)} % with 95 % certainty"
    )
    for row in tested.broken[:MOST_NAMED]:
        console.print(Text(f"left out: {printable(row.name)}: {row.reason}"))
    if tested.broken:
        console.print(f"{plural(len(tested.broken), 'row')} left out because they cannot be read")


def _show_mistakes(tested: Tested, console: Console) -> None:
    if not tested.mistakes:
        return
    console.print("[bold]the surest mistakes[/]")
    header = ("is", "answered", "confidence", "input")
    rows = [
        (mistake.label, mistake.answer, f"{mistake.probability:.1%}", printable(mistake.name))
        for mistake in tested.mistakes[:MOST_NAMED]
    ]
    console.print(make_table(header, rows, words=header))


def as_json(tested: Tested) -> dict[str, Json]:
    """All of it, for programs."""
    return {
        "task": tested.task,
        "seen": tested.seen,
        **tested.scores.to_json(),
        "mistakes": [
            {"input": row.name, "class": row.label, "answer": row.answer, "probability": row.probability}
            for row in tested.mistakes
        ],
        "broken": [asdict(row) for row in tested.broken],
    }
