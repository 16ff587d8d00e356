"""`zoo learn FOLDER NAME DATA`: one more task, or more of a known one; one more member."""

import shutil
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from zoolearn.cli import output
from zoolearn.cli.bars import continues, follow, take_threads
from zoolearn.cli.columns import All, make_table
from zoolearn.cli.flags import (
    EpisodeEpochs,
    IgnoredColumns,
    LabelColumn,
    LabelsFile,
    ZooPath,
    about,
    flag,
    parse,
)
from zoolearn.cli.outcome import TAKEN_BACK, pass_gate, show_outcome
from zoolearn.cores import check_threads
from zoolearn.errors import SettingsError, ZooError
from zoolearn.words import duration, plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.auto_epochs import EpisodePlan
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.inputs import Columns, Source, open_pair
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.intake.growth import Growth
from zoolearn.zoo.intake.holdout import Holdout
from zoolearn.zoo.intake.intake import Augment, Reading, find_growth
from zoolearn.zoo.learning.episode import Learned, check_heads_only
from zoolearn.zoo.settings import ZooSettings

MOST_NAMED = 10  # things that were not used

IDEA = """Teach a zoo a new task, or more of one that it knows: further rows of its classes, classes that are new, or both. The data
is copied into the folder: the original is not needed afterwards. A folder that does not exist yet becomes a zoo with default
settings.

DATA is a folder of images with one subfolder for each class, an .npz (x, y), an .npy with its labels beside it (x.npy and
y.npy), a .csv or .parquet (a column of image paths or columns of features, and a label), or a data set that Hugging Face's
library saved to disk. Rows are held out to measure how well the task is answered; they are stored too."""


@dataclass
class LearnOptions:
    """The task."""

    folder: ZooPath
    name: Annotated[
        str,
        tyro.conf.Positional,
        about("a name for the new task, or the name of a known one", "NAME"),
    ]
    data: Annotated[Path, tyro.conf.Positional, about("what to learn from", "DATA")]
    test: Path | None = flag("hold these rows out", "DATA", "a share of DATA, see --holdout")
    holdout: float = flag("share of each class that is held out", default=0.2)
    last: float | None = flag("hold out the last rows, as they come in time", "SHARE", "rows at random")
    group: str | None = flag("hold out whole groups: rows with equal values in this column", "COLUMN", "single rows")
    new_class: tuple[str, ...] = flag(
        "classes that a known task gets now and does not have yet", "NAME...", "none", default=()
    )
    yes: bool = flag("do not ask whether new classes are meant, unless one may be a typo", default=False)
    skip_known: bool = flag("leave out rows that a known task has already", default=False)
    heads_only: bool = flag(
        "train nothing: fit the head of a known task again to its rows and these, in seconds", default=False
    )
    skip_broken: bool = flag("leave out images that cannot be read, instead of stopping", default=False)
    augment: Augment = flag(
        "vary training images; auto: shifts, and mirror images if they are in colour", default="auto"
    )
    label: LabelColumn = None
    text: str | None = flag("column of a table that holds texts, for a zoo that takes them", "COLUMN", "text, body")
    ignore: IgnoredColumns = ()
    features: str | None = flag(
        "make the new zoo on features: of an ONNX file for pictures, or wordllama: for texts", "FILE|NAME", "none"
    )
    labels: LabelsFile = None
    epochs: EpisodeEpochs = None
    unless_worse: float | None = flag(
        "take the episode back if an earlier task lost more accuracy than this (0.01: one point) beyond chance, on its "
        f"held-out rows; exit code {TAKEN_BACK}",
        "LOSS",
        "it is kept",
    )
    dry_run: bool = flag("read the data, say what would be done and how long, then stop", default=False)
    threads: int | None = flag("threads of this process", "N", "$OMP_NUM_THREADS, else the cores that are idle")
    everything: All = False


