"""The server: uvicorn with timeouts for slow heads and bodies, and a shutdown that leaves nothing running."""

import asyncio
import selectors
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import monotonic
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zoolearn.errors import SettingsError
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.service import Service

SECONDS_TO_ANSWER = 10  # what is under way when the server is told to stop
SECONDS_TO_READ = 5.0  # what had come by then; a busy machine may leave no turn to the loop for a second
STEPS_TO_READ = 4  # of the event loop: from a connection that is accepted to a request that is read


def make_protocol(limits: Limits, *, learns: bool) -> type[HttpToolsProtocol]:
    """The HTTP protocol; connections are closed if a request's head is too long or does not arrive in time.

    Routes have precise limits for their bodies; the timeout here also covers bodies that no route reads.
    """
    whole_seconds = max(limits.body_seconds, limits.archive_seconds if learns else 0) + limits.header_seconds
    idle: dict[HttpToolsProtocol, None] = {}  # connections without a whole head, the oldest first

    class Patient(HttpToolsProtocol):
        timer: asyncio.TimerHandle | None = None
        in_head = True
        head_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]
            if len(self.connections) > limits.connections:
                next(iter(idle), self).transport.close()
            idle[self] = None
            self._wait(limits.header_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            idle.pop(self, None)
            self._wait(None)
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
                idle[self] = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.in_head:
                self.head_bytes += len(data)
                if self.head_bytes > limits.header_bytes:
                    self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.in_head, self.head_bytes = True, 0
            self._wait(limits.header_seconds)

        def on_headers_complete(self) -> None:
            idle.pop(self, None)
            super().on_headers_complete()
            self.in_head = False
            self._wait(whole_seconds)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._wait(None)  # from now on, uvicorn closes connections that are idle for too long

        def _wait(self, seconds: float | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None if seconds is None else self.loop.call_later(seconds, self.transport.close)

    return Patient


class Joined:
    """A transport that sends the head and the body of an answer in one piece."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.transport, self.loop = transport, loop
        self.pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        """Sends this together with what else is written in this turn of the loop."""
        if not self.pieces:
            self.loop.call_soon(self._send)
        self.pieces.append(data)

    def close(self) -> None:
        """Sends what is left, then closes the connection."""
        self._send()
        self.transport.close()

    def _send(self) -> None:
        if self.pieces:
            self.transport.write(b"".join(self.pieces))
            self.pieces.clear()


class Server(uvicorn.Server):
    """Ends a training first: clients that follow it would keep the server running."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Treats a closed terminal (SIGHUP) as SIGTERM."""
        with super().capture_signals():
            if not hasattr(signal, "SIGHUP") or current_thread() is not main_thread():
                yield
                return
            before = signal.getsignal(signal.SIGHUP)
            if before != signal.SIG_IGN:  # as nohup wants it
                signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._read_what_has_come(sockets or [])
        if self.service.training is not None:
            await self.service.training.stop()
        await super().shutdown(sockets)

    async def _read_what_has_come(self, sockets: Sequence[socket.socket]) -> None:
        """Takes up requests that were sent before the server was told to stop; their connections would be reset."""
        ends = monotonic() + SECONDS_TO_READ
        waiting = True
        while waiting and monotonic() < ends:
            for _ in range(STEPS_TO_READ):
                await asyncio.sleep(0)
            connections = [each.transport.get_extra_info("socket") for each in self.server_state.connections]
            waiting = _has_come([*sockets, *filter(None, connections)])


def _has_come(sockets: Iterable[socket.socket]) -> bool:
    """Whether something is to be accepted or read."""
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            if each.fileno() >= 0:
                selector.register(each, selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


def make_server(app: FastAPI, service: Service) -> Server:
    """A server that is not running yet; `run` takes the sockets to listen on."""
    limits = service.limits
    config = uvicorn.Config(
        app,
        http=make_protocol(limits, learns=service.training is not None),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SECONDS_TO_ANSWER,
    )
    return Server(config, service)


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket: connections queue up from now on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(
            family, kind, protocol
        )  # asyncio sends at once only where the protocol is known to be TCP
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot listen on {host} port {port}: {reason}; give another --host or --port") from error
    return opened


def own_names(host: str, names: Sequence[str] = ("localhost", "127.0.0.1", "[::1]")) -> set[str] | None:
    """The host names that a server for this machine alone answers to; None (any) if it is for others too.

    >>> own_names("0.0.0.0"), sorted(own_names("127.0.0.1"))
    (None, ['127.0.0.1', '[::1]', 'localhost'])
    """
    if host.startswith("127."):
        return {*names, host}
    return set(names) if host in ("localhost", "::1") else None
