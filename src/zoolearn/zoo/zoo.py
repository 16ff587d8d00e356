"""The zoo as people hold it: one object for one folder."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from zoolearn.beyond.by_statistics import StatJudge
from zoolearn.beyond.familiarity import Familiarity
from zoolearn.beyond.task_inference import WhichTask
from zoolearn.beyond.temperature import calibrated
from zoolearn.data.task import Task
from zoolearn.errors import StoreError, UnknownTask
from zoolearn.features import Extractor, embedded
from zoolearn.nets.net import Net
from zoolearn.runs.step import Step
from zoolearn.training.fit import Progress, run_to_end
from zoolearn.training.predict import combine, joined, votes
from zoolearn.training.recipe import Recipe
from zoolearn.zoo import pruning
from zoolearn.zoo.arrivals import Arrival, TaskEntry
from zoolearn.zoo.asked import rows_of
from zoolearn.zoo.correcting import Correction, StoredRow, correction_of, listed_rows
from zoolearn.zoo.export_features import at_temperature, export_on_features, file_to_export
from zoolearn.zoo.exporting import Exported, export
from zoolearn.zoo.extracting import Given, open_extractor, to_rows
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.forgetting import Cost, cost_of, removing, undone
from zoolearn.zoo.forgetting_rows import check_forgettable, found_rows, rows_of_class, without_rows
from zoolearn.zoo.gate import check_limit, taken_back, tasks_below
from zoolearn.zoo.growth import Growth, NewClasses
from zoolearn.zoo.index import Index, Measure, MemberEntry
from zoolearn.zoo.inputs.find import both_sources, source_of
from zoolearn.zoo.inputs.source import Source
from zoolearn.zoo.inputs.tables import Columns
from zoolearn.zoo.intake import Augment, Reading, growth_of, iter_take_in, sources_of, taken_in
from zoolearn.zoo.learning import Learned, check_heads_only, iter_learn, measure, now
from zoolearn.zoo.none_of_these import MOST_FAMILIAR, check_sure, stored_familiarity, why_none
from zoolearn.zoo.owned import Plan, check_epochs
from zoolearn.zoo.purging import PurgeCost, cost_of_purge, iter_purge
from zoolearn.zoo.recall import learner_of, member_net
from zoolearn.zoo.recognising import SURE, Fitted, Recognised, check_unrecognisable, quality, recognised
from zoolearn.zoo.renaming import renamed
from zoolearn.zoo.scores import Scores, Share
from zoolearn.zoo.settings import Names, ZooSettings, own_names
from zoolearn.zoo.splitting import Holdout
from zoolearn.zoo.stored import stored_inputs, stored_task
from zoolearn.zoo.testing import Tested, held_out_majority, held_out_scores, iter_test
from zoolearn.zoo.verifying import iter_verify

Data = Path | str | Source
Inputs = Any  # an array, a path or several, a picture of Pillow or several, a data frame


class Zoo:
    """A zoo in a folder: it learns a task at a time, answers for all, and needs nothing else than the folder.

    Reading needs no lock and sees whole states only; `refresh` takes up what another program has changed since. Every
    change is one atomic commit: a program that is killed leaves the zoo as it was before or after it.

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

    def __init__(self, folder: Path | str, names: Names | None = None) -> None:
        self.folder = ZooFolder(Path(folder))
        self.names = names
        self.index = self.folder.read()
        self._nets: dict[tuple[str, tuple[str, ...]], Net] = {}  # two tasks can have one head, and so one file
        self._extractor: Extractor | None = None
        self._fitted: Fitted | None = None
        self._familiar: dict[tuple[str, str], Familiarity] = {}  # by the task and the file of its newest member
        self.folder.tidy(self.index)

    @classmethod
    def create(
        cls, folder: Path | str, settings: ZooSettings, names: Names | None = None, extractor: bytes | None = None
    ) -> "Zoo":
        """An empty zoo with these settings in a new or empty folder, and the file of its extractor if it has one."""
        ZooFolder(Path(folder)).begin(Index(settings, settings).after("made", now()), extractor)
        return cls(folder, names)

    def __repr__(self) -> str:
        return f"Zoo({str(self.path)!r}, {len(self.tasks)} tasks, {len(self.members)} members)"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def generation(self) -> int:
        """Grows by one with every change of the zoo."""
        return self.index.generation

    @property
    def settings(self) -> ZooSettings:
        """Chosen once, settled by the first task."""
        return self.index.settings

    @property
    def tasks(self) -> Mapping[str, TaskEntry]:
        """The tasks by name, in the order they were learned."""
        return self.index.tasks

    @property
    def members(self) -> tuple[MemberEntry, ...]:
        """The members, oldest first."""
        return self.index.members

    @property
    def recipe(self) -> Recipe:
        """How members are trained."""
        return self.settings.learner(self.names).recipe

    @property
    def extractor(self) -> Extractor | None:
        """What turns pictures into features, opened and compared with its record; None where nets are trained."""
        record = self.settings.features
        if record is None:
            return None
        if self._extractor is None or self._extractor.sha256 != record["sha256"]:
            self._extractor = open_extractor(self.folder, record, self.names)
        return self._extractor

    def refresh(self) -> bool:
        """Takes up the newest state of the folder; says whether it had changed."""
        newest = self.folder.read()
        changed = newest.generation != self.index.generation
        self.index = newest
        if changed:
            kept = {(member.file, member.heads) for member in newest.members}
            self._nets = {key: net for key, net in self._nets.items() if key in kept}
            self._fitted, self._familiar = None, {}  # what was made of rows, also of a task that is forgotten
        return changed

    def task(self, name: str) -> Task:
        """A task with its kept training rows and its held-out rows, memory-mapped; refused where no row is kept."""
        return stored_task(self.folder, self.index.task(name))

    def learn(
        self,
        task: Task,
        *,
        epochs: int | None = None,
        new_classes: NewClasses = (),
        unless_worse: float | None = None,
    ) -> Learned:
        """Learns one new task, or what a known one is to grow by; `new_classes` announces classes that it does not have yet.

        Without `epochs`, those of the zoo's settings, or as many as the episode's rows need. `unless_worse=0.01`: if
        held-out rows show beyond chance that an earlier task lost more than a point of accuracy, the episode is taken back,
        and `Learned.worse` names these tasks.
        """
        work = self.iter_learn(task, epochs=epochs, new_classes=new_classes, unless_worse=unless_worse)
        learned: Learned = run_to_end(work)  # type: ignore[arg-type]
        return learned

    def iter_learn(
        self,
        task: Task,
        *,
        epochs: int | None = None,
        new_classes: NewClasses = (),
        unless_worse: float | None = None,
    ) -> Generator[Step | Plan | Progress, None, Learned]:
        """`learn`, step by step: what will be done, then how training goes."""
        check_epochs(epochs, trains=self.settings.features is None)
        check_limit(unless_worse)
        with self.folder.writing() as before:
            if task.name in before.tasks:
                work = iter_take_in(
                    self.folder, before, task.name, *sources_of(task), new_classes=new_classes, extractor=self.extractor
                )
                index, reading = yield from work
                arrival = reading.task.arrivals[-1]
            else:
                index, arrival = taken_in(self.folder, before, task, self.extractor)
            return (yield from self._iter_learn(before, index, arrival, epochs, unless_worse))

    def growth(self, name: str, data: Data) -> Growth | None:
        """What labelled data would add to a task that is known; None if it is a new one."""
        return growth_of(self.index, name, both_sources(data, None, self.columns)[0])

    def learn_from(
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
    ) -> Learned:
        """Learns one new task from people's data, or adds it to a known one; `test`, or a share of it, is held out.

        `holdout` says which: a share at random, or a `Holdout` of the last rows or of whole groups. `new_classes` announces
        classes that a known task does not have yet ("any": whatever is not nearly named like one that it has), and
        `skip_known` leaves out rows that it has already. `heads_only` trains nothing: the head of its newest member is
        fitted again to all rows, in seconds; enough for fewer rows than it has. `unless_worse` as in `learn`.
        """
        work = self.iter_learn_from(
            name,
            data,
            test=test,
            holdout=holdout,
            skip_broken=skip_broken,
            augment=augment,
            epochs=epochs,
            new_classes=new_classes,
            skip_known=skip_known,
            heads_only=heads_only,
            unless_worse=unless_worse,
        )
        learned: Learned = run_to_end(work)  # type: ignore[arg-type]
        return learned

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
    ) -> Generator[Step | Reading | Plan | Progress, None, Learned]:
        """`learn_from`, step by step: how reading goes, what was understood, what will be done, how training goes."""
        check_epochs(epochs, trains=self.settings.features is None)
        check_limit(unless_worse)
        with self.folder.writing() as before:
            index, reading = yield from iter_take_in(
                self.folder,
                before,
                name,
                *both_sources(data, test, replace(self.columns, wanted=before.settings.columns)),
                holdout=holdout,
                skip_broken=skip_broken,
                augment=augment,
                new_classes=new_classes,
                skip_known=skip_known,
                extractor=self.extractor,
            )
            yield reading
            arrival = reading.task.arrivals[-1]
            if heads_only:
                check_heads_only(index, arrival)
            return (yield from self._iter_learn(before, index, arrival, epochs, unless_worse, heads_only=heads_only))

    def stored_rows(self, task: str) -> list[StoredRow]:
        """The stored rows of a task: their numbers, what they were called where they came from, and their classes."""
        return listed_rows(self.folder, self.index.task(task))

    def correct(self, task: str, rows: Mapping[str | int, str | None], *, epochs: int | None = None) -> Learned:
        """Gives stored rows, by their numbers or paths, another class, or deletes them (None); an episode on what is then there.

        Where only rows change that are held out, nothing is trained: the task is measured again.
        """
        learned: Learned = run_to_end(self.iter_correct(task, rows, epochs=epochs))  # type: ignore[arg-type]
        return learned

    def iter_correct(
        self, task: str, rows: Mapping[str | int, str | None], *, epochs: int | None = None
    ) -> Generator[Correction | Plan | Progress, None, Learned]:
        """`correct`, step by step: what will change, what will be done, how training goes."""
        check_epochs(epochs, trains=self.settings.features is None)
        with self.folder.writing() as before:
            correction = correction_of(self.folder, before, task, rows)
            yield correction
            arrival = correction.arrival(self.folder, before)
            return (yield from self._iter_learn(before, before, arrival, epochs, None))

    def cost_of_purging(self, task: str, rows: Mapping[str | int, str | None]) -> tuple[Correction, PurgeCost]:
        """What `purge` would change, and what that costs."""
        correction = correction_of(self.folder, self.index, task, rows)
        return correction, cost_of_purge(self.folder, self.index, correction)

    def purge(self, task: str, rows: Mapping[str | int, str | None]) -> None:
        """`correct`, permanently: no byte of a deleted row is left, nor of a weight that was trained on it."""
        run_to_end(self.iter_purge(task, rows))

    def iter_purge(self, task: str, rows: Mapping[str | int, str | None]) -> Generator[Progress, None, None]:
        """`purge`, step by step, while members are retrained."""
        with self.folder.making_room() as index:
            correction = correction_of(self.folder, index, task, rows)
            self._commit((yield from iter_purge(self.folder, index, correction, self.names)))

    def _iter_learn(
        self,
        before: Index,
        index: Index,
        arrival: Arrival,
        epochs: int | None,
        unless_worse: float | None,
        *,
        heads_only: bool = False,
    ) -> Generator[Plan | Progress, None, Learned]:
        """Commits once: the grown zoo, or the one before with a line in its log."""
        nets = self._net_in(index)
        work = iter_learn(self.folder, index, arrival, nets, self.names, epochs, heads_only=heads_only)
        grown, learned = yield from work
        if worse := tasks_below(learned.changes, unless_worse):
            grown = taken_back(before, arrival.task, now(), learned.changes, worse)
        self._commit(grown)
        return replace(learned, worse=worse)

    def _commit(self, index: Index) -> None:
        self.folder.commit(index)
        self.refresh()

    def predict_proba(self, x: Inputs, task: str, at: int | None = None) -> Tensor:
        """Class probabilities for a task, now or as of episode `at`: one row an input, columns as its classes.

        They are the average of the members' votes, at the temperature that was fitted to the task's held-out rows.
        """
        return self.together(self.votes(x, task, at), task, at)

    def together(self, votes: Mapping[int, Tensor], task: str, at: int | None = None) -> Tensor:
        """One answer of what members say, by their numbers; those that know fewer classes divide what others leave them."""
        members = [self._member(number) for number in votes]
        weights = [self.index.weight(member, task, at) for member in members]
        knows = [self.index.knows(member, task) for member in members]
        answer = combine(list(votes.values()), weights, knows, self.index.task(task, at).classes)
        return calibrated(answer, self.temperature(task, at))

    def temperature(self, task: str, at: int | None = None) -> float:
        """What a task's answers are calibrated with, now or as of an episode: by what its members say of held-out rows."""
        if at is None:
            return self.measure(task).temperature
        return measure(self.folder, self.index, [task], at)[task].temperature

    def predict(self, x: Inputs, task: str, at: int | None = None, sure: float = 0.0) -> list[str | None]:
        """The name of the most probable class of each input; `Learner.predict` gives indices.

        Inputs are an array, a path (`"photo.jpg"`, a folder, a table) or several, a picture of Pillow, or a data frame.
        With `sure` above 0, None (none of these) where that class has a lower chance, or an input is like nothing stored.
        """
        check_sure(sure)
        inputs = self.rows(x)
        answers = self.predict_proba(inputs, task, at)
        reasons = why_none(answers, sure, lambda: self.familiarity(task, at).strange(inputs))
        classes = self.index.task(task, at).classes  # only now: answering may have taken up a newer state
        places = answers.argmax(dim=1).tolist()
        return [None if why else classes[place] for place, why in zip(places, reasons, strict=True)]

    def familiarity(self, task: str, at: int | None = None) -> Familiarity:
        """What tells inputs that are like nothing stored of a task, by its newest member; fitted once for each state."""
        voter = self.index.answering(task, at)[-1]
        if (task, voter.file) not in self._familiar:
            try:
                net = self._net_in(self.index)(voter)
                found = stored_familiarity(self.folder, self.index, task, net, self.recipe)
            except StoreError:
                if not self.refresh():
                    raise
                return self.familiarity(task, at)
            self._familiar[task, voter.file] = found
            if len(self._familiar) > MOST_FAMILIAR:
                del self._familiar[next(iter(self._familiar))]
        return self._familiar[task, voter.file]

    def recognise(self, x: Inputs, sure: float = SURE) -> list[Recognised]:
        """The task and the class of inputs whose task is not given, by stored rows of every task.

        Where the chance of the likeliest task is below `sure`, or an input is like nothing that is stored, both are None.
        Above 0, refused where held-out rows show that the zoo can hardly tell its tasks from others; on features, chances
        are right of what belongs to some task, and `which_task().quality` tells how much else would be named.
        """
        check_unrecognisable(self.index, sure)
        inputs = self.rows(x)
        while True:
            generation = self.generation
            try:
                fitted = self.which_task()
                if sure and self.settings.features is None:
                    fitted.quality.check()
                which = fitted.which
                ask = which.answer if isinstance(which, StatJudge) else self._answer_and_classes
                found = recognised(which, inputs, sure, ask)
            except (StoreError, UnknownTask):
                if not self.refresh() and generation == self.generation:
                    raise
                continue
            if generation == self.generation:  # else the zoo changed meanwhile, and what was found is of two states
                return found

    def _answer_and_classes(self, x: Tensor, task: str) -> tuple[Tensor, tuple[str, ...]]:
        return self.predict_proba(x, task), self.index.task(task).classes

    def which_task(self) -> Fitted:
        """What tells tasks apart by stored rows of every task, fitted once for each state."""
        if self._fitted is None or self._fitted.generation != self.generation:
            learner = learner_of(self.folder, self.index, self._net_in(self.index), self.names)
            which = WhichTask(learner) if self.extractor is None else StatJudge(learner.kept.values())
            held = {name: stored_inputs(self.folder, entry, "test") for name, entry in self.tasks.items()}
            self._fitted = Fitted(self.generation, which, quality(which, held))
        return self._fitted

    def take_up(self, fitted: Fitted) -> None:
        """Uses what another `Zoo` of this folder has fitted."""
        self._fitted = fitted

    def votes(self, x: Inputs, task: str, at: int | None = None) -> dict[int, Tensor]:
        """What each member that knows a task says, by the member's number."""
        try:
            return self._votes(x, task, at)
        except StoreError:
            if not self.refresh():  # a file is gone that the folder, as we know it, should have
                raise
            return self._votes(x, task, at)

    def _votes(self, x: Inputs, task: str, at: int | None) -> dict[int, Tensor]:
        index = self.index
        voters = index.answering(task, at)
        inputs = self.rows(x)
        net_of = self._net_in(index)
        pieces = votes([net_of(member) for member in voters], inputs, task, self.recipe)
        return {member.number: joined(said) for member, said in zip(voters, zip(*pieces, strict=True), strict=True)}

    def rows(self, x: Inputs) -> Tensor:
        """Inputs as they are stored; rows of features may be given as such."""
        extractor = self.extractor
        rows = rows_of(x, self.settings, self.columns.embed)
        return rows if extractor is None or rows.dtype == torch.int16 else to_rows(extractor, rows)

    @property
    def columns(self) -> Columns:
        """What is known of the columns of tables, and how texts become rows where the zoo takes texts."""
        extractor = self.extractor if self.settings.takes_texts else None
        embed = None if extractor is None else partial(embedded, extractor)
        return Columns(wanted=self.settings.columns, embed=embed)

    def _member(self, number: int) -> MemberEntry:
        return self.index.member(number)

    def _net_in(self, index: Index) -> Callable[[MemberEntry], Net]:
        def net_of(member: MemberEntry) -> Net:
            key = member.file, member.heads
            if key not in self._nets:
                self._nets[key] = member_net(self.folder, index, member, self.names)
            return self._nets[key]

        return net_of

    def net(self, number: int) -> Net:
        """The net of a member."""
        return self._net_in(self.index)(self._member(number))

    def scores(self, task: str) -> Scores:
        """How well a task is answered on its held-out rows: accuracy with its interval, by class, and what it mistakes."""
        return held_out_scores(self.folder, self.index, task)

    def accuracy(self, task: str) -> Share:
        """The accuracy on the held-out rows of a task, with its interval."""
        return Share.of(self.measure(task).accuracy, self.tasks[task].rows_held_out)

    def majority(self, task: str) -> tuple[str, float]:
        """The most frequent class of a task's held-out rows, and the accuracy of always naming it."""
        return held_out_majority(self.folder, self.index.task(task))

    def test(self, task: str, data: Data) -> Tested:
        """How well a task is answered on new labelled data; nothing of it is kept."""
        tested: Tested = run_to_end(self.iter_test(task, data))  # type: ignore[arg-type]
        return tested

    def iter_test(self, task: str, data: Data) -> Generator[Step, None, Tested]:
        """`test`, step by step."""
        self.index.task(task)
        source = data if isinstance(data, Source) else source_of(Path(data), self.columns)
        return (yield from iter_test(self.predict_proba, self.rows, self.folder, self.index, task, source))

    def rename(self, task: str, to: str) -> None:
        """Gives a task another name; nothing else changes."""
        with self.folder.writing() as index:
            self._commit(renamed(index, task, to))

    def undo(self) -> str:
        """Goes back to before the last episode; gives the name of its task, which is no longer known, or as it was before."""
        with self.folder.making_room() as index:
            name, earlier = undone(self.folder, index)
            self._commit(earlier)
        return name

    def forget(self, task: str, *, drop: bool = False) -> Cost:
        """Removes a task permanently: its rows, its heads, and every weight that was trained on it."""
        cost: Cost = run_to_end(self.forgetting(task, drop=drop))
        return cost

    def forgetting(self, task: str, *, drop: bool = False) -> Generator[Progress, None, Cost]:
        """`forget`, step by step, while members are retrained."""
        with self.folder.making_room() as index:
            cost = cost_of(index, task, drop=drop)
            rest = yield from removing(self.folder, index, task, drop=drop, names=self.names)
            self._commit(rest)
        return cost

    def forget_class(self, task: str, label: str) -> int:
        """Removes a class of a task permanently, and all its rows; gives their number. For zoos on features.

        What is left has the bits of a zoo that never saw them.
        """
        check_forgettable(self.index)
        with self.folder.making_room() as index:
            gone = {task: rows_of_class(self.folder, index.task(task), label)}
            self._commit(without_rows(self.folder, index, gone, self.names))
        return sum(map(len, gone[task].values()))

    def forget_rows(self, files: Sequence[Path | str], task: str | None = None) -> int:
        """Removes the rows of files permanently, from a task or from all; gives their number. For zoos on features.

        A file is known by its content, wherever it is now, or by the name that it was learned under. What is left has the
        bits of a zoo that never saw them.
        """
        check_forgettable(self.index)
        with self.folder.making_room() as index:
            tasks = index.tasks.values() if task is None else [index.task(task)]
            gone = found_rows(self.folder, tasks, [str(file) for file in files])
            self._commit(without_rows(self.folder, index, gone, self.names))
        return sum(len(numbers) for sides in gone.values() for numbers in sides.values())

    def cost_of_forgetting(self, task: str, *, drop: bool = False) -> Cost:
        """What `forget` would do."""
        return cost_of(self.index, task, drop=drop)

    def prune(
        self, *, loss: float | None = None, budget: float | None = None, latency: float | None = None
    ) -> pruning.Pruning:
        """Silences members that a task can do without; reversible with `unprune` until `commit_pruning`.

        Give one: `loss`, the accuracy that a task may lose (default 0.005); `budget`, megabytes of members to keep;
        `latency`, milliseconds that an answer for one row may take.
        """
        kind, value = pruning.limit_of(loss=loss, budget=budget, latency=latency)
        with self.folder.making_room() as index:
            open_index = pruning.all_speaking(self.folder, index)
            cost = self._milliseconds(open_index) if open_index.tasks else 0.0
            pruned, report = pruning.pruned(self.folder, open_index, kind, value, cost)
            self._commit(pruned.after("pruned", now(), detail=f"by {kind} {value:g}; reversible"))
        return report

    def unprune(self) -> None:
        """Lets every silenced member speak again."""
        with self.folder.making_room() as index:
            self._commit(pruning.all_speaking(self.folder, index).after("unpruned", now()))

    def commit_pruning(self) -> int:
        """Deletes what was pruned, permanently; gives the number of members that are gone."""
        with self.folder.making_room() as index:
            smaller = pruning.committed(index)
            gone = len(index.members) - len(smaller.members)
            self._commit(smaller.after("committed pruning", now(), detail=f"{gone} deleted"))
        return gone

    def milliseconds_per_member(self, rows: int = 64) -> float:
        """How long one member takes to answer for one row, over batches of `rows`."""
        return self._milliseconds(self.index, rows)

    def _milliseconds(self, index: Index, rows: int = 64) -> float:
        recipe = index.settings.learner(self.names).recipe
        return pruning.milliseconds(self.folder, index, self._net_in(index), recipe, rows)

    def export(
        self, task: str, path: Path | str, to: Literal["onnx", "torch"] = "onnx", *, overwrite: bool = False
    ) -> Exported:
        """Writes one file that takes raw inputs and gives a task's averaged probabilities, checked on stored rows."""
        entry = self.index.task(task)
        if self.settings.features is not None and self.extractor is not None:
            content = file_to_export(self.folder, self.settings.features, to)
            net = at_temperature(self.net(self.index.answering(task)[-1].number), task, self.temperature(task))
            return export_on_features(content, self.extractor, net, entry, Path(path), overwrite=overwrite)
        voters = self.index.voters(task)
        nets = [(self.net(member.number), self.index.weight(member, task)) for member in voters]
        rows = stored_inputs(self.folder, entry, "test")
        temperature = self.temperature(task)
        return export(nets, entry, rows, Path(path), to, self.recipe, temperature=temperature, overwrite=overwrite)

    def verify(self) -> Generator[Step, None, list[str]]:
        """Reads every file and compares it with its checksum, then loads every member; gives what is wrong."""
        return iter_verify(self.folder, self.index, self._net_in(self.index))

    def measure(self, task: str) -> Measure:
        """Accuracy and confidence on the held-out rows of a task, as it is answered now."""
        self.index.task(task)
        return self.index.measures[task]