def main(arguments: Sequence[str]) -> None:
    """Learns one task and shows what that did to all."""
    options = parse(LearnOptions, arguments, "zoo learn", IDEA)
    console = output.console()
    if options.threads is not None:
        check_threads(options.threads)
    zoo = Zoo(options.folder) if options.folder.exists() else None
    features = _read_features(options, zoo)
    data, test = _open_data(options, zoo, features)
    growth = None if zoo is None else find_growth(zoo.index, options.name, data)
    if zoo is not None and growth is not None:
        if options.heads_only:
            check_heads_only(zoo.index, options.name, [*growth.new])  # before new classes are asked about
        meant = _confirm_classes(growth, options, arguments, console)
        if meant is None:
            console.print("nothing was changed")
            return
        options.new_class = meant
    if features is None and (zoo is None or zoo.settings.features is None):  # else only heads are fitted
        take_threads(console, options.threads)
    if options.dry_run:
        with TemporaryDirectory() as temporary:  # a folder that is not there stays so
            zoo = zoo or _create(Path(temporary) / "zoo", features)
            _rehearse(_iter_learn(_Rehearsal(zoo.path, zoo.names), options, data, test), console)
        zoo.folder.tidy()
        return
    made = zoo is None
    if zoo is None:  # only now: a wrong path of the data leaves nothing behind
        zoo = _create(options.folder, features)
        what = f"on features of {features.extractor.name}" if features else "with default settings"
        console.print(f"{escape(str(zoo.path))} is a new zoo {escape(what)}; `zoo new` makes one with others")
    try:
        with continues("the zoo is as it was"):
            work = _iter_learn(zoo, options, data, test)
            learned = follow(work, console, also=lambda event: _show_event(event, console))
    except ZooError:
        if made and not zoo.tasks:
            shutil.rmtree(zoo.path)  # this command made it, and it holds nothing
        raise
    show_outcome(learned, console, everything=options.everything, trains=zoo.settings.features is None)
    if options.unless_worse is not None:
        pass_gate(learned, options.unless_worse, console)
    console.print(f"Ask it: zoo predict {escape(quote(str(zoo.path)))} {escape(quote(options.name))} INPUT...")


def _read_features(options: LearnOptions, zoo: Zoo | None) -> Given | None:
    """The named extractor, for a new zoo; an existing zoo must have the same."""
    if options.features is None:
        return None
    given = Given.of(options.features)
    there = zoo.settings.features if zoo is not None else None
    if zoo is not None and (there is None or there["sha256"] != given.extractor.sha256):
        has = f"is on features of {there['name']}" if there else "has nets of its own and no features"
        raise SettingsError(f"{options.folder} {has}; leave --features out, or learn into a new folder")
    return given


def _open_data(options: LearnOptions, zoo: Zoo | None, features: Given | None) -> tuple[Source, Source | None]:
    known = zoo.columns if zoo is not None else features.columns if features is not None else Columns()
    columns = replace(known, label=options.label, ignore=options.ignore, group=options.group, text=options.text)
    return open_pair(options.data, options.test, columns, options.labels)


def _confirm_classes(
    growth: Growth, options: LearnOptions, arguments: Sequence[str], console: Console
) -> tuple[str, ...] | None:
    """Says what rows would add to a task, and asks about new classes; returns them, or None if they are not wanted.

    A typo must not become a class: `--yes` confirms only those that do not resemble a known one.
    """
    growth.check_rows(options.new_class)
    if options.dry_run:
        console.print(Text("; ".join([str(growth), *growth.doubts()])))
        return (*growth.new,)
    console.print(Text(str(growth)))
    for doubt in growth.doubts():
        console.print(Text(f"note: {doubt}"))
    names = [*options.new_class, *(name for name in growth.new if options.yes and name not in growth.typos)]
    unannounced = growth.unannounced(names)
    if not unannounced:
        return (*sorted({*names}),)
    if not sys.stdin.isatty():  # no answer is not a yes
        why = "--yes does not cover names that may be typos" if options.yes else "there is no terminal to ask on"
        raise SettingsError(
            f"{plural(len(unannounced), 'class is', 'classes are')} new, and {why}; if that is meant: "
            f"{join(['zoo', 'learn', *_announce(growth, unannounced, options, arguments)])}"
        )
    what = plural(len(unannounced), "new class", "new classes")
    answer = input(f"Learn {'it' if len(unannounced) == 1 else 'them'} as {what} ({', '.join(unannounced)})? [y/N] ")
    return (*growth.new,) if answer.strip().lower() in ("y", "yes") else None


