"""Renames a task: names are in the index alone, so no file of the zoo changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from msgspec.structs import replace as changed

from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.journal import Chain
from zoolearn.zoo.intake.naming import check_name
from zoolearn.zoo.learning.episode import now

Value = TypeVar("Value")


def rename_task(index: Index, task: str, to: str) -> Index:
    """The zoo with a task under another name, also in its log; the old name is gone."""
    index.task(task)
    check_name(to, index, instead_of=task)

    def name(old: str) -> str:
        return to if old == task else old

    def keys(old: Mapping[str, Value]) -> dict[str, Value]:
        return {name(key): value for key, value in old.items()}

    def names(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(name, old))

    rest = index.with_entries(
        tasks={name(key): _rename_entry(entry, name(key)) for key, entry in index.tasks.items()},
        members=tuple(
            changed(
                member,
                tasks=names(member.tasks),
                fitted=names(member.fitted),
                share=keys(member.share),
                silent=names(member.silent),
                newest=keys(member.newest),
                saw=names(member.saw),
            )
            for member in index.members
        ),
        episodes=tuple(
            changed(
                episode,
                task=None if episode.task is None else name(episode.task),
                tasks=names(episode.tasks),
                measures=keys(episode.measures),
                since=keys(episode.since),
            )
            for episode in index.episodes
        ),
    )
    log = [changed(line, task=None if line.task is None else name(line.task)) for line in index.log]
    return replace(rest, log=Chain(new=log)).with_log("renamed", now(), to)


def _rename_entry(entry: TaskEntry, to: str) -> TaskEntry:
    return TaskEntry(to, tuple(changed(arrival, task=to) for arrival in entry.arrivals))