def open(folder: Path | str, names: Names | None = None) -> Zoo:
    """The zoo in a folder; `names` gives your own backbone, weigh or grow functions by name.

    >>> open("nowhere")
    Traceback (most recent call last):
    zoolearn.errors.StoreError: nowhere holds no zoo (zoo.json is missing); make one with `zoo new nowhere`
    """
    return Zoo(folder, names)


def new(
    folder: Path | str,
    **settings: Any,
) -> Zoo:
    """Makes a zoo in a new or empty folder; settings are fields of `ZooSettings` or of a `Recipe`.

    `new("birds", backbone="small-conv", side=64, epochs=20)`: functions may be given by their names. What is not given is
    settled by looking at the data. `new("birds", grow=WarmStart(), flip_tta=True)` goes past the paper: more accurate, for
    more work when it answers.

    `new("birds", features="lite0.onnx")` learns from the features of a pre-trained net: better for few pictures of everyday
    things, as nets of its own are for what no pre-trained net has seen. A function from pictures (count, 3, size, size) to
    vectors may be given in place of the file, with their `size`.
    """
    if settings.get("features") is not None:
        features, size = settings.pop("features"), settings.pop("size", None)
        given = Given.of(features, size)
        return Zoo.create(folder, given.settings(**settings), given.names, given.content)
    return Zoo.create(folder, ZooSettings.chosen(**settings), own_names(**settings))
