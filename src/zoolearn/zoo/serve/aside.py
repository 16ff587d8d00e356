"""Work that takes seconds, on a thread of its own, so that the server goes on answering."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

from zoolearn.zoo import Zoo

Made = TypeVar("Made")


class Aside:
    """Makes one thing at a time, once for all who ask for the same; a stopping server does not wait for it."""

    def __init__(self, open_zoo: Callable[[], Zoo]) -> None:
        self.open_zoo = open_zoo
        self.under_way: dict[str, asyncio.Future[Any]] = {}
        self.turn = asyncio.Lock()
        self.thread: Thread | None = None  # the last one

    @property
    def is_busy(self) -> bool:
        """Whether something is being made, even if no client waits for it any more."""
        return self.thread is not None and self.thread.is_alive()

    async def make(self, what: str, make: Callable[[Zoo], Made]) -> Made:
        """The result of `make` on the newest state of the zoo."""
        if what not in self.under_way:
            self.under_way[what] = asyncio.ensure_future(self._run_in_turn(what, make))
        made: Made = await asyncio.shield(self.under_way[what])
        return made

    async def _run_in_turn(self, what: str, make: Callable[[Zoo], Made]) -> Made:
        try:
            async with self.turn:
                loop = asyncio.get_running_loop()
                future: asyncio.Future[Made] = loop.create_future()
                self.thread = Thread(target=self._work, args=(loop, future, make), daemon=True)
                self.thread.start()
                return await future
        finally:
            del self.under_way[what]

    def _work(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Made]", make: Callable[[Zoo], Made]
    ) -> None:
        try:
            outcome, ended = make(self.open_zoo()), future.set_result
        except Exception as error:  # re-raised to each client
            outcome, ended = error, future.set_exception  # type: ignore[assignment]
        with suppress(RuntimeError):  # the server has stopped meanwhile
            loop.call_soon_threadsafe(ended, outcome)
