"""`zoo predict FOLDER NAME INPUT...`: the zoo's answers, one input after another."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from torch import Tensor

from zoolearn.cli.asking import check_question, print_answers, printable
from zoolearn.cli.flags import IgnoredColumns, Inputs, TaskName, ZooPath, about, optional, parse
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.none_of_these import NONE, Why, check_sure, why_none
from zoolearn.zoo.inputs import Columns

IDEA = """Ask a zoo about images, folders of images (at any depth), arrays (.npy, .npz) or tables (.csv, .parquet).

Inputs are read as they are answered, so that a folder may be larger than memory. Chances hold: of answers with a chance of
90 %, nine in ten are right. With `--sure 0.9`, what is less sure, or like nothing that is stored, is "none of these"."""


HEADER = f"{'chance':>6}  {'class':<20}  input"


@dataclass
class PredictOptions:
    """What to ask, and how to print the answers."""

    folder: ZooPath
    name: TaskName
    inputs: Inputs
    votes: Annotated[bool, about("also say what each member thinks")] = False
    csv: Annotated[bool, about("print comma-separated values with a header")] = False
    json: Annotated[bool, about("print one JSON object a line, with all probabilities")] = False
    sure: Annotated[float, about("least chance of a class that is named; 0: always name one")] = 0.0
    at: Annotated[int | None, optional("K", "answer as of episode K", "now")] = None
    skip_broken: Annotated[bool, about("inputs that cannot be read are no error")] = False
    label: Annotated[
        str | None,
        optional("COLUMN", "column of a table that holds the label", "label, class, target, if it is one too many"),
    ] = None
    ignore: IgnoredColumns = ()


@dataclass(frozen=True)
class Vote:
    """What one member says about one input."""

    member: int
    weight: float
    label: str
    probability: float


@dataclass(frozen=True)
class Answer:
    """What the zoo says about one input: the likeliest class, and why it may be none of these after all."""

    input: str
    label: str
    why_none: Why | None
    probability: float
    probabilities: dict[str, float]
    votes: tuple[Vote, ...]


def main(arguments: Sequence[str]) -> None:
    """Prints an answer for every input."""
    options = parse(PredictOptions, arguments, "zoo predict", IDEA)
    check_question(options.inputs, csv=options.csv, json=options.json)
    check_sure(options.sure)
    zoo = Zoo(options.folder)
    zoo.index.answering(options.name, options.at)  # an unknown task is told before anything is read
    printer = _json if options.json else _csv(options) if options.csv else _line
    print_answers(
        zoo,
        options.inputs,
        Columns(options.label, options.ignore),
        partial(_answers, zoo, options),
        printer,
        skip_broken=options.skip_broken,
        header="" if options.json or options.csv else HEADER,
    )


def _answers(zoo: Zoo, options: PredictOptions, names: Sequence[str], x: Tensor) -> Iterator[Answer]:
    x = zoo.rows(x)
    votes = zoo.votes(x, options.name, options.at)
    index, together = zoo.index, zoo.together(votes, options.name, options.at)
    classes = index.task(options.name, options.at).classes
    shares = {number: index.weight(index.member(number), options.name, options.at) for number in votes}
    reasons = why_none(together, options.sure, lambda: zoo.familiarity(options.name, options.at).strange(x))
    for row, (name, probabilities, why) in enumerate(zip(names, together.tolist(), reasons, strict=True)):
        best = max(range(len(classes)), key=probabilities.__getitem__)
        cast_votes = tuple(_vote(number, shares[number], answer[row], classes) for number, answer in votes.items())
        yield Answer(
            name,
            classes[best],
            why,
            probabilities[best],
            dict(zip(classes, probabilities, strict=True)),
            cast_votes if options.votes else (),
        )


def _vote(number: int, weight: float, answer: Tensor, classes: Sequence[str]) -> Vote:
    best = int(answer.argmax())
    return Vote(number, weight, classes[best], float(answer[best]))


def _line(answer: Answer) -> None:
    votes = "".join(f"  [{vote.member}: {vote.label} {vote.probability:.1%}]" for vote in answer.votes)
    if answer.why_none is None:
        print(f"{answer.probability:6.1%}  {answer.label:<20}  {printable(answer.input)}{votes}")
    else:
        near = f"{answer.label} {answer.probability:.1%}" if answer.why_none == "not sure" else "like nothing stored"
        print(f"{'-':>6}  {f'{NONE}: {near}':<36}  {printable(answer.input)}{votes}")


def _json(answer: Answer) -> None:
    content: dict[str, object] = {
        "input": answer.input,
        "class": answer.label if answer.why_none is None else None,
        "none_of_these": answer.why_none,
        "probability": answer.probability,
        "probabilities": answer.probabilities,
    }
    if answer.votes:
        content["votes"] = [
            {"member": vote.member, "weight": vote.weight, "class": vote.label, "probability": vote.probability}
            for vote in answer.votes
        ]
    print(json.dumps(content))


def _csv(options: PredictOptions) -> Callable[[Answer], None]:
    writer = csv.writer(sys.stdout)
    more = {"none_of_these": bool(options.sure), "votes": options.votes}
    writer.writerow(["input", "class", "probability", *(column for column, wanted in more.items() if wanted)])

    def write(answer: Answer) -> None:
        cells = {
            "none_of_these": answer.why_none or "",
            "votes": " ".join(f"{vote.member}:{vote.label}:{vote.probability:.4f}" for vote in answer.votes),
        }
        named = answer.label if answer.why_none is None else ""
        wanted = (cell for column, cell in cells.items() if more[column])
        writer.writerow([answer.input, named, f"{answer.probability:.6f}", *wanted])

    return write
