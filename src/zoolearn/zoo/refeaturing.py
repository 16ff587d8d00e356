"""A zoo on the features of another extractor: its pictures are read again where they were, and all heads made again."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec.structs import replace as changed

from zoolearn.errors import DataError, SettingsError
from zoolearn.features import Extractor, embedded
from zoolearn.runs.step import Step
from zoolearn.zoo.arrivals import SIDES, Arrival, Rows, Side, TaskEntry
from zoolearn.zoo.entries import Measure
from zoolearn.zoo.extracting import Given, row_ids
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.forgetting_rows import heard_again, made_again
from zoolearn.zoo.index import Index
from zoolearn.zoo.inputs.source import Pictures
from zoolearn.zoo.learning import measure, now
from zoolearn.zoo.retraining import measured_again
from zoolearn.zoo.stored import stored_names
from zoolearn.zoo.zoo import Zoo

MOST_NAMED = 10


@dataclass(frozen=True)
class Refeatured:
    """The new zoo, and how every task was answered before and is now."""

    zoo: Zoo
    before: Mapping[str, Measure]
    after: Mapping[str, Measure]


def refeatured(zoo: Zoo, to: Path | str, given: Given) -> Generator[Step, None, Refeatured]:
    """Writes the zoo on other features into a new or empty folder; `zoo` stays as it is, which is the way back.

    Its files must be where they were when they were learned from, and be the same.
    """
    index, target, extractor = zoo.index, ZooFolder(Path(to)), given.extractor
    target.check_used()
    if index.settings.features is None or index.settings.features["size"] is None or extractor.size is None:
        raise SettingsError(
            "refeature makes features of pictures again; both must be of pictures, the zoo's and the new ones"
        )
    if extractor.sha256 == index.settings.features["sha256"]:
        raise SettingsError(f"{zoo.path} is on the features of {extractor.name!r} already; give another extractor")
    _check_at_hand(zoo)
    settings = given.settings(seed=index.settings.seed)
    with target.beginning():
        if given.content is not None:
            target.store_bytes("extractors", given.content)
        rest = replace(index, chosen=settings, settings=settings)
        done, total = 0, sum(rows.count for _, rows in _all_rows(index))
        for task, entry in index.tasks.items():
            arrivals = []
            for arrival in entry.arrivals:
                again = yield from _read_again(zoo.folder, target, arrival, extractor, done, total)
                arrivals.append(again)
                done += sum(rows.count for side in SIDES if (rows := arrival.rows(side)))
            rest = rest.remade(tasks={**rest.tasks, task: TaskEntry(task, tuple(arrivals))})
        rest = _with_heads(target, rest, given)
        target.commit(rest.after("refeatured", now(), detail=f"from {index.settings.features['name']}"))
    made = Zoo(to, given.names)
    return Refeatured(made, index.measures, made.index.measures)


def _with_heads(folder: ZooFolder, rest: Index, given: Given) -> Index:
    members = tuple(made_again(folder, rest, member, member.tasks[0], given.names) for member in rest.members)
    rest = rest.remade(members=members)
    for task in rest.tasks:
        rest = heard_again(folder, rest, task, given.names)
    since = {name: entry.episode for name, entry in rest.tasks.items()}
    episodes = tuple(measured_again(folder, rest, episode, since) for episode in rest.episodes)
    rest = rest.remade(episodes=episodes)
    return rest.measured(measure(folder, rest, list(rest.tasks)))


def _all_rows(index: Index) -> Iterator[tuple[Arrival, Rows]]:
    for arrival in index.arrivals:
        for side in SIDES:
            rows = arrival.rows(side)
            if rows is not None:
                yield arrival, rows


def _check_at_hand(zoo: Zoo) -> None:
    """Refuses to begin where a file is gone."""
    missing = []
    for arrival, rows in _all_rows(zoo.index):
        names = stored_names(zoo.folder, rows) or [f"rows of task {arrival.task!r} that were no files"]
        missing += [name for name in names if not Path(name).is_file()]
    if missing:
        more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
        raise DataError(
            f"{len(missing):,} files are not where they were when they were learned from: {', '.join(missing[:MOST_NAMED])}"
            f"{more}; put them back (paths that are not whole begin at the current folder), or learn from others"
        )


def _read_again(
    source: ZooFolder, target: ZooFolder, arrival: Arrival, extractor: Extractor, done: int, total: int
) -> Generator[Step, None, Arrival]:
    """An arrival with features of the other extractor; labels, names and corrections are copied."""
    for part in arrival.stored:
        if part not in [rows.x for side in SIDES if (rows := arrival.rows(side))]:
            target.store_copy(source, "data", part.digest)
    parts: dict[Side, Rows | None] = {}
    for side in SIDES:
        rows = arrival.rows(side)
        parts[side] = None
        if rows is not None:
            parts[side] = yield from _rows_again(source, target, rows, extractor, done, total)
            done += rows.count
    return changed(arrival, train=parts["train"], test=parts["test"])


def _rows_again(
    source: ZooFolder, target: ZooFolder, rows: Rows, extractor: Extractor, done: int, total: int
) -> Generator[Step, None, Rows]:
    names = stored_names(source, rows) or []
    pictures = Pictures("the files of the zoo", names, None)
    ids = None if rows.ids is None else source.tensor(rows.ids).numpy()
    side = extractor.size or 0
    with target.receiving_rows("int16", (extractor.num_features,)) as writer:
        for block in pictures.blocks(range(len(names)), (3, side, side)):
            for broken in block.broken:
                raise DataError(f"{broken.name}: {broken.reason}; it could be read when it was learned from")
            found = row_ids(block.x, [Path(names[row]) for row in block.rows])
            if ids is not None and not np.array_equal(found, ids[block.rows]):
                other = next(
                    row for row, id_ in zip(block.rows, found, strict=True) if not np.array_equal(id_, ids[row])
                )
                raise DataError(f"{names[other]} is no longer the file that was learned from; put that one back")
            writer.add(embedded(extractor, block.x))
            done += len(block.rows)
            yield Step("reading again", done, total)
    return changed(rows, x=writer.stored)
