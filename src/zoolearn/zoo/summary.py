"""A zoo as plain data, for pages and programs."""

from zoolearn.files import Json
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.learning.scores import Share, doubts
from zoolearn.zoo.zoo import Zoo


def describe_task(index: Index, entry: TaskEntry, majority: tuple[str, float] | None) -> dict[str, Json]:
    """A task: its classes, accuracy and history."""
    now = index.measures[entry.name]
    accuracy = Share.of(now.accuracy, entry.rows_held_out)
    most_frequent, rate = majority or (None, None)
    return {
        "name": entry.name,
        "episode": entry.episode,
        "classes": list(entry.classes),
        "rows_kept": entry.rows_kept,
        "rows_held_out": entry.rows_held_out,
        "members": [member.number for member in index.voters(entry.name)],
        "accuracy": now.accuracy,
        "low": accuracy.low,
        "high": accuracy.high,
        "balanced_accuracy": now.balanced,
        "majority": rate,
        "most_frequent": most_frequent,
        "confidence": now.confidence,
        "temperature": now.temperature,
        "notes": doubts(accuracy, majority, now.confidence),
        "history": [
            {
                "episode": number,
                "accuracy": measure.accuracy,
                "balanced_accuracy": measure.balanced,
                "confidence": measure.confidence,
            }
            for number, measure in index.history[entry.name]
        ],
    }


def describe_member(index: Index, entry: MemberEntry) -> dict[str, Json]:
    """A member: what it was trained on and votes on."""
    return {
        "number": entry.number,
        "episode": entry.episode,
        "trained_on": list(entry.tasks),
        "fitted": list(entry.fitted),
        "votes_on": {name: index.weight(entry, name) for name in entry.share if index.counts(entry, name)},
        "bytes": entry.bytes,
        "loss": entry.loss,
        "seconds": entry.seconds,
    }


def describe_zoo(name: str, index: Index, tasks: list[dict[str, Json]]) -> dict[str, Json]:
    """The zoo without its tasks; `shape` is None until the first task is learned."""
    settings = index.settings
    shape = () if settings.takes_texts else settings.shape
    dtypes = {0: "text", 1: "float32", 3: "uint8"}  # by the dimensions of a row
    return {
        "zoo": name,
        "generation": index.generation,
        "episodes": len(index.episodes),
        "shape": None if shape is None else list(shape),
        "dtype": None if shape is None else dtypes[len(shape)],
        "features": settings.features["name"] if settings.features else None,
        "columns": list(settings.columns),
        "tasks": tasks,
    }


def snapshot(zoo: Zoo) -> dict[str, Json]:
    """Everything that a server shows of a zoo, by address."""
    index = zoo.index
    tasks = [describe_task(index, entry, zoo.majority(name)) for name, entry in index.tasks.items()]
    return {
        "/tasks": {**describe_zoo(zoo.path.resolve().name, index, tasks), "learns": False},
        "/members": {
            "generation": index.generation,
            "members": [describe_member(index, entry) for entry in index.members],
        },
        "/scores": {name: zoo.scores(name).to_json() for name in index.tasks},
    }
