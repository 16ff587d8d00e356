"""`zoo prune FOLDER`: keep the members that each task needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.console import Console

from zoolearn.cli import output
from zoolearn.cli.columns import Table, make_table
from zoolearn.cli.flags import ZooPath, flag, parse
from zoolearn.errors import SettingsError
from zoolearn.words import megabytes, plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.changes.pruning import ALLOWED_LOSS, Pruning

IDEA = """Silence the members that a task can do without, going by their stored votes on held-out rows.

Members are chosen by one half of the held-out rows; the other half, which had no say, tells what it really costs. Nothing
is deleted: `--restore` takes it back, `--commit` deletes what is silenced, permanently."""


@dataclass
class PruneOptions:
    """How far to go (one of three), or what to do with an earlier pruning."""

    folder: ZooPath
    loss: float | None = flag("accuracy that each task may lose", "SHARE", "0.005")
    budget: float | None = flag("megabytes of members to keep at most", "MB", "none")
    latency: float | None = flag("milliseconds that an answer may take for a row", "MS", "none")
    restore: bool = flag("let all members vote again", default=False)
    commit: bool = flag("delete permanently what is silenced, after pruning if a limit is given", default=False)


def main(arguments: Sequence[str]) -> None:
    """Prunes, restores or commits, and prints what that means."""
    options = parse(PruneOptions, arguments, "zoo prune", IDEA)
    limits = {"loss": options.loss, "budget": options.budget, "latency": options.latency}
    given = [name for name, value in limits.items() if value is not None]
    if options.restore and (given or options.commit):
        raise SettingsError("--restore takes a pruning back; give it alone")
    zoo = Zoo(options.folder)
    console = output.console()
    if options.restore:
        silent = sum(bool(member.silent) for member in zoo.members)
        zoo.unprune()
        console.print(
            f"{plural(silent, 'member')} {'votes' if silent == 1 else 'vote'} again on every task they know"
            if silent
            else "no member is silenced: there is nothing to restore. What --commit deleted does not come back"
        )
        return
    if given or not options.commit:
        pruning = zoo.prune(loss=options.loss, budget=options.budget, latency=options.latency)
        _tell(pruning, console)
        if zoo.settings.features is not None:
            console.print("ms per row: of the heads; making features of a row takes as long whatever is pruned")
        if options.budget is None and options.latency is None:
            for line in list_costly(pruning, ALLOWED_LOSS if options.loss is None else options.loss):
                console.print(line, markup=False, soft_wrap=True)
    if options.commit:
        console.print(f"{plural(zoo.commit_pruning(), 'member')} deleted permanently, {len(zoo.members):,} left")
    else:
        console.print("Nothing is deleted yet: --commit does that, --restore takes it back")


def _tell(pruning: Pruning, console: Console) -> None:
    rows = [
        (
            name,
            f"{task.before} -> {task.after}",
            f"{task.accuracy_before:.1%} -> {task.accuracy_after:.1%}",
            f"{task.unseen_before:.1%} -> {task.unseen_after:.1%}",
        )
        for name, task in pruning.tasks.items()
    ]
    console.print(make_table(("task", "members", "accuracy", "on rows that did not choose"), rows))
    console.print(summary(pruning))


def list_costly(pruning: Pruning, allowed: float) -> list[str]:
    """A sentence for each task that lost more than it may on the rows that had no say, which those that chose do not show."""
    lost = {name: task.unseen_before - task.unseen_after for name, task in pruning.tasks.items()}
    return [
        f"! {name} lost {100 * points:.1f} points on the rows that did not choose, more than the {100 * allowed:g} allowed"
        for name, points in lost.items()
        if points > allowed + 1e-9
    ]


def summary(pruning: Pruning) -> Table:
    """The whole zoo before and after."""
    rows = []
    for when in ("before", "after"):
        means = [
            fmean(getattr(task, f"{what}_{when}") for task in pruning.tasks.values()) for what in ("accuracy", "unseen")
        ]
        size, took = megabytes(getattr(pruning, f"bytes_{when}")), f"{pruning.milliseconds(when):.3f}"
        rows.append((when, str(getattr(pruning, f"members_{when}")), size, took, *(f"{mean:.2%}" for mean in means)))
    return make_table(("", "members", "size", "ms per row", "accuracy", "on rows that did not choose"), rows)
