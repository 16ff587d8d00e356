"""The questions of many clients: reading rows, sharing the model, and answering in time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from time import monotonic

from fastapi import FastAPI, Request
from starlette.datastructures import UploadFile

from zoolearn.errors import DataError, UnknownTask, ZooError
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.answers.answers import Answers
from zoolearn.zoo.answers.none_of_these import NONE
from zoolearn.zoo.answers.recognition import Recognised
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.learning.scores import Scores
from zoolearn.zoo.serve.batching import Backlog, Batcher
from zoolearn.zoo.serve.counters import NOT_TOLD, Counters, Drift
from zoolearn.zoo.serve.limits import Limits, Room, limit_body
from zoolearn.zoo.serve.listing import Listing
from zoolearn.zoo.serve.live_zoo import LiveZoo, Outdated
from zoolearn.zoo.serve.problems import Problem, service_unavailable
from zoolearn.zoo.serve.rows import Rows, from_images, from_json, from_raw, texts_from_json
from zoolearn.zoo.serve.training import Training

log = logging.getLogger("zoolearn.zoo.serve")

FORMS = (
    'JSON {"rows": [...]} (application/json), raw rows (application/octet-stream), an image (image/png, image/jpeg, ...) '
    "or several (multipart/form-data)"
)
TEXTS = 'JSON {"texts": [...]} (application/json)'


class Service:
    """A zoo for many clients: its newest state, one thread for the model, one that decodes images."""

    def __init__(self, folder: Path, limits: Limits, *, learns: bool) -> None:
        self.limits, self.counters, self.room = limits, Counters(), Room(limits.held_bytes)
        self.model = ThreadPoolExecutor(1, "model")
        self.decoder = ThreadPoolExecutor(1, "decoder")
        self.live = LiveZoo(folder, self.model, log.info)
        _ = self.live.zoo.extractor  # one that cannot be opened is refused now
        self.name = folder.resolve().name
        self.training = Training(folder, limits) if learns else None
        self.listing = Listing(self.live, self.name, learns=learns)
        self.backlog = Backlog(limits.waiting_rows, limits.waiting_bytes)
        together, note = limits.together, self.counters.batches.observe
        self.drift = Drift(limits.drift_rows, limits.drift_share, log.warning)
        self.sampling: asyncio.Task[None] | None = None  # of rows that were answered, the last one
        self.next_sample = 0.0
        self.answers = Batcher[Answers](self.model, self.live.ask, together, self.backlog, note)
        self.sure_answers = Batcher[Answers](self.model, self.live.ask_surely, together, self.backlog, note)
        self.recognitions = Batcher[tuple[int, list[Recognised]]](
            self.model, self.live.recognise, together, self.backlog, note
        )

    @property
    def index(self) -> Index:
        return self.live.index

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Follows the folder while the server runs."""
        follower = asyncio.create_task(self._follow())
        yield
        for task in (follower, *([self.sampling] if self.sampling else [])):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self.training is not None:
            await self.training.stop()
        self.model.shutdown()
        self.decoder.shutdown()

    async def _follow(self) -> None:
        async for index in self.live.follow():
            self.counters.let_go(index.tasks)

    async def rows(self, request: Request, shape: Shape) -> Rows:
        """The rows of a question, in whatever form they are sent."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        limits = self.limits
        if self.index.settings.takes_texts:
            if kind != "application/json":
                raise Problem(
                    415, f"the body is said to be {kind[:80] or 'nothing'!r}; this zoo takes texts, send {TEXTS}"
                )
            return await self._features(texts_from_json(await request.body(), limits.rows))
        if kind == "application/json":
            return from_json(await request.body(), shape, limits.rows, self.index.settings.columns)
        if kind == "application/octet-stream":
            return from_raw(await request.body(), shape, limits.rows)
        if kind == "multipart/form-data":
            files = await _files(request, limits.rows)
        elif kind.startswith("image/"):
            files = [("the body", await request.body())]
        else:
            raise Problem(415, f"the body is said to be {kind[:80] or 'nothing'!r}; send {FORMS}")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.decoder, from_images, files, shape, limits.rows, limits.pixels)

    async def _features(self, texts: list[str]) -> Rows:
        """The features of texts, computed on the thread that owns the zoo."""
        with _explain_problems():
            return await asyncio.get_running_loop().run_in_executor(self.model, self.live.features, texts)

    @asynccontextmanager
    async def read_rows(self, request: Request, shape: Shape, each: int) -> AsyncIterator[Rows]:
        """The rows of a question whose answers have this many numbers each; their memory counts until they are answered."""
        limits = self.limits
        is_json = request.headers.get("content-type", "").lower().startswith("application/json")
        most = limits.json_bytes if is_json else limits.body_bytes
        async with limit_body(request, most, limits.body_seconds, self.room) as bounded:
            rows = await self.rows(bounded, shape)
            _check_long_answer(len(rows), each, limits.numbers)
            yield rows

    async def scores(self, task: str) -> Scores:
        loop = asyncio.get_running_loop()
        with _explain_problems():
            return await loop.run_in_executor(self.model, self.live.scores, task)

    async def ask(self, task: str, rows: Rows, sure: float) -> Answers:
        """The answers for rows of a task, counted; with `sure`, rows are compared with stored ones."""
        with _explain_problems():
            async with asyncio.timeout(self.limits.answer_seconds):
                answers, first = await (self._ask_surely(task, rows) if sure else self.answers.answer(task, rows))
        answers = answers.select(first, len(rows), sure)
        self._count(task, answers, rows)
        return answers

    async def _ask_surely(self, task: str, rows: Rows) -> tuple[Answers, int]:
        while True:
            await self.live.compare(task)
            with suppress(Outdated):
                return await self.sure_answers.answer(task, rows)

    async def recognise(self, sure: float, rows: Rows) -> tuple[int, list[Recognised]]:
        """Task and class of rows, and the zoo's generation, counted."""
        with _explain_problems():
            async with asyncio.timeout(self.limits.answer_seconds):
                (generation, found), first = await self._recognise(repr(sure), rows)
        found = found[first : first + len(rows)]
        self.counters.count_recognised([row.task for row in found])
        self._count_compared(NOT_TOLD, [row.strange for row in found])
        return generation, found

    async def _recognise(self, sure: str, rows: Rows) -> tuple[tuple[int, list[Recognised]], int]:
        while True:
            await self.live.fit()
            with suppress(Outdated):
                return await self.recognitions.answer(sure, rows)

    def _count(self, task: str, answers: Answers, rows: Rows) -> None:
        """Counts answers; now and then some of their rows are compared with stored ones afterwards."""
        names = [name or f"({NONE})" for name in answers.labels]
        self.counters.count_answers(task, zip(names, answers.probabilities.max(dim=1).values.tolist(), strict=True))
        if answers.strange is not None:
            self._count_compared(task, answers.strange.tolist())
        elif self.sampling is None or (self.sampling.done() and monotonic() >= self.next_sample):
            self.next_sample = monotonic() + self.limits.sample_seconds
            self.sampling = asyncio.create_task(self._sample(task, rows[: self.limits.sampled_rows]))

    async def _sample(self, task: str, rows: Rows) -> None:
        """Compares rows with stored ones of their task; failures do not matter to the answer."""
        with suppress(Outdated, ZooError, OSError):
            await self.live.compare(task)
            strange = await asyncio.get_running_loop().run_in_executor(self.model, self.live.strange, task, rows)
            self._count_compared(task, strange)

    def _count_compared(self, task: str, strange: Sequence[bool]) -> None:
        self.counters.count_compared(task, strange)
        self.drift.add(strange)

    def metrics(self) -> bytes:
        """What was counted, and some values of the moment, as Prometheus reads them."""
        self.counters.let_go(self.index.tasks)
        return self.counters.render(self._gauges())

    def _gauges(self) -> dict[str, float]:
        values: dict[str, float] = {
            "zoo_generation": self.index.generation,
            "zoo_tasks": len(self.index.tasks),
            "zoo_members": len(self.index.members),
            "zoo_waiting_rows": self.backlog.rows,
            "zoo_stale": self.live.problem is not None,
            "zoo_strange_share": self.drift.now.value,
            "zoo_drift_alarm": self.drift.is_alarming,
        }
        if self.training is not None:
            values["zoo_training"] = self.training.taken
            for end, count in self.training.finished.items():
                values[f"zoo_trainings_{end.replace(' ', '_')}"] = count
        return values


@contextmanager
def _explain_problems() -> Iterator[None]:
    """Turns errors of the zoo into answers that say whose fault it is."""
    try:
        yield
    except TimeoutError as error:
        raise service_unavailable("the server did not come to this question in time; send it again later", 5) from error
    except UnknownTask as error:
        raise Problem(404, str(error)) from error
    except DataError as error:  # the zoo has changed since the rows were read
        raise Problem(422, str(error)) from error
    except (ZooError, OSError) as error:
        log.error("%s", error)
        raise service_unavailable("the zoo cannot be read now; its log says why", 60) from error


async def _files(request: Request, most: int) -> list[tuple[str, bytes]]:
    async with request.form(max_files=most, max_fields=0) as form:
        files = []
        for name, value in form.multi_items():
            if not isinstance(value, UploadFile):
                raise Problem(422, f"the form's field {name[:80]!r} is no file; send images only")
            files.append((value.filename or name, await value.read()))
    return files


def _check_long_answer(rows: int, each: int, most: int) -> None:
    """Raises if the answers, of this many numbers each, would be too long."""
    if rows > 1 and rows * each > most:
        raise Problem(
            413, f"the answer would have {rows * each:,} numbers; send at most {max(1, most // each)} rows at a time"
        )
