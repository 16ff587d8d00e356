"""Checks of every request before its route: host name, origin, token, rate and time.

- A server for this machine alone answers to this machine's names only: a page elsewhere whose name was pointed at
  127.0.0.1 gets 421.

- A page of another site may send forms to any server; requests that change or cost something get 403.

- With a token, every route but health and readiness requires it (401); it is compared in constant time.
"""

import asyncio
import hmac
import json
import logging
import time
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zoolearn.errors import SettingsError
from zoolearn.zoo.serve.counters import Counters
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.page import shell

HEALTH, READY = "/healthz", "/readyz"
SLASH = "\0"  # stands for a slash inside a task's name; no name holds it
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


access = logging.getLogger("zoolearn.zoo.serve.access")


class TooSlow(Exception):
    """A client does not read its answer."""


class Guard:
    """ASGI middleware around the application."""

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Collection[str] | None, counters: Counters, limits: Limits
    ) -> None:
        self.app, self.counters, self.limits = app, counters, limits
        self.under_way: Counter[str] = Counter()  # requests of each client
        self.token = None if token is None else token.encode()
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses the request or passes it on; counts it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, sent, answering = time.perf_counter(), 500, 0, False
        posts = scope["method"] != "GET"

        async def watched(message: Message) -> None:
            nonlocal status, sent, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
                if status == 421 or (posts and status >= 400):  # what is left of its body is not waited for
                    message["headers"].append((b"connection", b"close"))
                await send(message)
                return
            try:
                async with asyncio.timeout(self.limits.send_seconds):
                    await send(message)
                sent += len(message.get("body", b""))
            except TimeoutError as error:
                raise TooSlow from error

        client = str((scope.get("client") or [""])[0])
        self.under_way[client] += 1
        try:
            refusal = self._refusal(scope) or self._crowd(scope, client)
            if refusal is None:
                _keep_slashes(scope)
                await self.app(scope, receive, watched)
            else:
                await _refuse(watched, scope, *refusal)
        except TooSlow:
            pass  # the answer is not complete: the connection is closed
        except asyncio.CancelledError:  # a server that stops waits for its answers, but not for ever
            if answering:
                raise
            await _refuse(watched, scope, 503, "the server was stopped before it came to this; send it again later")
        finally:
            self.under_way -= Counter([client])
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            self.counters.count_request(scope["method"], route, status, seconds)
            if access.handlers:
                access.info(_line(scope, status, sent, seconds))

    def _crowd(self, scope: Scope, client: str) -> tuple[int, str] | None:
        """Refuses requests beyond what one client, or all, may have open; health is always answered."""
        if scope["path"] in (HEALTH, READY):
            return None
        if self.under_way[client] > self.limits.connections_per_client:
            return 503, f"{self.under_way[client] - 1} requests of this address are under way already; wait for some"
        if self.under_way.total() > self.limits.connections:
            return 503, "the server has as many requests as it can hold; send this one again in a moment"
        return None

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self.hosts is not None and _name(host) not in self.hosts:
            return 421, f"this server is not {host[:80]!r}; it answers to {', '.join(sorted(self.hosts))} only"
        origin = headers.get(b"origin", b"").decode("latin-1")
        if scope["method"] != "GET" and origin and _authority(origin) != host.lower():
            return (
                403,
                f"pages of {origin[:80]!r} may not use this server; send the request from its own page or a program",
            )
        if self.token is None or scope["path"] in (HEALTH, READY):
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self.token):
            return 401, "this server needs its token; send it as `Authorization: Bearer TOKEN`"
        return None


def log_access(file: Path) -> logging.Handler:
    """Appends a line to a file for every request; the file may be moved away at any time (logrotate)."""
    try:
        handler = WatchedFileHandler(file, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the access log {file} cannot be written: {error.strerror}; give another file") from error
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False
    return handler


def _line(scope: Scope, status: int, sent: int, seconds: float) -> str:
    """A request in the access log: a JSON object without token or query."""
    client = scope.get("client") or ("", 0)
    path = unquote((scope.get("raw_path") or b"").decode("latin-1"))
    record = {
        "when": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "client": client[0],
        "method": scope["method"][:16],
        "path": path[:300],
        "status": status,
        "bytes": sent,
        "seconds": round(seconds, 6),
    }
    return json.dumps(record)


def _name(host: str) -> str:
    """A host without its port, lower case.

    >>> _name("LocalHost:8000"), _name("[::1]:8000")
    ('localhost', '[::1]')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() and not port.startswith("]") else host.lower()


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _keep_slashes(scope: Scope) -> None:
    """Keeps a slash sent as %2F in a name from splitting the path."""
    raw = scope.get("raw_path") or b""
    if b"%2f" in raw.lower():
        parts = raw.decode("latin-1").split("/")
        scope["path"] = "/".join(unquote(part).replace("/", SLASH) for part in parts)


async def _refuse(send: Send, scope: Scope, status: int, detail: str) -> None:
    """The refusal; browsers without a token get the empty page, which asks for it and shows nothing of the zoo."""
    page = shell(scope["path"]) if status == 401 and scope["method"] == "GET" else None
    if page is not None:
        body, headers = page.body, list(page.headers)
    else:
        body, headers = json.dumps({"detail": detail}).encode(), [(b"content-type", b"application/json")]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
