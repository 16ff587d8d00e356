"""The public face of an owned zoo: one object for one folder."""

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoolearn.data.task import Task
from zoolearn.training.at_once import at_once
from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.words import plural
from zoolearn.zoo.auto_epochs import EpisodePlan, check_epochs
from zoolearn.zoo.changes import pruning
from zoolearn.zoo.changes.corrections import Correction, find_correction
from zoolearn.zoo.changes.forgetting import Cost, iter_remove_task, undo_episode
from zoolearn.zoo.changes.forgetting_rows import check_forgettable, find_class_rows, find_file_rows, forget_rows
from zoolearn.zoo.changes.purging import PurgeCost, iter_purge
from zoolearn.zoo.changes.renaming import rename_task
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.inputs.find import open_sources
from zoolearn.zoo.intake.extracting import Features, Given
from zoolearn.zoo.intake.growth import NewClasses
from zoolearn.zoo.intake.holdout import Holdout
from zoolearn.zoo.intake.intake import Augment, Reading, iter_take_in, open_task, store_task
from zoolearn.zoo.intake.split import drop_copies
from zoolearn.zoo.learning.episode import Learned, check_heads_only, iter_episode, now
from zoolearn.zoo.learning.gate import check_limit, find_worse, take_back
from zoolearn.zoo.settings import Names, ZooSettings, name_functions, takes_settings
from zoolearn.zoo.zoo_reader import Data, ZooReader


