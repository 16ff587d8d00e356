"""Questions of many connections, gathered into common model calls.

One thread runs the model. Questions that arrive while it is busy share its next call: none waits for others, so a
single client is answered at once, and under load calls grow to the size that pays.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from zoolearn.zoo.serve.problems import service_unavailable
from zoolearn.zoo.serve.rows import Rows

Answers = TypeVar("Answers")
Key = tuple[str, tuple[int, ...]]  # a task and the shape of a row: questions of one key can share a call


@dataclass(frozen=True, eq=False)
class Waiting(Generic[Answers]):
    """A question, and a future for its answers and the position of its first row in them."""

    rows: Rows
    answered: "asyncio.Future[tuple[Answers, int]]"


@dataclass(eq=False)
class Backlog:
    """The rows that are waiting or being answered, up to a limit."""

    most_rows: int
    most_bytes: int
    rows: int = 0
    bytes: int = 0

    @contextmanager
    def hold(self, rows: Rows) -> Iterator[None]:
        """Counts rows until they are answered; raises if too many are waiting."""
        if self.rows and (self.rows + len(rows) > self.most_rows or self.bytes + rows.nbytes > self.most_bytes):
            raise service_unavailable(f"{self.rows:,} rows are waiting already; send these again in a moment")
        self.rows += len(rows)
        self.bytes += rows.nbytes
        try:
            yield
        finally:
            self.rows -= len(rows)
            self.bytes -= rows.nbytes


class Batcher(Generic[Answers]):
    """Calls `ask(task, rows)` in a thread, for several questions at a time, oldest task first."""

    def __init__(
        self,
        thread: Executor,
        ask: Callable[[str, Rows], Answers],
        together: int,
        backlog: Backlog,
        note: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self.thread, self.ask, self.note = thread, ask, note
        self.together, self.backlog = together, backlog
        self.waiting: dict[Key, deque[Waiting[Answers]]] = {}
        self.work: asyncio.Task[None] | None = None

    async def answer(self, task: str, rows: Rows) -> tuple[Answers, int]:
        """The answers of a call that these rows were part of, and the position of the first of them."""
        with self.backlog.hold(rows):
            question = Waiting[Answers](rows, asyncio.get_running_loop().create_future())
            self.waiting.setdefault((task, rows.shape[1:]), deque()).append(question)
            if self.work is None or self.work.done():
                self.work = asyncio.create_task(self._work())
            return await question.answered

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self.waiting:
            task, questions = self._next()
            if not questions:
                continue
            blocks: list[Any] = [question.rows for question in questions]
            together = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            self.note(len(together))
            try:
                answers = await loop.run_in_executor(self.thread, self.ask, task, together)
            except Exception as error:  # re-raised to each client
                for question in questions:
                    if not question.answered.done():
                        question.answered.set_exception(error)
                continue
            first = 0
            for question in questions:
                if not question.answered.done():
                    question.answered.set_result((answers, first))
                first += len(question.rows)

    def _next(self) -> tuple[str, list[Waiting[Answers]]]:
        """The questions of the next call, all about one task; the rest queue up behind other tasks."""
        key = next(iter(self.waiting))
        queue = self.waiting.pop(key)
        questions: list[Waiting[Answers]] = []
        rows = 0
        while queue and (not questions or rows + len(queue[0].rows) <= self.together):
            question = queue.popleft()
            if not question.answered.done():  # else: it was given up
                questions.append(question)
                rows += len(question.rows)
        if queue:
            self.waiting[key] = queue
        return key[0], questions
