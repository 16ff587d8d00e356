"""The newest state of a zoo folder while other programs change it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.beyond.familiarity import Familiarity
from zoolearn.errors import StoreError, ZooError
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.answers import Answers
from zoolearn.zoo.answers.none_of_these import MOST_FAMILIAR
from zoolearn.zoo.answers.recognition import Fitted, Recognised
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.index_files import HEAD
from zoolearn.zoo.learning.evaluation import held_out_majority
from zoolearn.zoo.learning.scores import Scores
from zoolearn.zoo.serve.aside import Aside
from zoolearn.zoo.serve.rows import Rows

LOOK_EVERY = 0.5  # seconds
Result = TypeVar("Result")


class Outdated(Exception):
    """Rows were compared with another state of the zoo."""


class LiveZoo:
    """A zoo that is kept up to date. Only `thread` touches the zoo; its index is immutable and may be read anywhere."""

    def __init__(self, folder: Path, thread: Executor, notify: Callable[[str], None] = lambda line: None) -> None:
        self.thread, self.notify = thread, notify
        self.file = folder / HEAD
        self.seen = self._mark()
        self.zoo = Zoo(folder)
        self.majorities: dict[str, tuple[str, tuple[str, float]]] = {}  # by task, with the digests of its files
        self.prepared, self.ready = 0, False  # how many members have their nets at hand; whether all once had
        self.fitted: Fitted | None = None
        self.compared: dict[str, tuple[int, Familiarity]] = {}  # with the rows of a task; and the state that it is of
        self.aside = Aside(lambda: Zoo(self.zoo.path, self.zoo.names))
        self.problem: str | None = None  # why the folder's newest state is not known

    @property
    def index(self) -> Index:
        """The newest known state."""
        return self.zoo.index

    def ask(self, task: str, rows: Rows) -> Answers:
        """The answers of the zoo for some rows; on the thread."""
        return self._of_newest(lambda: self.zoo.answers(_tensor(rows), task))

    def scores(self, task: str) -> Scores:
        """The scores of a task on its held-out rows; on the thread."""
        return self._of_newest(lambda: self.zoo.scores(task))

    def _of_newest(self, work: Callable[[], Result]) -> Result:
        """The result of some work; if a change has deleted files that it needs, of the state after that change."""
        while True:
            generation = self.zoo.generation
            try:
                return work()
            except StoreError:
                self._refresh()
                if self.zoo.generation == generation:
                    raise

    def ask_surely(self, task: str, rows: Rows) -> Answers:
        """`ask`, and which rows are unlike the stored rows of the task; on the thread."""
        familiarity, x = self._comparison(task), self.zoo.rows(_tensor(rows))
        return replace(self.zoo.answers(x, task), strange=familiarity.strange(x))

    def strange(self, task: str, rows: Rows) -> list[bool]:
        """Which rows are unlike the stored rows of a task; on the thread."""
        found: list[bool] = self._comparison(task).strange(self.zoo.rows(_tensor(rows))).tolist()
        return found

    def features(self, texts: Sequence[str]) -> Rows:
        """The stored form of texts; on the thread."""
        found: NDArray[np.int16] = self.zoo.rows(list(texts)).numpy()
        return found

    def majority(self, entry: TaskEntry) -> tuple[str, float] | None:
        """The most frequent class of a task's held-out rows and its share; None if these are gone or damaged."""
        files = "".join(part.digest for part in entry.stored)
        if entry.name not in self.majorities or self.majorities[entry.name][0] != files:
            try:
                self.majorities[entry.name] = files, held_out_majority(self.zoo.folder, entry)
            except (ZooError, OSError):
                return None
        return self.majorities[entry.name][1]

    def recognise(self, sure: str, rows: Rows) -> tuple[int, list[Recognised]]:
        """Task and class of some rows, at least this sure, and the generation; on the thread."""
        if self.fitted is None or self.fitted.generation != self.zoo.generation:
            raise Outdated
        self.zoo.use_fitted(self.fitted)
        found = self.zoo.recognise(_tensor(rows), float(sure))
        return self.zoo.generation, found

    async def fit(self) -> None:
        """Fits task inference, once for each state."""
        while self.fitted is None or self.fitted.generation != self.zoo.generation:
            self.fitted = await self.aside.make("tasks", lambda zoo: zoo.which_task())
            await asyncio.get_running_loop().run_in_executor(self.thread, self._refresh)  # it may be of a newer state

    async def compare(self, task: str) -> None:
        """Fits the detection of rows unlike the stored rows of a task, once for each state."""
        with suppress(Outdated):
            self._comparison(task)
            return
        found = await self.aside.make(f"task {task}", lambda zoo: (zoo.generation, zoo.familiarity(task)))
        self.compared.pop(task, None)
        self.compared[task] = found
        if len(self.compared) > MOST_FAMILIAR:
            del self.compared[next(iter(self.compared))]
        await asyncio.get_running_loop().run_in_executor(self.thread, self._refresh)  # it may be of a newer state

    def _comparison(self, task: str) -> Familiarity:
        generation, found = self.compared.get(task, (-1, None))
        if found is None or generation != self.zoo.generation:
            raise Outdated
        return found

    async def follow(self) -> AsyncIterator[Index]:
        """Each state, with its nets at hand soon after; the index's file is looked at twice a second, in microseconds."""
        loop = asyncio.get_running_loop()
        while True:
            generation, self.prepared = self.zoo.generation, 0
            self._let_go(generation)
            yield self.index
            for member in self.index.members:  # one at a time: questions come in between
                await loop.run_in_executor(self.thread, self._prepare, member)
                self.prepared += 1
                await self._look()
                if self.zoo.generation != generation:
                    break
            else:
                self.ready = True
            while self.zoo.generation == generation:
                await asyncio.sleep(LOOK_EVERY)
                await self._look()

    def _let_go(self, generation: int) -> None:
        """Drops what was made of earlier states: it is of no more use, and some of it is of rows that are forgotten."""
        self.compared = {task: found for task, found in self.compared.items() if found[0] >= generation}
        if self.fitted is not None and self.fitted.generation < generation:
            self.fitted = None
        self.majorities = {task: found for task, found in self.majorities.items() if task in self.index.tasks}

    async def _look(self) -> None:
        """Loads the newest state, if there is one."""
        if (mark := self._mark()) != self.seen or self.problem is not None:
            await asyncio.get_running_loop().run_in_executor(self.thread, self._refresh)
            self.seen = mark

    def _prepare(self, member: MemberEntry) -> None:
        """Loads a member's net, and opens the extractor, before a client needs them."""
        if member.number in self.index.records.members:
            with suppress(ZooError, OSError):  # the next question reports it
                self.zoo.net(member.number)
                _ = self.zoo.extractor

    def _refresh(self) -> None:
        try:
            if self.zoo.refresh():
                self.notify(f"generation {self.zoo.generation}: {len(self.zoo.tasks)} tasks")
            self.problem = None
        except (ZooError, OSError) as error:
            if self.problem != str(error):
                self.notify(f"the folder cannot be read, the last state is served: {error}")
            self.problem = str(error)

    def _mark(self) -> tuple[int, int, int] | None:
        """Changes whenever the index is replaced."""
        try:
            facts = os.stat(self.file)
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ino, facts.st_size


def _tensor(rows: Rows) -> Tensor:
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())