def _announce(growth: Growth, names: Sequence[str], options: LearnOptions, arguments: Sequence[str]) -> list[str]:
    """The same arguments with new classes announced: by name, those with a dash first, or by `--yes` if they are many."""
    many = not options.yes and (len(names) > MOST_NAMED or sum(name.startswith("-") for name in names) > 1)
    named = [*options.new_class, *(growth.typos if many else names)]
    words = [*_drop_flag(arguments, "--new-class"), *(["--yes"] if many else [])]
    if not named:
        return words
    first, *rest = sorted(dict.fromkeys(named), key=lambda name: not name.startswith("-"))
    return [*words, *([f"--new-class={first}"] if first.startswith("-") else ["--new-class", first]), *rest]


def _drop_flag(arguments: Sequence[str], flag: str) -> list[str]:
    """The arguments without a flag and the values after it."""
    kept, dropping = list[str](), False
    for word in arguments:
        if word.startswith("--"):
            dropping = word.partition("=")[0].replace("_", "-") == flag
        kept += [] if dropping else [word]
    return kept


def _create(folder: Path, features: Given | None) -> Zoo:
    if features is None:
        return Zoo.create(folder, ZooSettings.choose())
    return Zoo.create(folder, features.settings(), features.names, features.content)


def _iter_learn(zoo: Zoo, options: LearnOptions, data: Source, test: Source | None) -> Generator[Any, None, Learned]:
    return zoo.iter_learn_from(
        options.name,
        data,
        test=test,
        holdout=Holdout(options.holdout, options.last, options.group),
        skip_broken=options.skip_broken,
        augment=options.augment,
        epochs=options.epochs,
        new_classes=options.new_class,
        skip_known=options.skip_known,
        heads_only=options.heads_only,
        unless_worse=options.unless_worse,
    )


class _Rehearsal(Zoo):
    """A zoo that stays as it is, whatever is done with it."""

    def _commit(self, index: Index) -> None:
        raise RuntimeError(
            f"{self.path}: learning came to its end without a plan, where --dry-run stops; nothing was written"
        )


def _rehearse(work: Generator[Any, None, Learned], console: Console) -> None:
    """Follows the work up to where training would begin."""

    def until_planned() -> Generator[Any, None, None]:
        for event in work:
            yield event
            if isinstance(event, EpisodePlan):
                return

    follow(until_planned(), console, also=lambda event: _show_event(event, console))
    work.close()
    console.print("nothing was learned (--dry-run)")


def _show_event(event: Reading | EpisodePlan, console: Console) -> None:
    """Prints what was understood, and what will be done."""
    if isinstance(event, Reading):
        _show_reading(event, console)
        return
    if event.refits is not None:
        console.print(
            f"fitting a head to {event.rows:,} rows, on the features of member {event.refits}; nothing is trained"
        )
        return
    if not event.epochs:
        console.print(f"making a head of the statistics of {event.rows:,} rows; nothing is trained")
        return
    others = f", beside {', '.join(map(escape, event.tasks[1:]))}" if event.tasks[1:] else ""
    console.print(
        f"training on {escape(event.tasks[0])}{others}: {plural(event.epochs, 'epoch')} of {event.rows:,} rows, "
        f"about {duration(event.seconds)}"
    )


def _show_reading(reading: Reading, console: Console) -> None:
    """Prints what was read, before training."""
    shape = "x".join(map(str, reading.settings.shape or ()))
    entry = reading.task
    now = "now " if reading.growth else ""
    console.print(f"[bold]{escape(entry.name)}[/]: {now}{len(entry.classes)} classes, {reading.look} -> {shape}")
    rows = [(name, f"{train:,}", f"{test:,}") for name, (train, test) in list(reading.counts.items())[:20]]
    rows += [(f"... {len(reading.counts) - 20} more", "", "")] if len(reading.counts) > 20 else []
    trained, held = (sum(pair) for pair in zip(*reading.counts.values(), strict=True))
    console.print(
        make_table(("class", "train", "held out"), [*rows, (Text("all", "dim"), f"{trained:,}", f"{held:,}")])
    )
    if reading.broken:
        words = ("row left out because it cannot be read", "rows left out because they cannot be read")
        what = plural(len(reading.broken), *words)
        console.print(Text(f"{what}:{reading.broken_lines}"))
    for thing in reading.left_out[:MOST_NAMED]:
        console.print(Text(f"not used: {thing.name}: {thing.reason}"))
    if len(reading.left_out) > MOST_NAMED:
        console.print(f"not used: {len(reading.left_out) - MOST_NAMED:,} more")
    for note in reading.notes:
        console.print(Text(f"note: {note}"))
