"""Downloads from a server on this machine: whole, continued, refused, spoiled."""

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from published_files import write, write_cifar100, write_mnist
from zoolearn.data import datasets
from zoolearn.data.datasets.catalog import SOURCES, Download, Layout, PublishedFile, Source
from zoolearn.data.datasets.downloads import fetch, fetch_first, unpack
from zoolearn.errors import DataError, MissingData, SettingsError, StoreError

CONTENT = bytes(range(256)) * 4000
HALF = len(CONTENT) // 2


def md5(content: bytes) -> str:
    return "md5:" + hashlib.md5(content).hexdigest()


class Publisher(ThreadingHTTPServer):
    """Serves `files`; can be told not to continue downloads, to hang up half-way, or not to tell the length."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.continues = True
        self.hangs_up = False
        self.tells_length = True

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Answer(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        name, wanted = self.path.removeprefix("/"), self.headers["Range"]
        self.server.asked.append((name, wanted))
        if name not in self.server.files:
            self.send_error(404)
            return
        content, start = self.server.files[name], 0
        if wanted and self.server.continues:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        rest = content[start:]
        if self.server.tells_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if self.server.hangs_up else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def publisher(monkeypatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Publisher() as server:
        server.files["file"] = CONTENT
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/file"


def part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def test_a_file_is_fetched_into_place(publisher, tmp_path):
    path = tmp_path / "folder" / "file"
    fetch(publisher.address("file"), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT
    assert not part_of(path).exists()
    assert publisher.asked == [("file", None)]


def test_a_file_of_unknown_length_is_fetched(publisher, tmp_path):
    publisher.tells_length = False
    fetch(publisher.address("file"), tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_partial_file_is_continued(publisher, tmp_path):
    path = tmp_path / "file"
    part_of(path).write_bytes(CONTENT[:HALF])
    fetch(publisher.address("file"), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT
    assert publisher.asked == [("file", f"bytes={HALF}-")]


def test_a_server_that_cannot_continue_sends_everything_again(publisher, tmp_path):
    publisher.continues = False
    path = tmp_path / "file"
    part_of(path).write_bytes(b"x" * HALF)
    fetch(publisher.address("file"), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT
    assert publisher.asked == [("file", f"bytes={HALF}-")]


@pytest.mark.parametrize(
    "part", [b"x" * HALF, b"x" * len(CONTENT), CONTENT + b"x"], ids=["foreign", "as long", "longer"]
)
def test_a_partial_file_of_another_version_is_dropped_and_fetched_anew(publisher, tmp_path, part):
    path = tmp_path / "file"
    part_of(path).write_bytes(part)
    fetch(publisher.address("file"), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT
    assert publisher.asked == [("file", f"bytes={len(part)}-"), ("file", None)]


def test_a_complete_partial_file_needs_no_server(tmp_path):
    path = tmp_path / "file"
    part_of(path).write_bytes(CONTENT)
    fetch(unused_address(), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT


def test_a_broken_connection_keeps_what_arrived_and_the_next_try_continues(publisher, tmp_path):
    path = tmp_path / "file"
    publisher.hangs_up = True
    with pytest.raises(MissingData, match=rf"stopped after {HALF} of {len(CONTENT)} bytes"):
        fetch(publisher.address("file"), path, md5(CONTENT))
    assert part_of(path).read_bytes() == CONTENT[:HALF]
    publisher.hangs_up = False
    fetch(publisher.address("file"), path, md5(CONTENT))
    assert path.read_bytes() == CONTENT
    assert publisher.asked[-1] == ("file", f"bytes={HALF}-")


def test_a_wrong_checksum_is_named_and_leaves_nothing(publisher, tmp_path):
    path = tmp_path / "file"
    with pytest.raises(DataError, match=r"/file sent does not have the checksum md5:.* and was discarded"):
        fetch(publisher.address("file"), path, md5(b"something else"))
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_never_replaces_the_one_that_is_there(publisher, tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match="does not have the checksum"):
        fetch(publisher.address("file"), tmp_path / "file", md5(b"something else"))
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_when_no_address_has_the_file_each_answer_is_named(publisher, tmp_path):
    addresses = (unused_address(), publisher.address("nothing"))
    with pytest.raises(MissingData) as error:
        fetch_first(addresses, tmp_path / "file", md5(CONTENT))
    assert str(error.value).startswith(f"{addresses[0]} cannot be reached (")
    assert str(error.value).endswith(f"; {addresses[1]} answered 404 Not Found")


def test_a_missing_page_is_named(publisher, tmp_path):
    with pytest.raises(MissingData, match=r"/nothing answered 404 Not Found"):
        fetch(publisher.address("nothing"), tmp_path / "file", md5(CONTENT))


def test_the_next_address_is_tried(publisher, tmp_path):
    publisher.files["spoiled"] = b"spoiled"
    addresses = (
        unused_address(),
        publisher.address("nothing"),
        publisher.address("spoiled"),
        publisher.address("file"),
    )
    fetch_first(addresses, tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_only_http_is_spoken(tmp_path):
    with pytest.raises(SettingsError, match="'file:///etc/passwd' is not an http or https address"):
        fetch("file:///etc/passwd", tmp_path / "file", md5(CONTENT))


def test_a_folder_that_cannot_be_written_is_named(publisher, tmp_path):
    (tmp_path / "folder").write_text("a file in the way")
    with pytest.raises(StoreError, match=r"cannot write .*file\.part: .*; make room or choose another --data"):
        fetch(publisher.address("file"), tmp_path / "folder" / "file", md5(CONTENT))


def test_the_bar_shows_the_file_and_its_size(publisher, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fetch(publisher.address("file"), tmp_path / "file", md5(CONTENT))
    shown = capsys.readouterr().err
    assert "file" in shown
    assert "MB" in shown


# Whole data sets


def archive(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    return content.getvalue()


@pytest.fixture
def toy_cifar(publisher, tmp_path, monkeypatch) -> Path:
    """CIFAR-100 as the local publisher has it: a tiny archive with its own checksums; returns an empty data root."""
    write_cifar100(tmp_path / "published", version="binary")
    folder = tmp_path / "published" / "cifar-100-binary"
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    publisher.files["toy.tar.gz"] = archive({f"cifar-100-binary/{name}": body for name, body in contents.items()})
    layout = Layout("cifar-100-binary", tuple(PublishedFile(name, md5(body)) for name, body in contents.items()))
    offer = Download("toy.tar.gz", md5(publisher.files["toy.tar.gz"]), (publisher.address("toy.tar.gz"),))
    monkeypatch.setitem(SOURCES, "cifar-100", Source("cifar-100", (layout,), (offer,)))
    return tmp_path / "data"


def state(root: Path) -> str:
    return next(entry.state for entry in datasets.status(root) if entry.name == "cifar-100")


def test_a_data_set_is_downloaded_unpacked_and_readable(publisher, toy_cifar):
    assert datasets.download("cifar-100", toy_cifar) == toy_cifar / "cifar-100-binary"
    assert len(datasets.cifar100(toy_cifar).train) == 200
    assert [path.name for path in toy_cifar.iterdir()] == ["cifar-100-binary"]
    assert state(toy_cifar) == "verified"


def test_what_is_whole_is_not_downloaded_again(publisher, toy_cifar):
    datasets.download("cifar-100", toy_cifar)
    publisher.asked.clear()
    datasets.download("cifar-100", toy_cifar)
    assert publisher.asked == []


def test_what_is_damaged_is_downloaded_again(publisher, toy_cifar):
    datasets.download("cifar-100", toy_cifar)
    (toy_cifar / "cifar-100-binary" / "train.bin").write_bytes(b"spoiled")
    assert state(toy_cifar) == "damaged"
    datasets.download("cifar-100", toy_cifar)
    assert state(toy_cifar) == "verified"


def test_an_archive_put_there_by_hand_is_unpacked_without_a_connection(publisher, toy_cifar):
    write(toy_cifar / "toy.tar.gz", publisher.files.pop("toy.tar.gz"))
    datasets.download("cifar-100", toy_cifar)
    assert state(toy_cifar) == "verified"
    assert publisher.asked == []


def test_files_are_fetched_one_by_one_and_offline_the_missing_ones_are_named(publisher, tmp_path, monkeypatch):
    write_mnist(tmp_path / "published")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "published" / "mnist").iterdir()}
    publisher.files.update(contents)
    files = tuple(PublishedFile(file.name, md5(contents[file.name])) for file in SOURCES["mnist"].layouts[0].files)
    offers = tuple(Download(f"mnist/{file.name}", file.checksum, (publisher.address(file.name),)) for file in files)
    monkeypatch.setitem(SOURCES, "mnist", Source("mnist", (Layout("mnist", files),), offers))
    write(tmp_path / "data" / "mnist" / files[0].name, contents[files[0].name])
    publisher.files.clear()
    with pytest.raises(MissingData) as error:
        datasets.download("mnist", tmp_path / "data")
    places = ", ".join(str(tmp_path / "data" / "mnist" / file.name) for file in files[1:])
    assert str(error.value).endswith(f"elsewhere, put them at {places} and run the same command again")
    publisher.files.update(contents)
    publisher.asked.clear()
    assert datasets.download("mnist", tmp_path / "data") == tmp_path / "data" / "mnist"
    assert [name for name, _ in publisher.asked] == [file.name for file in files[1:]]
    assert len(datasets.mnist(tmp_path / "data").test) == 30


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar100", "unknown data set 'cifar100'; did you mean 'cifar-100'?"),
        ("digits", "digits come inside scikit-learn; there is nothing to download"),
    ],
)
def test_a_name_that_cannot_be_downloaded_is_a_settings_error(tmp_path, name, message):
    with pytest.raises(SettingsError) as error:
        datasets.download(name, tmp_path)
    assert message in str(error.value)


def test_mini_imagenet_has_no_download(tmp_path):
    with pytest.raises(MissingData, match=r"mini-imagenet: it has no free download: .* put them into"):
        datasets.download("mini-imagenet", tmp_path)


@pytest.mark.parametrize("name", ["../outside", "/outside", "..\\outside", "D:/outside"])
def test_an_archive_cannot_write_outside_of_the_data_root(tmp_path, name):
    root = tmp_path / "data"
    write(root / "bad.tar.gz", archive({name: b"x"}))
    if name.startswith("/"):
        unpack(root / "bad.tar.gz", root)  # the leading slash is taken off
        assert (root / "outside").read_bytes() == b"x"
    else:
        with pytest.raises(DataError, match=r"bad\.tar\.gz cannot be unpacked .*; delete it and fetch it again"):
            unpack(root / "bad.tar.gz", root)
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_a_link_in_an_archive_is_refused(tmp_path):
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as content:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        content.addfile(link)
    with pytest.raises(DataError, match="link, a device, or leads outside"):
        unpack(tmp_path / "bad.tar.gz", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


@pytest.mark.parametrize("spoil", [lambda body: body[: len(body) // 2], lambda body: b"no archive"])
def test_a_damaged_archive_is_named(tmp_path, spoil):
    write(tmp_path / "bad.tar.gz", spoil(archive({"file": CONTENT})))
    with pytest.raises(DataError, match=r"bad\.tar\.gz cannot be unpacked"):
        unpack(tmp_path / "bad.tar.gz", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_every_real_address_is_encrypted_and_has_a_checksum():
    for source in SOURCES.values():
        for offer in source.downloads:
            assert all(address.startswith("https://") for address in offer.addresses)
            algorithm, _, value = offer.checksum.partition(":")
            assert len(value) == 2 * hashlib.new(algorithm).digest_size
