"""What an index must be before it is used or written: its parts fit together, and its texts are safe to print."""

from collections.abc import Sequence, Set
from math import prod

from zoolearn.errors import StoreError
from zoolearn.zoo.index import Index, LogEntry, MemberEntry, Record, Rows, TaskEntry
from zoolearn.zoo.settings import ZooSettings

LARGEST_TENSOR = 1 << 46  # values; a limit for files of strangers, not of nature


def check_index(index: Index, where: str, known: int = 0) -> None:
    """Refuses an index whose parts do not fit together, or whose texts are not safe to print.

    What records say of themselves is not checked of the first ones, where so many are known to be right.
    """
    check_printable(index.log, where)
    for place, record in enumerate(index.records()[known:], start=known):
        _check_record(index, record, place + 1, where)
    numbers = [member.number for member in index.members]
    claims = {
        "members are not in order": sorted({*numbers}) == numbers,
        "a member is of an episode that is not there": all(
            member.episode <= len(index.episodes) for member in index.members
        ),
        "a task is not that of its episode": len(index.tasks)
        == sum(episode.task is not None for episode in index.episodes)
        and max((task.episode for task in index.tasks.values()), default=0) <= len(index.episodes),
        "a task has no member to answer for it": index.tasks.keys()
        <= {name for m in index.members for name, share in m.share.items() if share and name not in m.silent},
        "a task was never measured": index.measures.keys() == index.tasks.keys(),
    }
    for problem, holds in claims.items():
        if not holds:
            raise StoreError(f"{where}: {problem}; the file was altered, restore it from a copy")


def _check_record(index: Index, record: Record, number: int, where: str) -> None:
    """Refuses one that does not fit to those before it."""
    problem = _wrong_episode(index, record, number)
    if problem is None and record.arrival is not None:
        problem = _wrong_arrival(record.arrival, index.settings)
    for member in record.members:
        problem = problem or _wrong_member(member, index.tasks.keys())
    if problem is not None:
        raise StoreError(f"{where}: episode {number}: {problem}; the file was altered, restore it from a copy")


def _wrong_episode(index: Index, record: Record, number: int) -> str | None:
    episode, arrival = record.episode, record.arrival
    if episode.number != number:
        return "episodes are not numbered from 1"
    if episode.task != (None if arrival is None else arrival.name):
        return "a task is not that of its episode"
    if not index.tasks.keys() >= {*episode.tasks, *episode.measures, *episode.since}:
        return "an episode has a task that is not there"
    return None if episode.when.isprintable() else "a text is not printable"


def _wrong_arrival(task: TaskEntry, settings: ZooSettings) -> str | None:
    if not "".join((task.name, *task.classes, *task.augment)).isprintable():
        return "a text is not printable"
    if len({*task.classes}) != len(task.classes):
        return "a class is named twice"
    if not _fit(task.test, settings) or not (task.train is None or _fit(task.train, settings)):
        return "a task does not hold inputs of the zoo's shape and one label for each"
    return None if _is_hex("".join([part.digest for part in task.stored])) else "a file is not named by a sha256"


def _wrong_member(member: MemberEntry, known: Set[str]) -> str | None:
    heads = {*member.heads}
    if len(heads) != len(member.tasks) + len(member.fitted) or not heads <= known or not member.share.keys() <= heads:
        return "a member knows a task that is not there"
    if not (member.share.keys() >= {*member.silent} and heads >= {*member.supersedes}):
        return "a member knows a task that is not there"
    return None if _is_hex(member.file + member.votes) else "a file is not named by a sha256"


def _fit(rows: Rows, settings: ZooSettings) -> bool:
    (count, *inputs), labels = rows.x.shape, rows.y.shape
    found = (tuple(inputs), labels, rows.x.dtype, rows.y.dtype)
    wanted = (settings.stored_shape, (count,), settings.stored_dtype, "int64")
    named = rows.ids is None or (rows.ids.shape, rows.ids.dtype) == ((count, 32), "uint8")
    return found == wanted and named and count <= LARGEST_TENSOR // prod(inputs)


def check_printable(log: Sequence[LogEntry], where: str) -> None:
    """Refuses a log with texts that are not safe to print."""
    texts = [f"{entry.when}{entry.did}{entry.task or ''}{entry.detail}" for entry in log]
    if not "".join(texts).isprintable():
        raise StoreError(f"{where}: the log is not printable; the file was altered, restore it from a copy")


def _is_hex(text: str) -> bool:
    try:
        return 2 * len(bytes.fromhex(text)) == len(text)  # it skips spaces
    except ValueError:
        return False
