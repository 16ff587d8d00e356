"""Moves a zoo to the features of another extractor: reads its pictures again and makes all heads again.

The zoo before stays in the folder, for undo, until the next change.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from zoolearn.errors import SettingsError
from zoolearn.features import Extractor, embed_inputs
from zoolearn.training.fit import run_to_end
from zoolearn.training.step import Step
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Rows, Side, TaskEntry
from zoolearn.zoo.disk.entries import Measure
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_names
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.intake.leaks import digest_rows, store_digests
from zoolearn.zoo.intake.originals import check_at_hand, iter_read_again
from zoolearn.zoo.learning.episode import now
from zoolearn.zoo.learning.retraining import iter_retrain
from zoolearn.zoo.zoo import Zoo


@dataclass(frozen=True)
class Refeatured:
    """The measures of every task before and now."""

    before: Mapping[str, Measure]
    after: Mapping[str, Measure]


def iter_refeature(zoo: Zoo, given: Given) -> Generator[Step, None, Refeatured]:
    """Moves a zoo to other features; `undo` reverts it until the next change.

    The files must be where they were when they were learned from, unchanged.
    """
    extractor = given.extractor
    with zoo.folder.begin_change() as index:
        if index.settings.features is None or index.settings.features["size"] is None or extractor.size is None:
            raise SettingsError(
                "refeature makes features of pictures again; both must be of pictures, the zoo's and the new ones"
            )
        if extractor.sha256 == index.settings.features["sha256"]:
            raise SettingsError(f"{zoo.path} is on the features of {extractor.name!r} already; give another extractor")
        check_at_hand([name for rows in _iter_rows(index) for name in _read_names(zoo.folder, rows)])
        settings = given.settings(seed=index.settings.seed)
        if given.content is not None:
            zoo.folder.store_bytes("extractors", given.content)
        rest = yield from _iter_read_tasks(zoo.folder, replace(index, chosen=settings, settings=settings), extractor)
        since = {name: entry.episode for name, entry in rest.tasks.items()}
        learner = settings.learner(given.names)
        rest = run_to_end(
            iter_retrain(zoo.folder, rest, learner, given.names, is_touched=lambda member: True, since=since)
        )
        rest = rest.with_log("refeatured", now(), detail=f"from {index.settings.features['name']} to {extractor.name}")
        zoo.folder.commit(replace(rest, before=replace(index, before=None)))
    zoo.names = {**(zoo.names or {}), **given.names}
    zoo.refresh()
    return Refeatured(index.measures, rest.measures)


def _iter_rows(index: Index) -> Iterator[Rows]:
    return (rows for arrival in index.arrivals for side in SIDES if (rows := arrival.rows(side)))


def _read_names(folder: ZooFolder, rows: Rows) -> list[str]:
    return load_names(folder, rows) or ["rows that were no files"]


def _iter_read_tasks(folder: ZooFolder, index: Index, extractor: Extractor) -> Generator[Step, None, Index]:
    """The index with features of the other extractor; labels, names and corrections are kept."""
    done, total = 0, sum(rows.count for rows in _iter_rows(index))
    tasks = {}
    for task, entry in index.tasks.items():
        arrivals: list[Arrival] = []
        for arrival in entry.arrivals:
            parts: dict[Side, Rows | None] = {side: arrival.rows(side) for side in SIDES}
            for side, rows in parts.items():
                if rows is not None:
                    parts[side] = yield from _iter_read_rows(folder, rows, extractor, done, total)
                    done += rows.count
            arrivals.append(changed(arrival, train=parts["train"], test=parts["test"], asked=(), votes=None))
        tasks[task] = TaskEntry(task, tuple(arrivals))
    return index.with_entries(tasks=tasks)


def _iter_read_rows(
    folder: ZooFolder, rows: Rows, extractor: Extractor, done: int, total: int
) -> Generator[Step, None, Rows]:
    ids = None if rows.ids is None else folder.tensor(rows.ids).numpy()
    with folder.open_rows("int16", (extractor.num_features,)) as writer:
        for pictures in iter_read_again(_read_names(folder, rows), ids, extractor.size or 0):
            made = embed_inputs(extractor, pictures)
            writer.add(made)
            done += len(made)
            yield Step("reading again", done, total)
    digests = store_digests(folder, digest_rows(folder.tensor(writer.stored)))
    return changed(rows, x=writer.stored, digests=digests)