class Zoo(ZooReader):
    """A zoo in a folder: it learns a task at a time, answers for all, and needs nothing else than the folder.

    Long operations have two forms: `iter_learn` is a generator of progress, `learn` runs it to its end. Reading needs no lock
    and sees whole states only; `refresh` loads changes by other programs. Every change is one atomic commit: a killed
    program leaves the zoo as it was before or after it.

    >>> import tempfile, zoolearn
    >>> first, second = zoolearn.benchmark("split-digits")[:2]
    >>> folder = tempfile.mkdtemp()
    >>> zoo = zoolearn.new(folder, epochs=2)
    >>> zoo.learn(first).after["0-1"].accuracy > 0.8
    True
    >>> zoo = zoolearn.open(folder)  # any time later, in any program
    >>> sorted(zoo.learn(second).trained_on)
    ['0-1', '2-3']
    >>> zoo.predict_proba(first.test.x[:2], task="0-1").shape
    torch.Size([2, 2])
    """

    @classmethod
    def create(
        cls, folder: Path | str, settings: ZooSettings, names: Names | None = None, extractor: bytes | None = None
    ) -> "Zoo":
        """An empty zoo with these settings in a new or empty folder, and the file of its extractor if it has one."""
        ZooFolder(Path(folder)).begin(Index(settings, settings).with_log("made", now()), extractor)
        return cls(folder, names)

    def iter_learn(
        self,
        task: Task,
        *,
        epochs: int | None = None,
        new_classes: NewClasses = (),
        unless_worse: float | None = None,
    ) -> Generator[Step | EpisodePlan | Progress, None, Learned]:
        """Learns a new task, or more rows and classes of a known one; yields the plan, then progress.

        `new_classes` announces classes that a known task does not have yet. `epochs` default to the zoo's settings, or to
        what the number of rows needs. With `unless_worse=0.01`, the episode is undone if an earlier task lost significantly
        more than one point of accuracy; `Learned.worse` names such tasks. Copies among the rows of a new task are a warning.
        """
        check_epochs(epochs, trains=self.settings.features is None)
        check_limit(unless_worse)
        with self._begin_change() as before:
            if task.name in before.tasks:
                work = iter_take_in(
                    self.folder, before, task.name, *open_task(task), new_classes=new_classes, extractor=self.extractor
                )
                index, reading = yield from work
                arrival, notes = reading.task.arrivals[-1], [*reading.notes]
            else:
                index, arrival = store_task(self.folder, before, task, self.extractor)
                arrival, notes = drop_copies(self.folder, before, arrival)
                for note in notes:
                    warnings.warn(note, stacklevel=2)
            learned = yield from self._iter_episode(before, index, arrival, epochs, unless_worse)
            return replace(learned, notes=tuple(notes))

    learn = at_once(iter_learn)

    def iter_learn_from(
        self,
        name: str,
        data: Data,
        *,
        test: Data | None = None,
        holdout: float | Holdout = 0.2,
        skip_broken: bool = False,
        augment: Augment = "auto",
        epochs: int | None = None,
        new_classes: NewClasses = (),
        skip_known: bool = False,
        heads_only: bool = False,
        unless_worse: float | None = None,
    ) -> Generator[Step | Reading | EpisodePlan | Progress, None, Learned]:
        """Learns a new task, or more of a known one, from files; `test`, or a share of the data, is held out.

        `holdout` is a random share, or a `Holdout` of the last rows or of whole groups. `new_classes` announces classes that
        a known task does not have yet ("any": all whose names do not resemble a known one); `skip_known` leaves out rows
        that are stored already. `heads_only` trains nothing but refits the head of the newest member, in seconds: enough
        for fewer rows than the task has. `unless_worse` as in `learn`. Yields progress of reading, what was read, the plan,
        and progress of training.
        """
        check_epochs(epochs, trains=self.settings.features is None, heads_only=heads_only)
        check_limit(unless_worse)
        with self._begin_change() as before:
            if heads_only:
                check_heads_only(before, name)  # before anything is read
            index, reading = yield from iter_take_in(
                self.folder,
                before,
                name,
                *open_sources(data, test, replace(self.columns, wanted=before.settings.columns)),
                holdout=holdout,
                skip_broken=skip_broken,
                augment=augment,
                new_classes=new_classes,
                skip_known=skip_known,
                extractor=self.extractor,
            )
            arrival = reading.task.arrivals[-1]
            if heads_only:
                reading = replace(reading, notes=(*reading.notes, *_note_many(before.tasks.get(name), arrival)))
            yield reading
            if heads_only:
                check_heads_only(index, name, arrival.classes)
            work = self._iter_episode(before, index, arrival, epochs, unless_worse, heads_only=heads_only)
            return replace((yield from work), notes=reading.notes)

    learn_from = at_once(iter_learn_from)

    def iter_correct(
        self, task: str, rows: Mapping[str | int, str | None], *, epochs: int | None = None
    ) -> Generator[Correction | EpisodePlan | Progress, None, Learned]:
        """Relabels stored rows, by number or path, or deletes them (None), and runs an episode on the result.

        If only held-out rows change, nothing is trained and the task is measured again. Yields the correction, the plan,
        and progress.
        """
        check_epochs(epochs, trains=self.settings.features is None)
        with self.folder.begin_change() as before:
            correction = find_correction(self.folder, before, task, rows)
            yield correction
            arrival = correction.arrival(self.folder, before)
            return (yield from self._iter_episode(before, before, arrival, epochs, None))

    correct = at_once(iter_correct)

    def iter_purge(
        self, task: str, rows: Mapping[str | int, str | None]
    ) -> Generator[Progress | Step, None, PurgeCost]:
        """`correct`, permanently: no byte of a deleted row, or of a weight trained on it, is left; returns what it has cost."""
        with self.folder.begin_removal() as index:
            correction = find_correction(self.folder, index, task, rows)
            rest, cost = yield from iter_purge(self.folder, index, correction, self.names)
            self._commit(rest)
        return cost

    purge = at_once(iter_purge)

    def _iter_episode(
        self,
        before: Index,
        index: Index,
        arrival: Arrival,
        epochs: int | None,
        unless_worse: float | None,
        *,
        heads_only: bool = False,
    ) -> Generator[EpisodePlan | Progress, None, Learned]:
        """Runs an episode and commits the grown zoo or, if it made tasks worse, the one before with a line in its log."""
        nets = self._net_in(index)
        work = iter_episode(self.folder, index, arrival, nets, self.names, epochs, heads_only=heads_only)
        grown, learned = yield from work
        if worse := find_worse(learned.changes, unless_worse):
            grown = take_back(before, arrival.task, now(), learned.changes, worse)
        self._commit(grown)
        return replace(learned, worse=worse)

    @contextmanager
    def _begin_change(self) -> Iterator[Index]:
        """Locks the folder for a change and loads its newest state."""
        with self.folder.begin_change() as index:
            self.refresh()
            yield index

    def _commit(self, index: Index) -> None:
        self.folder.commit(index)
        self.refresh()

    def rename(self, task: str, to: str) -> None:
        with self.folder.begin_change() as index:
            self._commit(rename_task(index, task, to))

    def undo(self) -> str | None:
        """Undoes the last episode and returns the name of its task; None if the last change was to other features."""
        with self.folder.begin_undo() as index:
            name, earlier = undo_episode(self.folder, index)
            self._commit(earlier)
        return name

    def iter_forget(self, task: str, *, drop: bool = False) -> Generator[Progress | Step, None, Cost]:
        """Removes a task permanently: its rows, its heads, and every weight trained on it; yields progress of retraining."""
        with self.folder.begin_removal() as index:
            rest, cost = yield from iter_remove_task(self.folder, index, task, drop=drop, names=self.names)
            self._commit(rest)
        return cost

    forget = at_once(iter_forget)

    def forget_class(self, task: str, label: str) -> int:
        """Removes a class of a task and its rows permanently, in zoos on features; returns the number of rows.

        The zoo is bit-equal to one that never saw them.
        """
        check_forgettable(self.index)
        with self.folder.begin_removal() as index:
            gone = {task: find_class_rows(self.folder, index.task(task), label)}
            self._commit(forget_rows(self.folder, index, gone, self.names))
        return sum(map(len, gone[task].values()))

    def forget_rows(self, files: Sequence[Path | str], task: str | None = None) -> int:
        """Removes the rows of files permanently from a task or from all, in zoos on features; returns their number.

        A file is identified by its content, or by the name it was learned under. The zoo is bit-equal to one that never saw
        them.
        """
        check_forgettable(self.index)
        with self.folder.begin_removal() as index:
            tasks = index.tasks.values() if task is None else [index.task(task)]
            gone = find_file_rows(self.folder, tasks, [str(file) for file in files])
            self._commit(forget_rows(self.folder, index, gone, self.names))
        return sum(len(numbers) for sides in gone.values() for numbers in sides.values())

    def prune(
        self, *, loss: float | None = None, budget: float | None = None, latency: float | None = None
    ) -> pruning.Pruning:
        """Excludes members from the votes on tasks that do not need them; reversible by `unprune` until `commit_pruning`.

        Give one: `loss`, the accuracy that a task may lose (default 0.005); `budget`, megabytes of members to keep;
        `latency`, milliseconds that an answer for one row may take.
        """
        kind, value = pruning.read_limit(loss=loss, budget=budget, latency=latency)
        with self.folder.begin_removal() as index:
            open_index = pruning.restore_all(self.folder, index)
            cost = self._milliseconds(open_index) if open_index.tasks else 0.0
            pruned, report = pruning.prune(self.folder, open_index, kind, value, cost)
            self._commit(pruned.with_log("pruned", now(), detail=f"by {kind} {value:g}; reversible"))
        return report

    def unprune(self) -> None:
        """Lets every pruned member vote again."""
        with self.folder.begin_removal() as index:
            self._commit(pruning.restore_all(self.folder, index).with_log("unpruned", now()))

    def commit_pruning(self) -> int:
        """Deletes what was pruned permanently; returns the number of deleted members."""
        with self.folder.begin_removal() as index:
            smaller = pruning.delete_silenced(index)
            gone = len(index.members) - len(smaller.members)
            self._commit(smaller.with_log("committed pruning", now(), detail=f"{gone} deleted"))
        return gone


