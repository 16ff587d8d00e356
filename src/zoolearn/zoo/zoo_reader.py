"""Everything of a zoo that does not change its folder."""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from zoolearn.beyond.by_statistics import StatInference
from zoolearn.beyond.familiarity import Familiarity
from zoolearn.beyond.task_inference import WhichTask
from zoolearn.beyond.temperature import apply_temperature
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError, StoreError, UnknownTask
from zoolearn.features import Extractor, embed_inputs
from zoolearn.nets.net import Net
from zoolearn.training.at_once import at_once
from zoolearn.training.predict import combine, iter_probabilities, join
from zoolearn.training.recipe import Recipe
from zoolearn.training.step import Step
from zoolearn.zoo.answers.answers import Answers
from zoolearn.zoo.answers.none_of_these import MOST_FAMILIAR, check_sure, load_familiarity
from zoolearn.zoo.answers.queries import read_rows
from zoolearn.zoo.answers.recognition import SURE, Fitted, Quality, Recognised, check_recognisable, recognise_rows
from zoolearn.zoo.changes import pruning
from zoolearn.zoo.changes.corrections import Correction, StoredRow, find_correction, list_rows
from zoolearn.zoo.changes.forgetting import Cost, cost_of
from zoolearn.zoo.changes.purging import PurgeCost, cost_of_purge
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.entries import Measure, MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_inputs, load_task
from zoolearn.zoo.export.export import Exported, export
from zoolearn.zoo.export.features import export_on_features, file_to_export, scale_head
from zoolearn.zoo.export.int8 import export_in_8_bits
from zoolearn.zoo.inputs.find import open_source
from zoolearn.zoo.inputs.source import Source
from zoolearn.zoo.inputs.tables import Columns
from zoolearn.zoo.intake.extracting import open_extractor, to_rows
from zoolearn.zoo.learning.episode import measure
from zoolearn.zoo.learning.evaluation import Tested, held_out_majority, held_out_scores, iter_test
from zoolearn.zoo.learning.recall import load_learner, load_net
from zoolearn.zoo.learning.scores import Scores, Share
from zoolearn.zoo.settings import Names, ZooSettings
from zoolearn.zoo.verifying import iter_verify

Data = Path | str | Source
Made = TypeVar("Made")
Inputs = Any  # an array, a path or several, a picture of Pillow or several, a data frame


