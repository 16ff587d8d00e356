"""A zoo on disk. One small file, the head, says what the zoo is; replacing it is what makes a change happen.

zoo.json                       the head: settings, and how much of the journals counts
index/episodes-N.jsonl         a journal of the episodes: a line each, with its task, its member and its measures; and that of
                               the zoo before a change of features, which can be undone (likewise the next two)
index/contents-N.jsonl         the tasks and members of each episode, so that only needed ones are decoded
index/rows-N.jsonl             digests of the rows of each episode, to find copies without reading all tasks
index/log-N.jsonl              a journal of what was done, and when
members/DIGEST.safetensors     the nets, never rewritten
votes/DIGEST.safetensors       the votes of each member on the stored rows of its tasks
statistics/DIGEST.safetensors  counts, means and scatter of a task's features, where no rows of it are kept
data/DIGEST.bin                stored rows, raw, memory-mapped; what two tasks share is there once
extractors/DIGEST.onnx         the pre-trained net whose features are stored, where there is one
checkpoints/KEY/               a training under way
incoming/                      files that are being written, and `names`: files that may have to be deleted

New files are written first, under the sha256 of their content, then lines of the journals, then the head, then what is no
longer referenced is deleted. Killed in between, a program leaves the old zoo or the new one, and files that the next one
deletes: it finds them by `names`, without a look at all the others.
"""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from zoolearn.errors import StoreError
from zoolearn.files import flush, save_tensors
from zoolearn.locks import lock_folder
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.disk.arrivals import Dtype, Stored
from zoolearn.zoo.disk.entries import LogEntry
from zoolearn.zoo.disk.incoming import INCOMING, PLACES, Incoming, RowsWriter, is_file_of_a_zoo
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.index_files import HEAD, JOURNALS, IndexFiles
from zoolearn.zoo.disk.journal import NAME
from zoolearn.zoo.disk.plain_files import explain_errors
from zoolearn.zoo.disk.reserve import LEAST, Reserve
from zoolearn.zoo.disk.stored_files import StoredFiles

PATIENCE = 2.0  # seconds that a writer waits for the lock: a reader may hold it for a moment to tidy up
WRITE_AT_ONCE = 1 << 22  # bytes


