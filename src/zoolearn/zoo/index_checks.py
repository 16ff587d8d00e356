"""What an index must be before it is used or written: its parts fit together, and its texts are safe to print."""

from collections.abc import Mapping, Sequence
from math import prod

from zoolearn.errors import StoreError
from zoolearn.zoo.arrivals import Arrival, Fixes, Rows, TaskEntry
from zoolearn.zoo.index import Index, LogEntry, MemberEntry, Record
from zoolearn.zoo.settings import ZooSettings

LARGEST_TENSOR = 1 << 46  # values; a limit for files of strangers, not of nature


def check_index(index: Index, where: str, known: int = 0) -> None:
    """Refuses an index whose parts do not fit together, or whose texts are not safe to print.

    What records say of themselves is not checked of the first ones, where so many are known to be right.
    """
    check_printable(index.log, where)
    for task in index.tasks.values():
        if (problem := _wrong_task(task)) is not None:
            raise StoreError(f"{where}: {problem}; the file was altered, restore it from a copy")
    for place, record in enumerate(index.records()[known:], start=known):
        _check_record(index, record, place + 1, where)
    numbers = [member.number for member in index.members]
    last_class = {name: task.last_class for name, task in index.tasks.items()}
    claims = {
        "members are not in order": sorted({*numbers}) == numbers,
        "a member is of an episode that is not there": all(
            member.episode <= len(index.episodes) for member in index.members
        ),
        "a task is not that of its episode": len(index.arrivals)
        == sum(episode.task is not None for episode in index.episodes)
        and max((task.latest for task in index.tasks.values()), default=0) <= len(index.episodes),
        "a task has no member that knows all its classes to answer for it": index.tasks.keys()
        <= {
            name
            for member in index.members
            for name, share in member.share.items()
            if share and name not in member.silent and member.episode >= last_class[name]
        },
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
        problem = problem or _wrong_member(member, index.tasks)
    if problem is not None:
        raise StoreError(f"{where}: episode {number}: {problem}; the file was altered, restore it from a copy")


def _wrong_episode(index: Index, record: Record, number: int) -> str | None:
    episode, arrival = record.episode, record.arrival
    if episode.number != number:
        return "episodes are not numbered from 1"
    if episode.task != (None if arrival is None else arrival.task):
        return "a task is not that of its episode"
    if not index.tasks.keys() >= {*episode.tasks, *episode.measures, *episode.since}:
        return "an episode has a task that is not there"
    return None if episode.when.isprintable() else "a text is not printable"


def _wrong_task(task: TaskEntry) -> str | None:
    """What is wrong with arrivals together."""
    if len({*task.classes}) != len(task.classes):
        return "a class is named twice"
    if len(task.arrivals[0].classes) < 2 or task.arrivals[0].test is None:
        return "a task begins without classes or rows held out"
    if any(arrival.train is None and arrival.counts for arrival in task.arrivals if arrival.test) and task.keeps_rows:
        return "a task keeps rows of some episodes only"
    if task.rows_held_out < 1 or (task.keeps_rows and task.rows_kept < 1) or min(task.arrived.values()) < 0:
        return "a task has no rows"
    known: set[str] = set()
    for arrival in task.arrivals:
        known |= {*arrival.classes}
        if not known >= arrival.counts.keys():
            return "rows of a class arrived that is not there"
    return None


def _wrong_arrival(arrival: Arrival, settings: ZooSettings) -> str | None:
    if not "".join((arrival.task, *arrival.classes, *arrival.augment)).isprintable():
        return "a text is not printable"
    if not all(_fit(rows, settings) for rows in (arrival.train, arrival.test) if rows):
        return "a task does not hold inputs of the zoo's shape and one label for each"
    if not all(_are_pairs(fixes) for fixes in (arrival.fix_train, arrival.fix_test) if fixes):
        return "corrections are not pairs of a row and its label"
    if bool(arrival.asked) != (arrival.votes is not None) or len({*arrival.asked}) != len(arrival.asked):
        return "votes of earlier members are not those of who was asked"
    return (
        None
        if _is_hex(
            "".join([part.digest for part in arrival.stored]) + (arrival.votes or "") + (arrival.statistics or "")
        )
        else "a file is not named by a sha256"
    )


def _wrong_member(member: MemberEntry, tasks: Mapping[str, TaskEntry]) -> str | None:
    heads = {*member.heads}
    missing = "a member knows a task that is not there"
    if len(heads) != len(member.tasks) + len(member.fitted) or not member.share.keys() <= heads:
        return missing
    if not all(name in tasks and tasks[name].episode <= member.episode for name in (*heads, *member.saw)):
        return missing
    if not (member.share.keys() >= {*member.silent} and heads >= {*member.supersedes}):
        return missing
    return None if _is_hex(member.file + member.votes) else "a file is not named by a sha256"


def _fit(rows: Rows, settings: ZooSettings) -> bool:
    (count, *inputs), labels = rows.x.shape, rows.y.shape
    found = (tuple(inputs), labels, rows.x.dtype, rows.y.dtype)
    wanted = (settings.stored_shape, (count,), settings.stored_dtype, "int64")
    named = rows.names is None or (len(rows.names.shape) == 1 and rows.names.dtype == "uint8")
    known = rows.ids is None or (rows.ids.shape, rows.ids.dtype) == ((count, 32), "uint8")
    alike = (rows.digests.shape, rows.digests.dtype) == ((count,), "int64")
    return found == wanted and named and known and alike and count <= LARGEST_TENSOR // prod(inputs)


def _are_pairs(fixes: Fixes) -> bool:
    rows, *width = fixes.pairs.shape
    return width == [2] and fixes.pairs.dtype == "int64" and fixes.deleted <= rows <= LARGEST_TENSOR


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
