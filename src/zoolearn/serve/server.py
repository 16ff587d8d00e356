"""The server: uvicorn, with patience for heads and bodies that come slowly, and an end that leaves nothing running."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from zoolearn.errors import SettingsError
from zoolearn.serve.app import Service
from zoolearn.serve.limits import Limits


def patient(limits: Limits, *, learns: bool) -> type[H11Protocol]:
    """The HTTP protocol, whose connections are closed when a request's head or body does not arrive in time.

    Routes give precise limits for their bodies; this one is also for bodies that no route reads.
    """
    whole_seconds = max(limits.body_seconds, limits.archive_seconds if learns else 0) + limits.header_seconds

    class Patient(H11Protocol):
        timer: asyncio.TimerHandle | None = None
        awaiting: str = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait("", 0)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def _look(self) -> None:
            """Sees what the client owes us, and starts its time anew only if that is something else than before."""
            import h11

            state = self.conn.their_state
            if state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
                idle = not self.conn.trailing_data[0] and self.cycle is not None
                self._wait("" if idle else "head", limits.header_seconds)  # idle ones: uvicorn closes them
            elif state is h11.SEND_BODY:
                self._wait("body", whole_seconds)
            else:
                self._wait("", 0)

        def _wait(self, awaiting: str, seconds: float) -> None:
            if awaiting == self.awaiting:
                return
            self.awaiting = awaiting
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            if awaiting:
                self.timer = self.loop.call_later(seconds, self.transport.close)

    return Patient


class Server(uvicorn.Server):
    """Ends a training first: those who follow it would keep it running."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops answering."""
        if self.service.training is not None:
            await self.service.training.stop()
        await super().shutdown(sockets)


def server_of(app: FastAPI, service: Service) -> Server:
    """A server that is not running yet; give its `run` the sockets to listen on."""
    limits = service.limits
    config = uvicorn.Config(
        app,
        http=patient(limits, learns=service.training is not None),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    return Server(config, service)


def listening(host: str, port: int) -> socket.socket:
    """A socket that connections queue up at from now on."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot listen on {host} port {port}: {reason}; give another --host or --port") from error
    return opened


def own_names(host: str, names: Sequence[str] = ("localhost", "127.0.0.1", "[::1]")) -> set[str] | None:
    """The names that a server for this machine alone answers to; None, any, if it is for others too.

    >>> own_names("0.0.0.0"), sorted(own_names("127.0.0.1"))
    (None, ['127.0.0.1', '[::1]', 'localhost'])
    """
    return set(names) if host in ("localhost", "::1") or host.startswith("127.") else None
