"""Checks of an index before it is used or written: its parts are consistent, and its texts are printable."""

from math import prod

from zoolearn.errors import StoreError
from zoolearn.words import is_printable
from zoolearn.zoo.disk.arrivals import Arrival, Fixes, Rows
from zoolearn.zoo.disk.entries import LogEntry, MemberEntry, Record
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.records import About, Records
from zoolearn.zoo.settings import ZooSettings

NEW = "the new index"  # where a problem is that is in no file yet
LARGEST_TENSOR = 1 << 46  # values; a limit for files of strangers, not of nature


def check_index(index: Index, where: str, known: int = 0) -> None:
    """Raises if the parts of an index are inconsistent, or its texts not printable.

    If the first `known` records have been checked, only the others are, and the tasks that they touch.
    """
    for entry in index.log.new if known else index.log:
        check_printable(entry, where)
    for place in range(known, len(index.records)):
        check_record(index.records, index.settings, index.records[place], place, where)
    abouts = [index.records.about(place) for place in range(known, len(index.records))]
    for name in {name for about in abouts for name in (about.task, *about.losses, *about.others) if name is not None}:
        problem = _wrong_task(index, name)
        if problem is not None:
            raise _refusal(where, f"{problem} ({name!r})")
    numbers = [number for about in abouts for number in about.members]
    if sorted({*numbers}) != numbers or (
        known and numbers and numbers[0] <= max(index.records.members[: -len(numbers)], default=0)
    ):
        raise _refusal(where, "members are not in order")


def _wrong_task(index: Index, name: str) -> str | None:
    if (problem := index.tasks[name].problem) is not None:
        return problem
    if not index.is_answered(name, index.voters(name)):
        return "a task has no member that knows all its classes to answer for it"
    return None if index.measures.get(name) is not None else "a task was never measured"


def check_record(records: Records, settings: ZooSettings, record: Record, place: int, where: str) -> None:
    """Raises if a record is inconsistent with the others."""
    problem = _wrong_episode(records, record, place)
    if problem is None and record.arrival is not None:
        problem = _wrong_arrival(record.arrival, settings)
    for member in record.members:
        problem = problem or _wrong_member(member, records, place)
    if problem is not None:
        raise _refusal(where, f"episode {place + 1}: {problem}")


def _wrong_episode(records: Records, record: Record, place: int) -> str | None:
    episode, arrival = record.episode, record.arrival
    if episode is None or episode.number != place + 1:
        return "episodes are not numbered from 1"
    if (episode.task, place + 1) != (
        None if arrival is None else arrival.task,
        arrival.episode if arrival else place + 1,
    ):
        return "a task is not that of its episode"
    if not all(records.first(name) < len(records) for name in (*episode.tasks, *episode.measures, *episode.since)):
        return "an episode has a task that is not there"
    if About.of(record) != records.about(place):
        return "it is not what the table of contents says"
    return None if episode.when.isprintable() else "a text is not printable"


def _wrong_arrival(arrival: Arrival, settings: ZooSettings) -> str | None:
    if not is_printable("".join((arrival.task, *arrival.classes, *arrival.augment))):
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


def _wrong_member(member: MemberEntry, records: Records, place: int) -> str | None:
    heads = {*member.heads}
    missing = "a member knows a task that is not there"
    if len(heads) != len(member.tasks) + len(member.fitted) or not member.share.keys() <= heads:
        return missing
    if member.episode != place + 1:
        return "a member is of another episode"
    if not all(records.first(name) <= place for name in (*heads, *member.saw)):
        return missing
    if not (member.share.keys() >= {*member.silent} and heads >= {*member.newest}):
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


def check_printable(entry: LogEntry, where: str) -> None:
    """Raises if a line of the log is not printable."""
    if not is_printable(f"{entry.when}{entry.did}{entry.task or ''}{entry.detail}"):
        raise _refusal(where, "the log is not printable")


def _refusal(where: str, problem: str) -> StoreError:
    way = "nothing was changed; please report this" if where == NEW else "the file was altered, restore it from a copy"
    return StoreError(f"{where}: {problem}; {way}")


def _is_hex(text: str) -> bool:
    try:
        return 2 * len(bytes.fromhex(text)) == len(text)  # it skips spaces
    except ValueError:
        return False
