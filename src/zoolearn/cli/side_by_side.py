"""Several runs of one command: side by side wherever there is room, a folder each, one table in the end."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zoolearn.cli import output
from zoolearn.cli.bars import follow_all
from zoolearn.lab.report import report
from zoolearn.lab.tables import text
from zoolearn.runs.execute import Plan, execute_all, load_finished
from zoolearn.runs.jobs import Done, Failed, Place
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


def run_side_by_side(specs: Mapping[str, RunSpec], folder: Path, plan: Plan, place: Place) -> None:
    """Carries out runs, by their titles, each in its own folder below `folder`; what is finished is only read."""
    console = output.console()
    outcome = {
        title: results for title, spec in specs.items() if (results := load_finished(spec, folder / title, plan.data))
    }
    if outcome:
        console.print(f"{len(outcome)} of {len(specs)} runs are finished; nothing to train for them")
    missing = {title: spec for title, spec in specs.items() if title not in outcome}
    kept = f"what the runs have learned is kept in {folder}"
    ends = follow_all(execute_all(missing, folder, plan, place), console, kept)
    outcome |= {end.job.name: end.result for end in ends if isinstance(end, Done)}
    failed = [end for end in ends if isinstance(end, Failed)]
    for end in failed:
        if (run := _find_lost(specs[end.job.name], folder / end.job.name, end.why, [*outcome.values()])) is not None:
            outcome[end.job.name] = run
    if outcome:
        print(text(report([outcome[title] for title in specs if title in outcome]), output.width()))
        place_of = f"{folder}, a folder for each run" if len(specs) > 1 else folder / next(iter(specs))
        console.print(f"written to {place_of}", soft_wrap=True)
    for end in failed:
        print(f"zoo: {end.job.name}: {end.why}", file=sys.stderr)
    if failed:
        sys.exit(1)


def _find_lost(spec: RunSpec, folder: Path, error: str, others: Sequence[Results]) -> Results | None:
    """What there is of a run that diverged or failed; if that is nothing, what others tell that differ in their seeds."""
    if (folder / Results.FILE).exists():
        run = Results.load(folder)
        return run if run.diverged or run.failed else replace(run, failed=error)
    for other in others:
        if other.spec.family == spec.family:
            return replace(other, settings=spec.record(), accuracy=[], episodes=[], untold=None, failed=error)
    return None
