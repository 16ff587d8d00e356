"""Limits of a request: bytes, rows, pixels and seconds; and the reading of bodies within them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import Message

from zoolearn.zoo.serve.problems import Problem, service_unavailable


@dataclass(frozen=True)
class Limits:
    """Limits of one request, unless a comment says otherwise; what all requests hold together is bounded too."""

    rows: int = 1024
    body_bytes: int = 32 << 20
    json_bytes: int = 4 << 20  # parsing blocks all others, for about 50 ms at this size
    numbers: int = 200_000  # in its answer
    pixels: int = 40_000_000  # of all images together; they are decoded one after the other
    body_seconds: float = 30.0
    answer_seconds: float = 60.0  # until a request is answered or told that the server is too busy
    send_seconds: float = 30.0  # until the client takes a piece of its answer

    together: int = 256  # rows in one model call, if several requests share it
    waiting_rows: int = 8192  # of all requests
    waiting_bytes: int = 256 << 20  # of all rows
    held_bytes: int = 256 << 20  # of all bodies
    connections: int = 512  # with a request under way; those without one make room for new ones, the oldest first
    connections_per_client: int = 256
    listeners: int = 32  # of a training's progress
    header_bytes: int = 32 << 10
    header_seconds: float = 10.0

    drift_rows: int = 500  # the last ones that were compared with what is stored
    drift_share: float = 0.1  # of them, unlike all stored rows: the alarm
    sampled_rows: int = 16  # of a prediction, compared after it was answered
    sample_seconds: float = 1.0  # between two such predictions

    archive_bytes: int = 512 << 20
    archive_seconds: float = 900.0
    archive_entries: int = 100_000
    picture_bytes: int = 64 << 20  # one file of an archive
    unpacked_bytes: int = 2 << 30


class Room:
    """Bytes that all requests may hold together."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> None:
        if size > self.left:
            raise service_unavailable("the server holds as many requests as it can; send this one again in a moment")
        self.left -= size

    def give_back(self, size: int) -> None:
        self.left += size


@asynccontextmanager
async def limit_body(request: Request, most: int, seconds: float, room: Room | None = None) -> AsyncIterator[Request]:
    """The same request, whose body raises if it is too large, too slow, or there is no room for it."""
    check_encoded(request)
    too_large = Problem(413, f"the body has more than {most:,} bytes; send less at a time")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise too_large
    deadline = asyncio.get_running_loop().time() + seconds
    received = 0

    async def receive() -> Message:
        nonlocal received
        try:
            async with asyncio.timeout_at(deadline):
                message = await request.receive()
        except TimeoutError as error:
            raise Problem(408, f"the body did not arrive within {seconds:g} seconds; send it faster") from error
        size = len(message.get("body", b""))
        if received + size > most:
            raise too_large
        if room is not None:
            room.take(size)
        received += size
        return message

    try:
        yield Request(request.scope, receive)
    finally:
        if room is not None:
            room.give_back(received)


def check_encoded(request: Request) -> None:
    """Raises on compressed bodies, whose size is not known before they are unpacked."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Problem(415, f"the body is encoded as {encoding[:40]!r}; send it as it is, without Content-Encoding")
