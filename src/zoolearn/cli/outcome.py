"""The outcome of an episode for every task, on a terminal, and the gate of `--unless-worse`."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from zoolearn.cli.columns import Table, cut_to_screen, make_table
from zoolearn.cli.scores import format_interval, show_scores
from zoolearn.words import plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.disk.entries import Measure
from zoolearn.zoo.learning.episode import Learned
from zoolearn.zoo.learning.gate import smallest_loss
from zoolearn.zoo.learning.scores import Change, Share

TAKEN_BACK = 3  # exit code
DIFFERENCES = {"none": "no difference", "cannot be seen": "no difference can be seen"}
BLIND = 0.05  # accuracy that may be lost beyond what is allowed without a note that few rows cannot show it


def show_outcome(
    learned: Learned,
    console: Console,
    *,
    everything: bool | None,
    trains: bool = True,
    known: str = "the task that grew",
) -> None:
    """Prints every task's accuracy before and after, and the new one's by class; on features nothing `trains`.

    `known` is the task of the episode in words, if it was known before.
    """
    others = [name for name in learned.trained_on if name != learned.task]
    beside = f", beside {', '.join(map(escape, others))}" if others else ""
    how = "trained on" if trains else "made a head for"
    if learned.refits is not None:
        how = f"on the features of member {learned.refits}, fitted a head for"
    console.print(f"episode {learned.episode}: {how} {escape(learned.task)}{beside} in {learned.seconds:.1f} s")
    show_scores(learned.scores, console, "on held-out rows")
    if learned.task in learned.changes:
        _show_growth(learned, console, everything=everything)
    earlier = [name for name in learned.after if name != learned.task]
    if earlier:
        names, rest = cut_to_screen(earlier, learned.changes, everything=everything)
        console.print(_make_table(learned, names))
        if rest:
            console.print(rest)
        differences = [learned.after[name].accuracy - _get_before(learned, name).accuracy for name in earlier]
        which = known if learned.task in learned.changes else "the new task"
        console.print(
            f"forward: {learned.after[learned.task].accuracy:.1%} on {which}; backward: "
            f"{100 * sum(differences) / len(earlier):+.2f} points on {plural(len(earlier), 'earlier task')}, on average"
        )
        if not learned.earlier:
            console.print("no earlier task was touched")
        elif not {"better", "worse"} & {change.difference for change in learned.earlier.values()}:
            console.print("no difference can be seen in any earlier task: what changed may be chance")


def on_kept_rows(replay: float) -> str:
    """The end of a sentence about members that are trained again, which see less than they saw if not all rows are kept."""
    return f" on the {replay:.0%} of their tasks' rows that are kept" if replay < 1 else ""


def show_other_tasks(zoo: Zoo, changes: Mapping[str, Change], console: Console) -> None:
    """Prints what training members again has cost the other tasks."""
    names, rest = cut_to_screen([*changes], (), everything=None)
    found = [(name, zoo.measure(name), changes[name]) for name in names]
    rows = [
        (name, f"{now.accuracy:.1%}", change.in_points(), f"{change.rows:,}", change.difference)
        for name, now, change in found
    ]
    console.print(make_table(("other task", "accuracy", "change", "rows", "difference"), rows, words=("difference",)))
    if rest:
        console.print(rest)


def _show_growth(learned: Learned, console: Console, *, everything: bool | None) -> None:
    """Prints the accuracies on the earlier and the new rows and classes of a task that grew."""
    change = learned.changes[learned.task]
    what = "its earlier classes, told apart among themselves" if learned.new_classes else "its answers"
    console.print(
        f"{what}: {change.in_points(' points')} on {change.rows:,} rows held out before, "
        f"{DIFFERENCES.get(change.difference, change.difference)}"
    )
    if learned.new_rows is not None:
        which = "of earlier classes, held out now" if learned.new_classes else "held out now"
        console.print(f"its new rows {which}: {_format_share(learned.new_rows)}")
    if learned.new_classes:
        beside = learned.earlier_classes
        console.print(
            f"its earlier classes, beside the new: {beside.value:.1%}, {format_interval(beside)} % with 95 % certainty"
        )
    names, rest = cut_to_screen(learned.new_classes, (), everything=everything)
    for name in names:
        share = learned.scores.of_class(name)
        shown = _format_share(share) if share.rows else "no row of it is held out"
        console.print(Text(f"new class {name}: {shown}"))
    if rest:
        console.print(rest)


def _format_share(share: Share) -> str:
    return f"{share.value:.1%}, {share.right:,} of {share.rows:,} right"


def _get_before(learned: Learned, name: str) -> Measure:
    before = learned.before[name]
    assert before is not None
    return before


def _make_table(learned: Learned, names: Sequence[str]) -> Table:
    """The changes of earlier tasks, with their intervals."""
    rows = []
    for name in names:
        change = learned.changes.get(name)
        shown = ("", "", "none") if change is None else (change.in_points(), f"{change.rows:,}", change.difference)
        shares = _get_before(learned, name).accuracy, learned.after[name].accuracy, learned.after[name].balanced
        rows.append((name, *(f"{share:.1%}" for share in shares), *shown))
    header = ("earlier task", "before", "after", "balanced", "change", "rows", "difference")
    return make_table(header, rows, words=("difference",))


def pass_gate(learned: Learned, limit: float, console: Console) -> None:
    """Exits with a code of its own if the episode was undone; else notes losses that few rows could not show."""
    if learned.worse:
        looks = len(learned.changes)
        lost = ", ".join(f"{name} {learned.changes[name].in_points(' points', looks)}" for name in learned.worse)
        print(
            f"zoo: taken back: a loss above --unless-worse {limit:g}, beyond chance: {lost}; the zoo is as it was",
            file=sys.stderr,
        )
        sys.exit(TAKEN_BACK)
    for name, change in learned.changes.items():
        least = smallest_loss(change.rows, limit, len(learned.changes))
        if least is None or least > BLIND + limit:
            shown = "no loss" if least is None else f"only a loss of {100 * least:.0f} points or more"
            console.print(
                Text(f"note: {shown} of {name} would have been noticed: it has {change.rows:,} held-out rows")
            )
