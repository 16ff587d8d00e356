"""`zoo log FOLDER`: what happened when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zoolearn.cli import output
from zoolearn.cli.columns import SCREEN, All, make_table
from zoolearn.cli.flags import ZooPath, parse
from zoolearn.zoo.disk.folder import ZooFolder


@dataclass
class LogOptions:
    """Which zoo."""

    folder: ZooPath
    everything: All = False


def main(arguments: Sequence[str]) -> None:
    """Prints one line for every change of a zoo."""
    options = parse(
        LogOptions, arguments, "zoo log", "What happened to a zoo, and when. Forgotten tasks have no name here."
    )
    log = ZooFolder(options.folder).read_log()
    shown = log if options.everything else log[-SCREEN:]
    header = ("when", "what", "task", "detail")
    rows = [(_format_time(line.when), line.did, line.task or "", line.detail) for line in shown]
    console = output.console()
    if len(shown) < len(log):
        console.print(f"... {len(log) - len(shown):,} earlier; --all prints them")
    console.print(make_table(header, rows, words=header))


def _format_time(moment: str) -> str:
    """A moment in this place's time."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
