"""Several runs of one `zoo run`: side by side in worker processes, a folder each, one table in the end."""

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from zoolearn.cli.bars import show_side_by_side
from zoolearn.jobs import Done, Failed, Job, map_jobs, workers_for
from zoolearn.order import Order, carry_out
from zoolearn.report import report, text


def run_side_by_side(orders: Mapping[str, Order], folder: Path, workers: int, threads: int) -> None:
    """Carries out orders, by their titles, each in a folder of its own below `folder`; where there are more workers than runs, runs share them out."""
    console = Console()
    each = max(1, workers // workers_for(len(orders), workers, threads))
    jobs = [
        Job(title, carry_out, (replace(order, out=folder / title, workers=each),)) for title, order in orders.items()
    ]
    events = map_jobs(jobs, workers, threads)
    try:
        with closing(events):
            ends = show_side_by_side(events, console)
    except KeyboardInterrupt:
        print(
            f"\nzoo: stopped; what the runs have learned is kept in {folder}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    done = sorted((end for end in ends if isinstance(end, Done)), key=lambda end: jobs.index(end.job))
    failed = [end for end in ends if isinstance(end, Failed)]
    if done:
        print(text(report([end.result for end in done]), console.width if console.is_terminal else None))
        console.print(f"written to {folder}, a folder for each run", soft_wrap=True)
    for end in failed:
        print(f"zoo: {end.job.name}: {end.error}", file=sys.stderr)
    if failed:
        sys.exit(1)
