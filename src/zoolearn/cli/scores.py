"""Scores on a terminal: an accuracy never without its interval, the majority rate and each class."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from zoolearn.cli.columns import Table, make_table
from zoolearn.zoo.learning.scores import Scores, Share

MOST_CLASSES = 20
WIDEST_MATRIX = 12  # classes


def format_interval(share: Share) -> str:
    """Where a share lies with 95 % certainty, in percent.

    >>> format_interval(Share(59, 64))
    '83-97'
    """
    return f"{100 * share.low:.0f}-{100 * share.high:.0f}"


def show_scores(scores: Scores, console: Console, where: str) -> None:
    """Prints how well a task is answered: overall, by class, what is mistaken, and what confidence is worth."""
    console.print(
        f"accuracy [bold]{scores.accuracy.value:.1%}[/] {escape(where)}: {format_interval(scores.accuracy)} % with 95 % certainty, "
        f"{scores.accuracy.right:,} of {scores.rows:,} right"
    )
    console.print(
        f"always answering {escape(repr(scores.most_frequent))} would get {scores.majority.value:.1%}; balanced "
        f"accuracy, the mean over classes, is {scores.balanced_accuracy:.1%}"
    )
    console.print(
        f"confidence {scores.confidence:.1%} on average, log-loss {scores.log_loss:.3f} (guessing by frequency "
        f"{scores.chance_log_loss:.3f}), calibration error {scores.calibration_error:.1%}"
    )
    show_notes(scores.notes(), console)
    console.print(_classes(scores))
    if len(scores.classes) > MOST_CLASSES:
        console.print(f"the {MOST_CLASSES} classes that are answered worst, of {len(scores.classes)}")


def show_notes(notes: Sequence[str], console: Console) -> None:
    """Prints what must be known before an accuracy is believed."""
    for note in notes:
        console.print(Text(f"! {note}", "yellow"))


def _classes(scores: Scores) -> Table:
    """The classes, those answered worst first where there are many."""
    rows = []
    shares = {name: scores.of_class(name) for name in scores.classes}
    shown = list(scores.classes)
    if len(shown) > MOST_CLASSES:
        shown = sorted(shown, key=lambda name: shares[name].value)[:MOST_CLASSES]
    mistakes = scores.mistakes()
    for name in shown:
        share = shares[name]
        taken = [f"{answered} ({count})" for true, answered, count in mistakes if true == name][:3]
        recall, around = (f"{share.value:.1%}", format_interval(share)) if share.rows else ("", "")
        named = scores.precision(name)
        precision = f"{named.value:.1%}" if named.rows else ""
        rows.append((name, f"{share.rows:,}", recall, around, precision, ", ".join(taken)))
    return make_table(("class", "rows", "recall", "95 %", "precision", "mistaken for"), rows, words=("mistaken for",))


def show_confusion(scores: Scores, console: Console) -> None:
    """Prints which class was taken for which, where the table fits a terminal."""
    if len(scores.classes) > WIDEST_MATRIX:
        return
    console.print("[bold]rows of a class (down) by what was answered (across)[/]")
    rows: list[list[str | Text]] = []
    for true, counts in zip(scores.classes, scores.confusion, strict=True):
        by_answer = zip(scores.classes, counts, strict=True)
        cells = (Text(f"{n:,}" if n else ".", "bold" if true == answer else "") for answer, n in by_answer)
        rows.append([true, *cells])
    console.print(make_table(("", *scores.classes), rows, widest=12))


def show_calibration(scores: Scores, console: Console) -> None:
    """Prints how often answers of about one confidence were right."""
    console.print("[bold]what confidence is worth[/]: of answers of about one confidence, how many were right")
    rows = [
        (
            f"{part.confidence:.1%}",
            f"{part.accuracy.rows:,}",
            f"{part.accuracy.value:.1%}",
            format_interval(part.accuracy),
        )
        for part in scores.bins
    ]
    console.print(make_table(("confidence", "answers", "right", "95 %"), rows))
