"""`zoo data`: what is there, what is missing, and how to get it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.columns import make_table
from zoolearn.cli.flags import DataRoot, flag, parse
from zoolearn.data.datasets import data_root, download, status

COLOURS = {"verified": "green", "present": "green", "missing": "yellow", "damaged": "red"}


@dataclass
class DataOptions:
    """Which data root, and what to fetch into it."""

    data: DataRoot = None
    download: tuple[str, ...] = flag("fetch these data sets from their publishers", "NAME...", "none", default=())
    verify: bool = flag("compare every file with the publisher's checksum", default=True)


def main(arguments: Sequence[str]) -> None:
    """Fetches what was asked for, then shows the state of every data set."""
    options = parse(
        DataOptions, arguments, "zoo data", "Which data sets are present and whole, and how to get the others."
    )
    for name in options.download:
        download(name, options.data)
    console = output.console()
    console.print(f"data root: {data_root(options.data)}")
    rows = []
    for entry in status(options.data, verify=options.verify):
        problems = "; ".join(entry.problems) if entry.state == "damaged" else ""
        details = "\n".join(part for part in (problems, entry.advice) if part) or str(entry.path)
        rows.append((entry.name, Text(entry.state, COLOURS[entry.state]), details))
    header = ("data set", "state", "where, or what to do")
    console.print(make_table(header, rows, words=header))
