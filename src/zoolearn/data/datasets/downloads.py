"""Files fetched from their publishers: continued where they stopped, and put into place only when their checksum is right."""

import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from zoolearn.data.datasets.catalog import SOURCES, Download, Source, matches
from zoolearn.data.datasets.progress import iter_with_bar
from zoolearn.data.datasets.root import data_root
from zoolearn.errors import DataError, MissingData, SettingsError, StoreError, unknown_name

BLOCK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte


def download(name: str, data: Path | str | None = None) -> Path:
    """Fetches what is missing or damaged of a data set, unpacks it, and returns the folder that can now be read."""
    if name == "digits":
        raise SettingsError("digits come inside scikit-learn; there is nothing to download")
    if name not in SOURCES:
        raise SettingsError(unknown_name("data set", name, SOURCES))
    root, source = data_root(data), SOURCES[name]
    if not source.nearest(root).is_whole(root):
        if not source.downloads:
            raise MissingData(f"{name}: {source.advice(root)}")
        try:
            for wanted in source.downloads:
                _obtain(wanted, root)
        except MissingData as error:
            raise MissingData(f"{error}. {_explain_manually(source, root)}") from error
    return root / source.locate(root).folder


def _explain_manually(source: Source, root: Path) -> str:
    places = [
        str(root / wanted.place) for wanted in source.downloads if not matches(root / wanted.place, wanted.checksum)
    ]
    return (
        "Try again later (what has arrived is kept), or get the missing files elsewhere, put them at "
        f"{', '.join(places)} and run the same command again"
    )


def _obtain(wanted: Download, root: Path) -> None:
    path = root / wanted.place
    if not matches(path, wanted.checksum):
        fetch_first(wanted.addresses, path, wanted.checksum)
    if path.name.endswith(".tar.gz"):
        unpack(path, root)
        path.unlink()


def fetch_first(addresses: tuple[str, ...], path: Path, checksum: str) -> None:
    """Fetches a file from the first address that has it; if none has, says what each answered."""
    failures = []
    for address in addresses:
        try:
            return fetch(address, path, checksum)
        except DataError as error:
            failures.append(str(error))
    raise MissingData("; ".join(failures))


def fetch(address: str, path: Path, checksum: str) -> None:
    """Fetches one file into `PATH.part`, continuing what is there, and renames it when its checksum is right."""
    part = path.with_name(f"{path.name}.part")
    continued = part.exists()
    if not matches(part, checksum):
        receive(address, part)
    if continued and not matches(part, checksum):  # what was there is of another version: again, from the start
        part.unlink()
        receive(address, part)
    if not matches(part, checksum):
        part.unlink()
        raise DataError(f"what {address} sent does not have the checksum {checksum} and was discarded")
    os.replace(part, path)


def receive(address: str, part: Path) -> None:
    """Appends what is missing of a file; a server that cannot continue sends all of it again."""
    start = part.stat().st_size if part.exists() else 0
    with _ask(address, start) as response:
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is missing
        start = start if response.status == HTTPStatus.PARTIAL_CONTENT else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        blocks = iter_with_bar(_blocks(response, address), part.stem, total, done=start, size=len)
        _append(blocks, part, start)
    if total is not None and part.stat().st_size < total:
        raise MissingData(f"{address} stopped after {part.stat().st_size} of {total} bytes")


def _ask(address: str, start: int) -> HTTPResponse:
    if not address.startswith(("http://", "https://")):
        raise SettingsError(f"{address!r} is not an http or https address")
    request = Request(address, headers={"User-Agent": "zoolearn"})  # noqa: S310 (checked above)
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        return cast(HTTPResponse, urlopen(request, timeout=TIMEOUT))  # noqa: S310 (checked above)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return cast(HTTPResponse, error)
        error.close()
        raise MissingData(f"{address} answered {error.code} {error.reason}") from error
    except (URLError, OSError, HTTPException) as error:
        raise MissingData(f"{address} cannot be reached ({getattr(error, 'reason', error)})") from error


def _blocks(response: HTTPResponse, address: str) -> Iterator[bytes]:
    try:
        while block := response.read(BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise MissingData(f"{address} broke off ({error})") from error


def _append(blocks: Iterator[bytes], part: Path, start: int) -> None:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if start else "wb") as file:
            for block in blocks:
                file.write(block)
    except OSError as error:
        raise StoreError(f"cannot write {part}: {error.strerror}; make room or choose another --data") from error


def unpack(archive: Path, root: Path) -> None:
    """Puts the files of a tar archive below `root`, each in one step; links and paths that lead outside are refused."""
    try:
        with tempfile.TemporaryDirectory(dir=root, prefix=".unpacking-") as scratch:
            with tarfile.open(archive) as content:
                for member in content:
                    _extract(content, member, Path(scratch))
            for path in Path(scratch).rglob("*"):
                if path.is_file():
                    place = root / path.relative_to(scratch)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(path, place)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}); delete it and fetch it again") from error
    except OSError as error:
        raise StoreError(f"cannot unpack {archive} into {root}: {error.strerror}; make room first") from error


def _extract(content: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path) -> None:
    """Writes one file of an archive below a folder, whatever its path says; the first Pythons 3.11 have no filter for this."""
    place = PurePosixPath(member.name.lstrip("/"))
    leads_away = ".." in place.parts or "\\" in member.name or ":" in member.name
    if leads_away or not (member.isfile() or member.isdir()):
        raise tarfile.ReadError(f"{member.name!r} is a link, a device, or leads outside")
    source = content.extractfile(member)
    if source is not None:
        (scratch / place).parent.mkdir(parents=True, exist_ok=True)
        with source, (scratch / place).open("wb") as file:
            shutil.copyfileobj(source, file)
