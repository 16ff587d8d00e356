"""Several runs of one command: side by side wherever there is room, a folder each, one table in the end."""

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from zoolearn.cli import output
from zoolearn.cli.bars import follow_all
from zoolearn.errors import Diverged
from zoolearn.lab.report import report
from zoolearn.lab.tables import text
from zoolearn.runs.execute import Plan, execute_all, finished
from zoolearn.runs.jobs import Done, Failed, Place
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def run_side_by_side(specs: Mapping[str, RunSpec], folder: Path, plan: Plan, place: Place) -> None:
    """Carries out runs, by their titles, each in its own folder below `folder`; what is finished is only read."""
    console = output.console()
    outcome = {
        title: results for title, spec in specs.items() if (results := finished(spec, folder / title, plan.data))
    }
    if outcome:
        console.print(f"{len(outcome)} of {len(specs)} runs are finished; nothing to train for them")
    missing = {title: spec for title, spec in specs.items() if title not in outcome}
    try:
        with closing(execute_all(missing, folder, plan, place)) as events:
            ends = follow_all(events, console)
    except KeyboardInterrupt:
        print(
            f"\nzoo: stopped; what the runs have learned is kept in {folder}. The same command continues",
            file=sys.stderr,
        )
        sys.exit(130)
    outcome |= {end.job.name: end.result for end in ends if isinstance(end, Done)}
    failed = [end for end in ends if isinstance(end, Failed)]
    outcome |= {end.job.name: Results.load(folder / end.job.name) for end in failed if isinstance(end.error, Diverged)}
    if outcome:
        print(text(report([outcome[title] for title in specs if title in outcome]), output.width()))
        place_of = f"{folder}, a folder for each run" if len(specs) > 1 else folder / next(iter(specs))
        console.print(f"written to {place_of}", soft_wrap=True)
    for end in failed:
        print(f"zoo: {end.job.name}: {end.error}", file=sys.stderr)
    if failed:
        sys.exit(1)