class ZooReader:
    """Predicts for the tasks of a zoo in a folder, and tells how accurate it is.

    Reading needs no lock and sees whole states only; `refresh` loads changes by other programs.
    """

    def __init__(self, folder: Path | str, names: Names | None = None) -> None:
        self.folder = ZooFolder(Path(folder))
        self.names = names
        self._index = self.folder.read()
        self._nets: dict[tuple[str, tuple[str, ...]], Net] = {}  # two tasks can have one head, and so one file
        self._extractor: Extractor | None = None
        self._fitted: Fitted | None = None
        self._familiar: dict[tuple[str, str], Familiarity] = {}  # by the task and the file of its newest member
        self.folder.tidy()

    def __repr__(self) -> str:
        return f"Zoo({str(self.path)!r}, {len(self.tasks)} tasks, {len(self.members)} members)"

    @property
    def index(self) -> Index:
        """The state that answers are of: since the zoo was opened or refreshed, whatever other programs change."""
        if not self._index.is_loaded:
            self._index = self.folder.load(self._index)
        return self._index

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def generation(self) -> int:
        """Increases by one with every change."""
        return self.index.generation

    @property
    def settings(self) -> ZooSettings:
        """The settings, completed by the first task."""
        return self.index.settings

    @property
    def tasks(self) -> Mapping[str, TaskEntry]:
        """The tasks by name, in the order they were learned."""
        return self.index.tasks

    @property
    def members(self) -> Sequence[MemberEntry]:
        """The members, oldest first."""
        return self.index.members

    @property
    def recipe(self) -> Recipe:
        return self.settings.learner(self.names).recipe

    @property
    def extractor(self) -> Extractor | None:
        """The extractor of features, opened and compared with its record; None if nets are trained."""
        record = self.settings.features
        if record is None:
            return None
        if self._extractor is None or self._extractor.sha256 != record["sha256"]:
            self._extractor = open_extractor(self.folder, record, self.names)
        return self._extractor

    def refresh(self) -> bool:
        """Loads the newest state of the folder; returns whether it had changed."""
        newest = self.folder.read()
        changed = newest.generation != self._index.generation
        self._index = newest
        if changed:
            for key in [key for key in self._nets if not newest.names_file(f"members/{key[0]}.safetensors")]:
                del self._nets[key]
            self._fitted, self._familiar = None, {}  # what was made of rows, also of a task that is forgotten
        return changed

    def task(self, name: str) -> Task:
        """A task with its kept training rows and its held-out rows, memory-mapped; raises if no row is kept."""
        return load_task(self.folder, self.index.task(name))

    def stored_rows(self, task: str) -> list[StoredRow]:
        """The stored rows of a task: numbers, original names and classes."""
        return list_rows(self.folder, self.index.task(task))

    def cost_of_purging(self, task: str, rows: Mapping[str | int, str | None]) -> tuple[Correction, PurgeCost]:
        """What `purge` would change, and its cost."""
        correction = find_correction(self.folder, self.index, task, rows)
        return correction, cost_of_purge(self.folder, self.index, correction)

    def answers(self, x: Inputs, task: str, at: int | None = None, sure: float = 0.0) -> Answers:
        """The probabilities of inputs, now or as of episode `at`, with the votes of each member.

        They are the weighted mean of the votes, at the temperature fitted to the task's held-out rows.
        """
        check_sure(sure)
        inputs = self.rows(x)
        votes = self._retry_on_newest(lambda: self._votes(inputs, task, at))
        index, classes = self.index, self.index.task(task, at).classes  # only now: a newer state may have been loaded
        weights = {number: index.weight(index.member(number), task, at) for number in votes}
        knows = [index.knows(index.member(number), task) for number in votes]
        mean = combine([*votes.values()], [*weights.values()], knows, classes)
        mean = apply_temperature(mean, self.temperature(task, at))
        strange = self.familiarity(task, at).strange(inputs) if sure else None
        return Answers(task, index.generation, classes, mean, votes, weights, strange, sure)

    def predict_proba(self, x: Inputs, task: str, at: int | None = None) -> Tensor:
        """Class probabilities (input, class) for a task, now or as of episode `at`."""
        return self.answers(x, task, at).probabilities

    def votes(self, x: Inputs, task: str, at: int | None = None) -> dict[int, Tensor]:
        """The probabilities by each member that votes on a task, by number."""
        return self.answers(x, task, at).votes

    def predict(self, x: Inputs, task: str, at: int | None = None, sure: float = 0.0) -> list[str | None]:
        """The name of the most probable class of each input; `Learner.predict` gives indices.

        Inputs are an array, a path (`"photo.jpg"`, a folder, a table) or several, a Pillow image, or a data
        frame. With `sure` above 0, None (none of these) if the probability is lower, or if an input is unlike
        all stored rows.
        """
        return self.answers(x, task, at, sure).labels

    def _votes(self, inputs: Tensor, task: str, at: int | None) -> dict[int, Tensor]:
        index = self.index
        voters = index.require_voters(task, at)
        net_of = self._net_in(index)
        pieces = iter_probabilities([net_of(member) for member in voters], inputs, task, self.recipe)
        return {member.number: join(votes) for member, votes in zip(voters, zip(*pieces, strict=True), strict=True)}

    def temperature(self, task: str, at: int | None = None) -> float:
        """The temperature of a task's probabilities, now or as of an episode."""
        if at is None:
            return self.measure(task).temperature
        return measure(self.folder, self.index, [task], at)[task].temperature

    def familiarity(self, task: str, at: int | None = None) -> Familiarity:
        """Detects inputs that are unlike the stored rows of a task, by its newest member; fitted once for each state."""
        return self._retry_on_newest(lambda: self._familiarity(task, at))

    def _familiarity(self, task: str, at: int | None) -> Familiarity:
        voter = self.index.require_voters(task, at)[-1]
        if (task, voter.file) not in self._familiar:
            net = self._net_in(self.index)(voter)
            self._familiar[task, voter.file] = load_familiarity(self.folder, self.index, task, net, self.recipe)
            if len(self._familiar) > MOST_FAMILIAR:
                del self._familiar[next(iter(self._familiar))]
        return self._familiar[task, voter.file]

    def _retry_on_newest(self, work: Callable[[], Made]) -> Made:
        """Calls `work`, again if a file is gone because another program has changed the folder.

        Raises if the zoo has moved to another extractor, since rows may have been made by the old one.
        """
        while True:
            before = self.settings.features
            try:
                return work()
            except StoreError:
                if not self.refresh():
                    raise
            if self.settings.features != before:
                raise StoreError(f"{self.path} was brought to other features meanwhile; ask again")

    def recognise(self, x: Inputs, sure: float = SURE) -> list[Recognised]:
        """The task and the class of inputs without a given task, by stored rows of every task.

        Both are None if the probability of the likeliest task is below `sure`, or if an input is unlike all
        stored rows. With `sure` above 0, raises if held-out rows show that the zoo can hardly tell its tasks
        from others; on features, `which_task().quality` tells how many foreign inputs would be named.
        """
        check_recognisable(self.index, sure)
        while True:
            generation, inputs = self.generation, self.rows(x)
            try:
                fitted = self.which_task()
                if sure and self.settings.features is None:
                    fitted.quality.check()
                which = fitted.which
                ask = which.answer if isinstance(which, StatInference) else self._answer_and_classes
                found = recognise_rows(which, inputs, sure, ask)
            except (StoreError, UnknownTask):
                if not self.refresh() and generation == self.generation:
                    raise
                continue
            if generation == self.generation:  # else the zoo has changed meanwhile
                return found

    def _answer_and_classes(self, x: Tensor, task: str) -> tuple[Tensor, tuple[str, ...]]:
        return self.predict_proba(x, task), self.index.task(task).classes

    def which_task(self) -> Fitted:
        """The task inference of this zoo, fitted once for each state."""
        if self._fitted is None or self._fitted.generation != self.generation:
            learner = load_learner(self.folder, self.index, self._net_in(self.index), self.names)
            which = WhichTask(learner) if self.extractor is None else StatInference(learner.kept.values())
            held = {name: load_inputs(self.folder, entry, "test") for name, entry in self.tasks.items()}
            self._fitted = Fitted(self.generation, which, Quality.of(which, held))
        return self._fitted

    def use_fitted(self, fitted: Fitted) -> None:
        """Uses the task inference that another `Zoo` of this folder has fitted."""
        self._fitted = fitted

    def rows(self, x: Inputs) -> Tensor:
        """Inputs as they are stored; rows of features may be given as such."""
        extractor = self.extractor
        rows = read_rows(x, self.settings, self.columns.embed)
        return rows if extractor is None or rows.dtype == torch.int16 else to_rows(extractor, rows)

    @property
    def columns(self) -> Columns:
        """What is known of the columns of tables, and how texts become rows."""
        extractor = self.extractor if self.settings.takes_texts else None
        embed = None if extractor is None else partial(embed_inputs, extractor)
        return Columns(wanted=self.settings.columns, embed=embed)

    def _net_in(self, index: Index) -> Callable[[MemberEntry], Net]:
        nets, folder, names = self._nets, self.folder, self.names  # not `self`: it keeps what refers to `net_of`

        def net_of(member: MemberEntry) -> Net:
            key = member.file, member.heads
            if key not in nets:
                nets[key] = load_net(folder, index, member, names)
            return nets[key]

        return net_of

    def net(self, number: int) -> Net:
        return self._net_in(self.index)(self.index.member(number))

    def scores(self, task: str) -> Scores:
        """The scores of a task on its held-out rows: accuracy with its interval, by class, and confusions."""
        return held_out_scores(self.folder, self.index, task)

    def accuracy(self, task: str) -> Share:
        """The accuracy on the held-out rows of a task, with its interval."""
        return Share.of(self.measure(task).accuracy, self.tasks[task].rows_held_out)

    def majority(self, task: str) -> tuple[str, float]:
        """The most frequent class of a task's held-out rows, and the accuracy of always predicting it."""
        return held_out_majority(self.folder, self.index.task(task))

    def iter_test(self, task: str, data: Data) -> Generator[Step, None, Tested]:
        """Scores of a task on new labelled data, with progress; nothing is stored. `test` runs it to its end."""
        self.index.task(task)
        source = data if isinstance(data, Source) else open_source(Path(data), self.columns)
        return (yield from iter_test(self.predict_proba, self.rows, self.folder, self.index, task, source))

    test = at_once(iter_test)

    def cost_of_forgetting(self, task: str, *, drop: bool = False) -> Cost:
        return cost_of(self.index, task, drop=drop)

    def milliseconds_per_member(self, rows: int = 64) -> float:
        """The time of one member for one row, in batches of `rows`."""
        return self._milliseconds(self.index, rows)

    def _milliseconds(self, index: Index, rows: int = 64) -> float:
        recipe = index.settings.learner(self.names).recipe
        return pruning.milliseconds(self.folder, index, self._net_in(index), recipe, rows)

    def export(
        self,
        task: str,
        path: Path | str,
        to: Literal["onnx", "torch"] = "onnx",
        *,
        overwrite: bool = False,
        int8: bool = False,
    ) -> Exported:
        """Writes one file from raw inputs to a task's probabilities, checked on stored rows.

        On features, `int8` quantises it, which is about twice as fast, and measures the loss of accuracy; the
        pictures must be where they were when they were learned from.
        """
        entry = self.index.task(task)
        if self.settings.features is not None and self.extractor is not None:
            content = file_to_export(self.folder, self.settings.features, to)
            net = scale_head(self.net(self.index.require_voters(task)[-1].number), task, self.temperature(task))
            write = partial(export_in_8_bits, self.folder) if int8 else export_on_features
            return write(content, self.extractor, net, entry, Path(path), overwrite=overwrite)
        if int8:
            raise SettingsError(
                "int8 is for zoos on features; the nets of this one are small already: leave --int8 out"
            )
        voters = self.index.voters(task)
        nets = [(self.net(member.number), self.index.weight(member, task)) for member in voters]
        rows = load_inputs(self.folder, entry, "test")
        temperature = self.temperature(task)
        return export(nets, entry, rows, Path(path), to, self.recipe, temperature=temperature, overwrite=overwrite)

    def verify(self) -> Generator[Step, None, list[str]]:
        """Compares every file with its checksum and loads every member; returns the problems found."""
        return iter_verify(self.folder, self.index, self._net_in(self.index))

    def measure(self, task: str) -> Measure:
        """The accuracy and confidence on the held-out rows of a task."""
        self.index.task(task)
        return self.index.measures[task]
