"""Verifies a zoo: compares every file with its checksum, then opens everything as it is used."""

from collections.abc import Callable, Generator
from functools import partial

from zoolearn.errors import DataError, StoreError
from zoolearn.files import checksum
from zoolearn.training.step import Step
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_examples, load_task
from zoolearn.zoo.learning.recall import NetOf, load_arrival_votes, load_votes
from zoolearn.zoo.learning.statistics import read_statistics


def iter_verify(folder: ZooFolder, index: Index, net_of: NetOf) -> Generator[Step, None, list[str]]:
    """Reads every file and loads every member; returns the problems found."""
    try:
        folder.index.check(index)
    except StoreError as error:
        return [str(error)]
    names = sorted(index.files())
    problems = []
    for done, name in enumerate(names, start=1):
        if wrong := _damage(folder, name):
            problems.append(f"{name} {wrong}")
        yield Step("verifying", done, len(names))
    return problems or _unusable(folder, index, net_of)


def _damage(folder: ZooFolder, name: str) -> str | None:
    """What is wrong with a file, read in full; None if nothing."""
    place, _, file = name.partition("/")
    digest = file.partition(".")[0]
    try:
        return None if checksum(folder.file(place, digest)) == digest else "was altered: its checksum differs"
    except (StoreError, OSError) as error:
        return str(error).removeprefix(f"{folder.path / name} ")


def _unusable(folder: ZooFolder, index: Index, net_of: NetOf) -> list[str]:
    """What cannot be opened although no file was altered."""
    problems = []
    entries = index.tasks.values()
    checks: list[Callable[[], object]] = [partial(net_of, member) for member in index.members]
    checks += [partial(load_votes, folder, index, member) for member in index.members]
    checks += [
        partial(load_arrival_votes, folder, index, arrival) for arrival in index.arrivals if arrival.votes is not None
    ]
    checks += [partial(load_task, folder, entry) for entry in entries if entry.keeps_rows]
    checks += [partial(load_examples, folder, entry, "test") for entry in entries]
    checks += [partial(read_statistics, folder, index, net_of, entry) for entry in entries if entry.statistics]
    for check in checks:
        try:
            check()
        except (StoreError, DataError) as error:
            problems.append(str(error))
    return problems
