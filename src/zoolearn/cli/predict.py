"""`zoo predict FOLDER NAME INPUT...`: the zoo's answers, one input after another."""

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zoolearn.cli.asking import check_question, print_answers
from zoolearn.cli.flags import IgnoredColumns, Inputs, TaskName, ZooPath, flag, parse
from zoolearn.files import Json
from zoolearn.words import printable
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.none_of_these import NONE, check_sure
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
    votes: bool = flag("also say what each member thinks", default=False)
    csv: bool = flag("print comma-separated values with a header", default=False)
    json: bool = flag("print one JSON object a line, with all probabilities", default=False)
    sure: float = flag("least chance of a class that is named; 0: always name one", default=0.0)
    at: int | None = flag("answer as of episode K", "K", "now")
    skip_broken: bool = flag("inputs that cannot be read are no error", default=False)
    label: str | None = flag(
        "column of a table that holds the label", "COLUMN", "label, class, target, if it is one too many"
    )
    ignore: IgnoredColumns = ()


def main(arguments: Sequence[str]) -> None:
    """Prints an answer for every input."""
    options = parse(PredictOptions, arguments, "zoo predict", IDEA)
    check_question(options.inputs, csv=options.csv, as_json=options.json)
    check_sure(options.sure)
    zoo = Zoo(options.folder)
    zoo.index.require_voters(options.name, options.at)  # an unknown task is told before anything is read
    print_answers(
        zoo,
        options.inputs,
        Columns(options.label, options.ignore),
        lambda x: zoo.answers(x, options.name, options.at, options.sure).to_json(votes=options.votes),
        _line if not options.csv else _csv(options),
        as_json=options.json,
        skip_broken=options.skip_broken,
        header="" if options.csv else HEADER,
    )


def _line(name: str, answer: dict[str, Json]) -> None:
    votes = "".join(
        f"  [{vote['member']}: {vote['class']} {vote['probability']:.1%}]" for vote in answer.get("votes", ())
    )
    if answer["none_of_these"] is None:
        print(f"{answer['probability']:6.1%}  {answer['class']:<20}  {printable(name)}{votes}")
    else:
        likeliest = max(answer["probabilities"], key=answer["probabilities"].get)
        is_strange = answer["none_of_these"] == "strange"
        near = "like nothing stored" if is_strange else f"{likeliest} {answer['probability']:.1%}"
        print(f"{'-':>6}  {f'{NONE}: {near}':<36}  {printable(name)}{votes}")


def _csv(options: PredictOptions) -> Callable[[str, dict[str, Json]], None]:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    more = {"none_of_these": bool(options.sure), "votes": options.votes}
    writer.writerow(["input", "class", "probability", *(column for column, wanted in more.items() if wanted)])

    def write(name: str, answer: dict[str, Json]) -> None:
        votes = (f"{vote['member']}:{vote['class']}:{vote['probability']:.4f}" for vote in answer.get("votes", ()))
        cells = {"none_of_these": answer["none_of_these"] or "", "votes": " ".join(votes)}
        wanted = (cell for column, cell in cells.items() if more[column])
        writer.writerow([name, answer["class"] or "", f"{answer['probability']:.6f}", *wanted])

    return write
