"""`zoo predict FOLDER NAME INPUT...`: the zoo's answers, one input after another."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from torch import Tensor

from zoolearn.cli.asking import check_question, print_answers, printable
from zoolearn.cli.flags import optional, parse
from zoolearn.zoo import Zoo
from zoolearn.zoo.inputs import Columns

IDEA = """Ask a zoo about images, folders of images (at any depth), arrays (.npy, .npz) or tables (.csv, .parquet).

Inputs are read as they are answered, so that a folder may be larger than memory."""


HEADER = f"{'chance':>6}  {'class':<20}  input"


@dataclass
class PredictOptions:
    """What to ask, and how to print the answers."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="the zoo")]
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="the task")]
    inputs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="INPUT...", help="images, folders, arrays, tables", help_behavior_hint="(required)"),
    ]
    votes: Annotated[bool, tyro.conf.arg(help="also say what each member thinks")] = False
    csv: Annotated[bool, tyro.conf.arg(help="print comma-separated values with a header")] = False
    json: Annotated[bool, tyro.conf.arg(help="print one JSON object a line, with all probabilities")] = False
    at: Annotated[int | None, optional("K", "answer as of episode K", "now")] = None
    skip_broken: Annotated[bool, tyro.conf.arg(help="inputs that cannot be read are no error")] = False
    label: Annotated[
        str | None,
        optional("COLUMN", "column of a table that holds the label", "label, class, target, if it is one too many"),
    ] = None
    ignore: Annotated[tuple[str, ...], optional("COLUMN...", "columns of a table to leave out", "none")] = ()


@dataclass(frozen=True)
class Vote:
    """What one member says about one input."""

    member: int
    weight: float
    label: str
    probability: float


@dataclass(frozen=True)
class Answer:
    """What the zoo says about one input."""

    input: str
    label: str
    probability: float
    probabilities: dict[str, float]
    votes: tuple[Vote, ...]


def main(arguments: Sequence[str]) -> None:
    """Prints an answer for every input."""
    options = parse(PredictOptions, arguments, "zoo predict", IDEA)
    check_question(options.inputs, csv=options.csv, json=options.json)
    zoo = Zoo(options.folder)
    zoo.index.answering(options.name, options.at)  # an unknown task is told before anything is read
    printer = _json if options.json else _csv(options.votes) if options.csv else _line
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
    votes = zoo.votes(x, options.name, options.at)
    index, together = zoo.index, zoo.together(votes, options.name, options.at)
    classes = index.task(options.name, options.at).classes
    shares = {number: index.weight(index.member(number), options.name, options.at) for number in votes}
    for row, (name, probabilities) in enumerate(zip(names, together.tolist(), strict=True)):
        best = max(range(len(classes)), key=probabilities.__getitem__)
        said = tuple(_vote(number, shares[number], answer[row], classes) for number, answer in votes.items())
        yield Answer(
            name,
            classes[best],
            probabilities[best],
            dict(zip(classes, probabilities, strict=True)),
            said if options.votes else (),
        )


def _vote(number: int, weight: float, answer: Tensor, classes: Sequence[str]) -> Vote:
    best = int(answer.argmax())
    return Vote(number, weight, classes[best], float(answer[best]))


def _line(answer: Answer) -> None:
    votes = "".join(f"  [{vote.member}: {vote.label} {vote.probability:.1%}]" for vote in answer.votes)
    print(f"{answer.probability:6.1%}  {answer.label:<20}  {printable(answer.input)}{votes}")


def _json(answer: Answer) -> None:
    content = {
        "input": answer.input,
        "class": answer.label,
        "probability": answer.probability,
        "probabilities": answer.probabilities,
    }
    if answer.votes:
        content["votes"] = [
            {"member": vote.member, "weight": vote.weight, "class": vote.label, "probability": vote.probability}
            for vote in answer.votes
        ]
    print(json.dumps(content))


def _csv(with_votes: bool) -> Callable[[Answer], None]:
    writer = csv.writer(sys.stdout)
    writer.writerow(["input", "class", "probability", *(["votes"] if with_votes else [])])

    def write(answer: Answer) -> None:
        votes = " ".join(f"{vote.member}:{vote.label}:{vote.probability:.4f}" for vote in answer.votes)
        writer.writerow([answer.input, answer.label, f"{answer.probability:.6f}", *([votes] if with_votes else [])])

    return write
