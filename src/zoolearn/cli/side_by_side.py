"""Several runs of one command: side by side wherever there is room, a folder each, one table in the end."""

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from zoolearn.cli import output
from zoolearn.cli.bars import show_side_by_side
from zoolearn.lab.report import report
from zoolearn.lab.tables import text
from zoolearn.runs.jobs import Done, Failed, Place, Ray, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def run_side_by_side(orders: Mapping[str, RunSpec], folder: Path, place: Place) -> None:
    """Carries out orders, by their titles, each in its own folder in or below `folder`; what is finished is only read."""
    console = output.console()
    outcome = {title: results for title, order in orders.items() if (results := order.finished()) is not None}
    if outcome:
        console.print(f"{len(outcome)} of {len(orders)} runs are finished; nothing to train for them")
    missing = {title: order for title, order in orders.items() if title not in outcome}
    failed = _carry_out(missing, folder, place, outcome, console) if missing else []
    if outcome:
        ordered = [outcome[title] for title in orders if title in outcome]
        print(text(report(ordered), output.width()))
        kept = ", a folder for each run" if len(orders) > 1 else ""
        console.print(f"written to {folder}{kept}", soft_wrap=True)
    for end in failed:
        print(f"zoo: {end.job.name}: {end.error}", file=sys.stderr)
    if failed:
        sys.exit(1)


def _carry_out(
    orders: Mapping[str, RunSpec], folder: Path, place: Place, outcome: dict[str, Results], console: Console
) -> list[Failed]:
    """Adds what comes of the orders to `outcome`; returns what does not."""
    orders = {title: _for_place(order, place, len(orders)) for title, order in orders.items()}
    for order in orders.values():
        if order.out is not None:  # a machine that does not see it shares no storage with this one
            order.out.parent.mkdir(parents=True, exist_ok=True)
    events = map_jobs([order.job(title) for title, order in orders.items()], place)
    try:
        with closing(events):
            ends = show_side_by_side(events, console)
    except KeyboardInterrupt:
        print(
            f"\nzoo: stopped; what the runs have learned is kept in {folder}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    outcome |= {end.job.name: end.result for end in ends if isinstance(end, Done)}
    return [end for end in ends if isinstance(end, Failed)]


def _for_place(order: RunSpec, place: Place, orders: int) -> RunSpec:
    """On a cluster, where machines may be lost, every epoch is saved; here, runs share out workers that are left over."""
    if isinstance(place, Ray):
        out = order.out.absolute() if order.out is not None else None
        return replace(order, out=out, checkpoint_every=order.checkpoint_every or 1)
    return replace(order, workers=max(1, place.workers_for() // place.workers_for(orders)))
