"""`zoo recognise FOLDER INPUT...`: answers for inputs whose task is not given, or "not sure"."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from zoolearn.cli.asking import check_question, print_answers, printable
from zoolearn.cli.flags import IgnoredColumns, Inputs, ZooPath, about, parse
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.recognition import Recognised, check_unrecognisable
from zoolearn.zoo.inputs import Columns

IDEA = """Ask a zoo about inputs whose task you do not know: it finds the task by the rows that it stores of each, then the
class. Where a task is not likely enough, or an input is like nothing stored, it says that it is not sure.

If you know the task, `zoo predict` is right more often."""

Show = Callable[[tuple[str, Recognised]], None]


@dataclass
class RecogniseOptions:
    """What to ask, and how sure an answer must be."""

    folder: ZooPath
    inputs: Inputs
    sure: Annotated[float, about("least chance of a task that is named; 0: always name one")] = 0.5
    csv: Annotated[bool, about("print comma-separated values with a header")] = False
    json: Annotated[bool, about("print one JSON object a line, with the chances of all tasks")] = False
    skip_broken: Annotated[bool, about("inputs that cannot be read are no error")] = False
    ignore: IgnoredColumns = ()


def main(arguments: Sequence[str]) -> None:
    """Prints a task and a class for every input, or that the zoo is not sure."""
    options = parse(RecogniseOptions, arguments, "zoo recognise", IDEA)
    check_question(options.inputs, csv=options.csv, json=options.json)
    zoo = Zoo(options.folder)
    check_unrecognisable(zoo.index, options.sure)

    def answers(names: Sequence[str], x: Tensor) -> Iterator[tuple[str, Recognised]]:
        yield from zip(names, zoo.recognise(x, options.sure), strict=True)

    show = _json if options.json else _csv() if options.csv else _line
    header = "" if options.json or options.csv else f"{'chance':>6}  {'class':<20}  {'task and its chance':<20}  input"
    print_answers(
        zoo,
        options.inputs,
        Columns(None, options.ignore),
        answers,
        show,
        skip_broken=options.skip_broken,
        header=header,
    )


def _line(answer: tuple[str, Recognised]) -> None:
    name, found = answer
    if found.task is None:
        likely = sorted(found.chances, key=found.chances.__getitem__, reverse=True)[:2]
        guesses = ", ".join(f"{task} {found.chances[task]:.1%}" for task in likely)
        why = "not sure: like nothing stored" if found.strange else f"not sure: {guesses}"
        print(f"{'-':>6}  {why:<42}  {printable(name)}")
    else:
        task = f"{found.task} {found.chance:.1%}"
        print(f"{found.probability:6.1%}  {found.label:<20}  {task:<20}  {printable(name)}")


def _json(answer: tuple[str, Recognised]) -> None:
    name, found = answer
    content = {
        "input": name,
        "task": found.task,
        "class": found.label,
        "probability": found.probability if found.task else None,
        "chance": found.chance,
        "strange": found.strange,
        "chances": found.chances,
    }
    print(json.dumps(content))


def _csv() -> Show:
    writer = csv.writer(sys.stdout)
    writer.writerow(["input", "task", "chance", "class", "probability"])

    def write(answer: tuple[str, Recognised]) -> None:
        name, found = answer
        probability = f"{found.probability:.6f}" if found.task else ""
        writer.writerow([name, found.task or "", f"{found.chance:.6f}", found.label or "", probability])

    return write
