"""Learning requested by a client: one archive, one process, one at a time; any client may follow its progress."""

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from zoolearn.errors import StoreError, ZooError
from zoolearn.locks import lock_folder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.intake.growth import MOST_NAMED, Growth
from zoolearn.zoo.intake.naming import check_ends
from zoolearn.zoo.learning.episode import check_heads_only
from zoolearn.zoo.serve.archive import unpack
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.problems import Problem, in_options, service_unavailable

TEMPORARY = "zoo-serve-"
LONGEST_LINE = 1 << 24
HEARTBEAT = 10.0  # seconds without news until a listener is told that there is none
SECONDS_TO_STOP = 10.0
ENDS = ("learned", "taken back", "failed")  # states of a training that is over

State = dict[str, Any]


class Training:
    """The one training of a server; `state` is the latest known."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        remove_left_behind()
        self.state: State = {"state": "idle"}
        self.taken = False  # from the first byte of an archive to the end of its training
        self.process: Process | None = None
        self.task: asyncio.Task[None] | None = None
        self.news = asyncio.Event()
        self.listeners = 0
        self.stopping = False
        self.finished = dict.fromkeys(ENDS, 0)

    @contextmanager
    def reserve(self, name: str) -> "Iterator[Order]":
        """Reserves the server's training for one archive, as long as the training begun inside goes on."""
        if self.taken:
            raise Problem(409, "another task is being learned; wait until it is done (GET /training)")
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY))
        order = Order(self, name, temporary, lock_folder(temporary))
        self.taken = True
        try:
            yield order
        finally:
            if not order.begun:
                order.remove()
                self.taken = False

    def say(self, state: State) -> None:
        """Sets the latest state and wakes all followers."""
        self.state = state
        self.news.set()
        self.news = asyncio.Event()

    def follow(self) -> AsyncIterator[str]:
        """The state as server-sent events, now and at every change, until no training is running."""
        if self.listeners >= self.limits.listeners:
            raise service_unavailable("too many clients follow the training; ask again in a moment", 5)
        return self._states()

    async def _states(self) -> AsyncIterator[str]:
        self.listeners += 1
        try:
            while True:
                news, state = self.news, self.state
                yield f"data: {json.dumps(state)}\n\n"
                while not news.is_set():
                    if not self.taken or (self.stopping and (self.task is None or self.task.done())):
                        return
                    try:
                        async with asyncio.timeout(HEARTBEAT):
                            await news.wait()
                    except TimeoutError:
                        yield ": still here\n\n"
        finally:
            self.listeners -= 1

    async def stop(self) -> None:
        """Stops the running training; the zoo stays as it was."""
        self.stopping = True
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
        if self.task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_TO_STOP):
                    await asyncio.shield(self.task)
            if self.process is not None and self.process.returncode is None:
                self.process.kill()
            await self.task
        self.news.set()


def remove_left_behind() -> None:
    """Deletes archives and images of killed servers of this user, whose locks are free."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with suppress(StoreError, OSError):
            facts = path.lstat()
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == getattr(os, "getuid", lambda: 0)():
                with lock_folder(path):
                    shutil.rmtree(path, ignore_errors=True)


def _check_classes(
    index: Index, name: str, counts: Mapping[str, int], announced: Sequence[str], *, heads_only: bool
) -> None:
    """Raises on a new task of one class, on odd names, and on classes that are announced wrongly or not at all."""
    known = index.tasks.get(name)
    try:
        if known is None:
            for label in counts:
                check_ends("class", label)
            growth, new = None, list[str]()
        else:
            growth = Growth.of(known, [label for label, count in counts.items() for _ in range(count)])
            growth.check_rows(announced)
            new = [*growth.new]
        if heads_only:
            check_heads_only(index, name, new)
    except ZooError as error:
        raise Problem(422, in_options(error)) from error
    if growth is None:
        if len(counts) < 2:
            raise Problem(422, f"the archive has one class, {next(iter(counts))[:80]!r}; a new task needs at least two")
        return
    missing = growth.unannounced(announced)
    if missing:
        what = "; ".join([str(growth), *growth.doubts()])
        how = urlencode([("new_class", name) for name in missing], quote_via=quote)
        how = f"?{how}" if len(missing) <= MOST_NAMED else "new_class=NAME for each"
        raise Problem(409, f"{what}; if that is meant, send it again with {how}", new_classes=missing)


class Order:
    """One task to be learned: its archive, then its images, in a temporary folder of its own."""

    def __init__(self, training: Training, name: str, temporary: Path, lock: AbstractContextManager[None]) -> None:
        self.training, self.name, self.temporary = training, name, temporary
        self.archive = temporary / "archive"
        self.begun = False
        self.lock = lock  # so that the next server knows whether this one still runs
        self.lock.__enter__()

    def remove(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.lock.__exit__(None, None, None)

    async def begin(
        self,
        index: Index,
        *,
        new_class: Sequence[str] = (),
        skip_known: bool = False,
        skip_broken: bool = False,
        heads_only: bool = False,
        unless_worse: float | None = None,
    ) -> tuple[dict[str, int], list[str]]:
        """Unpacks the archive and starts the process that learns from it; returns the number of images of each class.

        And the names of files that are not used.
        """
        pictures = self.temporary / "pictures"
        pictures.mkdir()
        counts, others = await asyncio.to_thread(unpack, self.archive, pictures, self.training.limits)
        self.archive.unlink()
        _check_classes(index, self.name, counts, new_class, heads_only=heads_only)
        order = {
            "folder": str(self.training.folder), "name": self.name, "pictures": str(pictures), "skip_broken": skip_broken,
            "unless_worse": unless_worse, "new_classes": list(new_class), "skip_known": skip_known,
            "heads_only": heads_only,
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "zoolearn.zoo.serve.learner", stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        self.begun = True
        self.training.process = process
        self.training.say({"task": self.name, "state": "reading", "done": 0, "total": sum(counts.values())})
        self.training.task = asyncio.create_task(self._watch(process))
        return counts, others

    async def _watch(self, process: Process) -> None:
        """Passes on the process's reports until it ends."""
        training = self.training
        assert process.stdout is not None
        last: State = {}
        try:
            async for line in process.stdout:
                last = {"task": self.name, **json.loads(line)}
                if last["state"] in ("reading", "training"):
                    training.say(last)
            code = await process.wait()
            if last.get("state") not in ENDS:
                how = "the server was stopped" if training.stopping else f"its process ended (exit code {code})"
                last = {"task": self.name, "state": "failed", "detail": f"{how}; the zoo is as it was"}
            training.finished[last["state"]] += 1
        finally:
            self.remove()
            training.taken = False
            training.say(last)
