"""`zoo recognise FOLDER INPUT...`: answers for inputs whose task is not given, or "not sure"."""

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zoolearn.cli.asking import check_question, print_answers
from zoolearn.cli.flags import IgnoredColumns, Inputs, ZooPath, flag, parse
from zoolearn.files import Json
from zoolearn.words import printable
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.recognition import check_recognisable
from zoolearn.zoo.inputs import Columns

IDEA = """Ask a zoo about inputs whose task you do not know: it finds the task by the rows that it stores of each, then the
class. Where a task is not likely enough, or an input is like nothing stored, it says that it is not sure.

If you know the task, `zoo predict` is right more often."""

HEADER = f"{'chance':>6}  {'class':<20}  {'task and its chance':<20}  input"


@dataclass
class RecogniseOptions:
    """What to ask, and how sure an answer must be."""

    folder: ZooPath
    inputs: Inputs
    sure: float = flag("least chance of a task that is named; 0: always name one", default=0.5)
    csv: bool = flag("print comma-separated values with a header", default=False)
    json: bool = flag("print one JSON object a line, with the chances of all tasks", default=False)
    skip_broken: bool = flag("inputs that cannot be read are no error", default=False)
    ignore: IgnoredColumns = ()


def main(arguments: Sequence[str]) -> None:
    """Prints a task and a class for every input, or that the zoo is not sure."""
    options = parse(RecogniseOptions, arguments, "zoo recognise", IDEA)
    check_question(options.inputs, csv=options.csv, as_json=options.json)
    zoo = Zoo(options.folder)
    check_recognisable(zoo.index, options.sure)

    print_answers(
        zoo,
        options.inputs,
        Columns(None, options.ignore),
        lambda x: [{"chance": found.chance, **found.to_json()} for found in zoo.recognise(x, options.sure)],
        _line if not options.csv else _csv(),
        as_json=options.json,
        skip_broken=options.skip_broken,
        header="" if options.csv else HEADER,
    )


def _line(name: str, found: dict[str, Json]) -> None:
    chances = found["chances"]
    if found["task"] is None:
        likely = sorted(chances, key=chances.get, reverse=True)[:2]
        guesses = ", ".join(f"{task} {chances[task]:.1%}" for task in likely)
        why = "not sure: like nothing stored" if found["strange"] else f"not sure: {guesses}"
        print(f"{'-':>6}  {why:<42}  {printable(name)}")
    else:
        task = f"{found['task']} {found['chance']:.1%}"
        print(f"{found['probability']:6.1%}  {found['class']:<20}  {task:<20}  {printable(name)}")


def _csv() -> Callable[[str, dict[str, Json]], None]:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["input", "task", "chance", "class", "probability"])

    def write(name: str, found: dict[str, Json]) -> None:
        probability = f"{found['probability']:.6f}" if found["task"] else ""
        writer.writerow([name, found["task"] or "", f"{found['chance']:.6f}", found["class"] or "", probability])

    return write
