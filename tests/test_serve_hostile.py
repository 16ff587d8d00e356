"""Hostile requests: each gets a 4xx that says what to send, or a closed connection; memory is bounded and the rest goes on."""

import io
import json
import re
import resource
import struct
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from servers import PATIENCE, Client, form, png, serving
from zoolearn.zoo.serve.problems import Problem
from zoolearn.zoo.serve.rows import from_json
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # servers are started

X = TASKS[0].test.x
PLACE = "/tasks/stripes/predict"
GOOD = json.dumps({"rows": X[:1].tolist()}).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return small_zoo(tmp_path_factory.mktemp("hostile") / "zoo", TASKS[:1]).path


@pytest.fixture(scope="module")
def shared(folder):
    with serving(folder) as client:
        yield client


@pytest.fixture
def client(shared):
    """The server, which must be well after every test."""
    yield shared
    assert shared.get("/healthz").json["status"] == "ok"
    assert shared.post(PLACE, GOOD, "application/json").status == 200
    assert shared.service.room.left == shared.service.limits.held_bytes
    assert shared.service.backlog.rows == 0


def row(value: str) -> str:
    """A row whose first pixel is this."""
    return '{"rows": [[' + ",".join(["[" + ",".join([value, *["0"] * 7]) + "]"] + ["[0,0,0,0,0,0,0,0]"] * 7) + "]]}"


NOT_ROWS = {
    "nothing": "",
    "cut": '{"rows": [[1',
    "a list": "[[1]]",
    "null": "null",
    "no rows": '{"rows": []}',
    "rows of nothing": '{"rows": [[], []]}',
    "rows of null": '{"rows": null}',
    "beside": '{"rows": [[1]], "more": 1}',
    "flat": '{"rows": [1, 2, 3]}',
    "ragged": '{"rows": [[[1, 2], [3]]]}',
    "words": '{"rows": [[["a"]]]}',
    "objects": '{"rows": [[[{}]]]}',
    "NaN": row("NaN"),
    "infinity": row("-Infinity"),
    "beyond floats": row("1e999"),
    "true": row("true"),
    "null inside": row("null"),
    "negative": row("-1"),
    "too bright": row("256"),
    "half": row("0.5"),
    "huge number": row("9" * 400),
    "absurd number": row("9" * 5000),
    "deep": '{"rows": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "deeper than numpy": '{"rows": ' + "[" * 80 + "1" + "]" * 80 + "}",
    "other size": json.dumps({"rows": X[:1, :, :7].tolist()}),
    "not UTF-8": b'{"rows": "\xff"}',
    "UTF-16": '{"rows": [[true]]}'.encode("utf-16"),
}


@pytest.mark.parametrize("body", NOT_ROWS.values(), ids=NOT_ROWS)
def test_json_that_is_no_rows_is_refused_and_says_what_is_wanted(client, body) -> None:
    said = client.post(PLACE, body if isinstance(body, bytes) else body.encode(), "application/json")
    assert said.status == 422
    assert re.search(r"rows|at least one", said.detail)
    assert len(said.detail) < 1000


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([[1, 2, 3], [4, "5", 6]], "a text instead of a number in row 2, value 2"),
        ([[1, 2, 3], [4, 5, [6]]], "a list instead of a number in row 2, value 3"),
        ([[1, 2, 3], [4, 5, False]], "true or false instead of a number in row 2, value 3"),
        ([[1, 2, 3], 4], "a number instead of a list in row 2"),
        ([[1, 2, 3], [4, 5]], "lists of different lengths (3, and 2 in row 2)"),
        ([[1, 2, 10**400]], "a number beyond 1e+18"),
        ([[1, 2.5, 10**400]], "a number beyond 1e+18"),
        ([1, 2, 3], "3 rows of nothing"),
    ],
)
def test_what_is_no_number_is_refused_with_its_place(rows, problem) -> None:
    with pytest.raises(Problem) as refused:
        from_json(json.dumps({"rows": rows}).encode(), (3,), 8)
    assert refused.value.detail == f"the body holds {problem}; this zoo takes rows of 3 finite numbers"