class ZooFolder(StoredFiles):
    """The files of one zoo."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.index = IndexFiles(path, StoredFiles(path).content)  # not `self`: two that keep each other are let go late
        self.incoming = Incoming(path)
        self.reserve = Reserve(path)

    @property
    def exists(self) -> bool:
        """Whether there is a zoo here."""
        with explain_errors(self.path / HEAD):
            return (self.path / HEAD).is_file()

    def begin(self, index: Index, extractor: bytes | None = None) -> None:
        """Makes a new zoo, on the features of this extractor if one is given."""
        with self.begin_zoo():
            if extractor is not None:
                self.store_bytes("extractors", extractor)
            self.commit(index)

    @contextmanager
    def begin_zoo(self) -> Iterator[None]:
        """Locks a new folder while the files of a zoo are written; there is no zoo before `commit`."""
        self.check_used()
        with self._lock(PATIENCE):
            self.check_used()
            yield

    def check_used(self) -> None:
        """Raises if a folder holds anything but leftovers of a zoo that was never committed."""
        if self.exists:
            raise StoreError(f"{self.path} holds a zoo already; learn into it, or give another folder")
        with explain_errors(self.path):
            entries = sorted(self.path.iterdir()) if self.path.is_dir() else []
            strangers = [entry.name for entry in entries if not _is_left_over(entry)]
            is_file = self.path.exists() and not self.path.is_dir()
        if is_file:
            raise StoreError(f"{self.path} is a file; give a new or an empty folder")
        if strangers:
            raise StoreError(f"{self.path} holds {strangers[0]!r} but no zoo; give a new or an empty folder")

    def read(self) -> Index:
        """The present index; who does not hold the lock must `load` it before asking for episodes."""
        self._check_there()
        with explain_errors(self.path / HEAD):
            return self.index.read()

    def load(self, index: Index) -> Index:
        """An index with all its episodes at hand; the present one, if others have changed these since."""
        with explain_errors(self.path / HEAD):
            return self.index.load(index)

    def read_log(self) -> Sequence[LogEntry]:
        """The log of changes, oldest first."""
        self._check_there()
        with explain_errors(self.path / HEAD):
            return self.index.read_log()

    def _check_there(self) -> None:
        path = self.path / HEAD
        with explain_errors(path):
            found = path.exists() or path.is_symlink()
        if not found:
            if (self.path / "run.json").exists():
                raise StoreError(
                    f"{self.path} is the folder of a run, not a zoo; load it with `zoolearn.load`, "
                    f"or make a zoo of it with `zoo new FOLDER --adopt {self.path}`"
                )
            raise StoreError(f"{self.path} holds no zoo ({HEAD} is missing); make one with `zoo new {self.path}`")

    @contextmanager
    def begin_change(self, patience: float = PATIENCE) -> Iterator[Index]:
        """Locks the folder for a change and removes what an interrupted program left; yields the index."""
        self.read()
        for name in (".lock", "checkpoints", JOURNALS, INCOMING, *PLACES):
            if (self.path / name).is_symlink():
                raise StoreError(f"{self.path / name} is a link; a zoo has none, remove it")
        with self._lock(patience):
            index = self.read()
            self.sweep(index)
            yield index

    @contextmanager
    def begin_removal(self) -> Iterator[Index]:
        """`begin_change` for a change that deletes more than it writes, which is possible on a full disk."""
        with self.reserve.release(), self.begin_change() as index:
            yield index

    @contextmanager
    def begin_undo(self) -> Iterator[Index]:
        """`begin_removal` for an undo, which writes little, unless earlier episodes have to be written again."""
        with self.reserve.release(LEAST), self.begin_change() as index:
            if any(episode.remade for episode in index.records.undone):
                self.reserve.free()
            yield index

    @contextmanager
    def _lock(self, patience: float) -> Iterator[None]:
        until = time.monotonic() + patience
        while True:
            lock = lock_folder(self.path)
            try:
                lock.__enter__()
                break
            except StoreError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)
            except OSError as error:
                raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    def commit(self, index: Index) -> None:
        """Commits an index, then deletes files that it no longer names."""
        self.incoming.note(self.index.find_dropped(index), safely=True)
        for folder in PLACES:
            if (self.path / folder).is_dir():
                flush(self.path / folder)
        self.sweep(self.index.write(index))
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        self.reserve.keep(self.index.bytes)

    def tidy(self) -> None:
        """Deletes leftovers of an interrupted program, if no other program is writing."""
        if not self.incoming.folder.exists() or not os.access(self.path, os.W_OK):
            return
        try:
            with self.begin_change(patience=0):
                pass
        except StoreError:
            return  # another program is writing, and will clean up

    def sweep(self, index: Index) -> None:
        """Deletes leftovers of an interrupted program, and files that the index no longer names."""
        self.index.sweep()
        for part in self.path.glob(f".{HEAD}.*.part"):
            part.unlink(missing_ok=True)
        if self.incoming.folder.is_dir():
            self.incoming.sweep(index.names_file)

    def checkpoints(self, key: str) -> Path:
        """The folder for the checkpoints of the training with this key; those of others are deleted."""
        folder = self.path / "checkpoints"
        if folder.is_dir():
            for other in folder.iterdir():
                if other.name != key:
                    shutil.rmtree(other, ignore_errors=True)
        return folder / key

    def store_tensors(self, place: str, tensors: dict[str, Tensor]) -> tuple[str, int]:
        """Writes named tensors; gives the digest of the file and its size."""
        with self.incoming.open_part(place) as part:
            digest = save_tensors(part, tensors)
            size = part.stat().st_size
            self.incoming.accept(part, place, digest)
        return digest, size

    def store_copy(self, other: "ZooFolder", place: str, digest: str) -> None:
        """Copies a file of another zoo."""
        source = other.file(place, digest)
        with explain_errors(source):
            file = source.open("rb")
        with file, self.incoming.open_file(place) as copy:
            shutil.copyfileobj(file, copy, WRITE_AT_ONCE)
        if copy.digest.hexdigest() != digest:
            raise StoreError(f"{source} was altered: its checksum differs; restore it from a copy")

    def store_bytes(self, place: str, content: bytes) -> None:
        """Writes the bytes of a file."""
        with self.incoming.open_file(place) as file:
            file.write(content)

    @contextmanager
    def open_rows(self, dtype: Dtype, shape: Shape) -> Iterator[RowsWriter]:
        """A writer of rows of this shape, block by block, into one raw tensor."""
        with self.incoming.open_file("data") as file:
            yield RowsWriter(file, dtype, shape)

    def store_blocks(self, blocks: Iterable[NDArray[Any]], dtype: Dtype, shape: Shape) -> Stored:
        """Writes rows of this shape as one raw tensor."""
        with self.open_rows(dtype, shape) as writer:
            for block in blocks:
                writer.add(block)
        return writer.stored

    def store_tensor(self, tensor: Tensor) -> Stored:
        """Writes one tensor raw, a few megabytes at a time."""
        dtype: Any = str(tensor.dtype).removeprefix("torch.")
        at_once = max(1, WRITE_AT_ONCE // max(1, tensor[:1].numel() * tensor.element_size()))
        blocks = (block.numpy() for block in torch.split(tensor.detach().cpu(), at_once))
        return self.store_blocks(blocks, dtype, tuple(tensor.shape[1:]))


def _is_left_over(entry: Path) -> bool:
    """Whether an entry of a folder without a zoo is hidden, or holds only files named as a zoo's are."""
    if entry.name.startswith("."):
        return True
    if entry.name not in (*PLACES, JOURNALS, INCOMING) or entry.is_symlink() or not entry.is_dir():
        return False
    return all(
        name.endswith(".part") or name == "names" or NAME.fullmatch(name) or is_file_of_a_zoo(f"{entry.name}/{name}")
        for name in (path.name for path in entry.iterdir())
    )
