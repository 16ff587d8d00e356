"""A zoo that is served on a real socket of this machine, and a client that asks it."""

import http.client
import io
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from PIL import Image

from processes import PATIENCE
from zoolearn.zoo.serve.app import make_app
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.server import Server, make_server, open_socket, own_names
from zoolearn.zoo.serve.service import Service


@dataclass(frozen=True)
class Said:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        return self.json["detail"]


@dataclass(frozen=True)
class Client:
    """Asks a server, with a new connection each time."""

    server: Server
    port: int
    token: str | None = None

    @property
    def service(self) -> Service:
        return self.server.service

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Said:
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Said(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Said:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, kind: str, **headers: str) -> Said:
        return self.ask("POST", path, body, Content_Type=kind, **headers)

    def rows(self, task: str, rows: Any, more: str = "") -> Said:
        """Asks with JSON."""
        return self.post(f"/tasks/{task}/predict{more}", json.dumps({"rows": rows}), "application/json")

    def raw(self, *pieces: bytes, then: float = PATIENCE) -> bytes:
        """What comes back for bytes as they are, until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=then) as connection:
            back = b""
            try:
                for piece in pieces:
                    connection.sendall(piece)
                while block := connection.recv(1 << 16):
                    back += block
            except ConnectionError:
                pass
            return back


@contextmanager
def serving(folder: Path, *, token: str | None = None, learns: bool = False, **limits: Any) -> Iterator[Client]:
    """A server in a thread, stopped at the end."""
    service = Service(folder, replace(Limits(), **limits), learns=learns)
    opened = open_socket("127.0.0.1", 0)
    server = make_server(make_app(service, token=token, hosts=own_names("127.0.0.1")), service)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield Client(server, opened.getsockname()[1], token)
    finally:
        server.should_exit = True
        thread.join()
        opened.close()


def png(pixels: Any, kind: str = "PNG") -> bytes:
    """An image file of (1, height, width) or (3, height, width) pixels."""
    array = np.asarray(pixels, np.uint8)
    image = Image.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def form(files: Mapping[str, bytes], boundary: str = "between") -> tuple[bytes, str]:
    """Files as browsers send them, and the content type."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n\r\n'.encode() + content
        for name, content in files.items()
    ]
    return b"\r\n".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