def test_a_long_text_among_rows_takes_no_more_memory_than_its_body() -> None:
    rows = [["x" * 10_000, *[0] * 9], *[[0] * 10] * 99]
    tracemalloc.start()
    try:
        with pytest.raises(Problem):
            from_json(json.dumps({"rows": rows}).encode(), (10,), 1024)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20  # an array of texts: 40 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "kind", "status", "word"),
    [
        (b"", "application/octet-stream", 422, "a row has 64"),
        (b"x" * 65, "application/octet-stream", 422, "a row has 64"),
        (bytes(64 * 1025), "application/octet-stream", 413, "at most 1,024"),
        (b"x=1", "application/x-www-form-urlencoded", 415, "multipart/form-data"),
        (b"x", "", 415, "application/json"),
        (b"x" * 4000, "text/" + "x" * 4000, 415, "image/png"),
        (GOOD, "application/json; charset=latin-1", 200, ""),
        (b"no image", "image/png", 422, "damaged or no image"),
        (png(X[0])[:-30], "image/png", 422, "damaged"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", "image/x-eps", 422, "no image"),
        (b"", "image/png", 422, "no image"),
        (b"--x", "multipart/form-data", 400, ""),
        (b"--x", "multipart/form-data; boundary=x", 422, "no rows"),
        (b"garbage" * 99, "multipart/form-data; boundary=x", 400, ""),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--', "multipart/form-data; boundary=x", 400, ""),
    ],
)  # fmt: skip
def test_bodies_of_other_kinds(client, body, kind, status, word) -> None:
    said = client.post(PLACE, body, kind)
    assert said.status == status
    assert word in said.body.decode()