def open(folder: Path | str, names: Names | None = None) -> Zoo:
    """The zoo in a folder; `names` gives your own backbone, weigh or grow functions by name.

    >>> open("nowhere")
    Traceback (most recent call last):
    zoolearn.errors.StoreError: nowhere holds no zoo (zoo.json is missing); make one with `zoo new nowhere`
    """
    return Zoo(folder, names)


@takes_settings
def new(folder: Path | str, *, features: Features | None = None, size: int | None = None, **settings: Any) -> Zoo:
    """Makes a zoo in a new or empty folder, with settings of the zoo and of the recipe of its members.

    `new("birds", backbone="small-conv", side=64, epochs=20)`: functions may be given by name. Settings that are not given
    are chosen by the first data. `new("birds", grow=WarmStart(), flip_tta=True)` goes past the paper: more accurate, slower
    to predict.

    `new("birds", features="lite0.onnx")` uses the features of a pre-trained net, which is better for few pictures of
    everyday things; nets of its own are better for data unlike any that a pre-trained net has seen. A function from
    pictures (count, 3, size, size) to vectors may be given in place of the file, with their `size`.
    """
    if features is not None:
        given = Given.of(features, size)
        return Zoo.create(folder, given.settings(**settings), given.names, given.content)
    return Zoo.create(folder, ZooSettings.choose(**settings), name_functions(**settings))


def _note_many(entry: TaskEntry | None, arrival: Arrival) -> list[str]:
    """A note on more rows for a head alone than are kept of its task."""
    if entry is None or arrival.train is None or not 0 < entry.rows_kept < arrival.train.count:
        return []
    return [
        f"a head is fitted to {plural(arrival.train.count, 'new row')} beside {entry.rows_kept:,} that are kept: for more than "
        "as many again, a member is worth its training"
    ]