def huge_png(width: int, height: int) -> bytes:
    """A small file that says it is an image of that size, all black."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes(min(height * (width // 8 + 1), 4 << 20)), 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (1 << 30, 1 << 30), (40_000_001, 1)])
def test_an_image_with_more_pixels_than_are_taken_is_not_decoded(client, width, height) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = client.post(PLACE, huge_png(width, height), "image/png")
    assert said.status in (413, 422)
    assert "pixels" in said.detail
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_many_images_that_are_too_much_together_are_refused(folder) -> None:
    with serving(folder, pixels=1000) as client:
        said = client.post(PLACE, *form({f"{number}.png": png(np.zeros((1, 20, 20))) for number in range(3)}))
        assert said.status == 413
        assert "1,200 pixels" in said.detail


def test_an_image_of_another_size_is_fitted(client) -> None:
    photograph = io.BytesIO()
    Image.effect_noise((640, 480), 50).convert("RGB").save(photograph, "JPEG")
    assert client.post(PLACE, photograph.getvalue(), "image/jpeg").status == 200


@pytest.mark.parametrize(
    "name",
    ["..", "../zoo.json", "%2e%2e%2fzoo.json", "%00", "stripes%00", "%ff%fe", "/etc/passwd", "..%5c..%5c", "*", "a" * 5000, "'%22%3Cscript%3E"],
)  # fmt: skip
def test_a_name_is_only_ever_looked_up(client, name) -> None:
    assert client.get(f"/tasks/{name}").status == 404
    assert client.post(f"/tasks/{name}/predict", GOOD, "application/json").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(client, method) -> None:
    assert client.ask(method, "/tasks/stripes").status == 405


def test_learning_is_off_unless_told(client) -> None:
    assert client.post("/tasks/new", b"PK\x03\x04", "application/zip").status == 405
    assert client.get("/training").status == 404


def test_a_compressed_body_is_refused(client) -> None:
    said = client.post(PLACE, zlib.compress(bytes(1 << 20)), "application/json", Content_Encoding="gzip")
    assert said.status == 415


def head(length: int | str, kind: str = "application/octet-stream") -> bytes:
    return (
        f"POST {PLACE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode()
    )


def test_a_body_that_is_said_to_be_too_large_is_not_read(client) -> None:
    assert b" 413 " in client.raw(head(1 << 40))
    assert b" 413 " in client.raw(head((4 << 20) + 1, "application/json"))


def test_a_body_of_unknown_length_is_read_only_so_far(folder) -> None:
    endless = (
        f"POST {PLACE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    block = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with serving(folder, body_bytes=1 << 20) as client:
        back = client.raw(endless.encode(), *[block] * 64)
        assert back == b"" or b" 413 " in back
        assert client.post(PLACE, GOOD, "application/json").status == 200


NO_HTTP = {
    "binary": bytes(range(256)),
    "no version": b"GET /tasks\r\n\r\n",
    "bad length": head("many"),
    "negative length": head(-1),
    "two lengths": head("1\r\nContent-Length: 2") + b"xx",
    "smuggled": head("4\r\nTransfer-Encoding: chunked") + b"0\r\n\r\nGET /members HTTP/1.1\r\n\r\n",
    "long head": b"GET /tasks HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20),
    "long line": b"GET /" + b"x" * (1 << 20),
    "no host": b"GET /tasks HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_refused_or_closed(folder, sent) -> None:
    with serving(folder, header_seconds=0.5, body_seconds=0.5) as client:
        back = client.raw(sent)
        assert back == b"" or re.match(rb"HTTP/1.1 4\d\d", back)
        assert b"HTTP/1.1 200" not in back
        assert client.get("/healthz").status == 200


def test_slow_heads_and_bodies_are_closed_while_others_are_answered(folder) -> None:
    with serving(folder, header_seconds=0.5, body_seconds=0.5) as client:
        silent = Thread(target=client.raw)
        half_a_head = Thread(target=client.raw, args=(b"GET /tasks HTTP/1.1\r\nHo",))
        for thread in (silent, half_a_head):
            thread.start()
        back = client.raw(head(64) + b"x")
        assert b" 408 " in back
        assert b"did not arrive within 0.5 seconds" in back
        unread = client.raw(head(64).replace(b"stripes", b"nobody") + b"x")
        assert b" 404 " in unread
        assert client.post(PLACE, GOOD, "application/json").status == 200
        for thread in (silent, half_a_head):
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert client.service.room.left == client.service.limits.held_bytes


def test_bodies_that_do_not_fit_together_are_told_to_come_again(folder) -> None:
    with serving(folder, held_bytes=1000) as client:
        said = client.post(PLACE, bytes(64 * 20), "application/octet-stream")
        assert said.status == 503
        assert said.headers["retry-after"] == "1"
        assert client.post(PLACE, bytes(64 * 10), "application/octet-stream").status == 200


def test_a_client_that_leaves_in_the_middle_does_no_harm(client) -> None:
    for sent in (head(64) + b"x", head(64) + bytes(64), head(1 << 20, "image/png") + b"x" * 1000):
        import socket

        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(sent)


def test_many_hostile_clients_at_once_leave_the_server_as_it_was(client) -> None:
    bodies = [body if isinstance(body, bytes) else body.encode() for body in NOT_ROWS.values()]
    bomb = huge_png(7000, 7000)

    def attack(number: int) -> int:
        if number % 5 == 0:
            return client.post(PLACE, bomb, "image/png").status
        return client.post(PLACE, bodies[number % len(bodies)], "application/json").status

    with ThreadPoolExecutor(10) as many:
        statuses = set(many.map(attack, range(100)))
    assert statuses <= {413, 422}


def test_a_wrong_token_is_told_before_anything_is_read(folder) -> None:
    with serving(folder, token="open sesame") as client:
        back = client.raw(head(1 << 40))
        assert b" 401 " in back
        assert Client(client.server, client.port).post(PLACE, b"x" * 100_000, "image/png").status == 401
