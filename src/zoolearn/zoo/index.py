"""What a zoo folder's index says: settings, tasks, members, episodes and a log, as plain values that were checked.

Every file is named by the sha256 of its content, so an index can name no file outside of its folder, and what it names
can be verified. Nothing in it refers to anything that refers back: members name tasks, tasks and members name files.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Literal, Self

from zoolearn.errors import StoreError, UnknownTask, unknown_name
from zoolearn.files import Json
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.reader import Reader
from zoolearn.zoo.settings import ZooSettings

FORMAT = 2
MOST = 1_000_000
SIZES = {"uint8": 1, "float32": 4, "int64": 8}

Dtype = Literal["uint8", "float32", "int64"]


@dataclass(frozen=True)
class Stored:
    """A tensor in the folder: its file is named by the digest of its bytes."""

    digest: str
    dtype: Dtype
    shape: Shape

    @property
    def bytes(self) -> int:
        """The exact size of its file."""
        return prod(self.shape) * SIZES[self.dtype]

    @classmethod
    def read(cls, record: Reader) -> Self:
        """Checked."""
        dtype = record["dtype"].name()
        if dtype not in SIZES:
            raise StoreError(f"{record.place}.dtype: {unknown_name('dtype', dtype, SIZES)}")
        shape = tuple(extent.whole(1, 1 << 40) for extent in record["shape"].items(4))
        if prod(shape) > 1 << 46:
            raise StoreError(f"{record.place}.shape is {shape}, larger than any tensor that zoolearn writes")
        return cls(record["digest"].digest(), dtype, shape)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Rows:
    """Examples in the folder: inputs and labels."""

    x: Stored
    y: Stored

    @property
    def count(self) -> int:
        """How many examples."""
        return self.x.shape[0]

    @classmethod
    def read(cls, record: Reader, shape: Shape | None) -> Self:
        """Checked: as many labels as inputs, inputs of the zoo's shape."""
        x, y = Stored.read(record["x"]), Stored.read(record["y"])
        wanted = "uint8" if len(x.shape) == 4 else "float32"
        if x.shape[1:] != shape or x.dtype != wanted or y.dtype != "int64" or y.shape != x.shape[:1]:
            raise StoreError(f"{record.place} does not hold inputs of shape {shape} and one label for each")
        return cls(x, y)


@dataclass(frozen=True)
class TaskEntry:
    """A task that was learned: its classes, and where its kept training rows and its held-out rows lie."""

    name: str
    episode: int
    classes: tuple[str, ...]
    augment: tuple[str, ...]
    train: Rows | None
    test: Rows

    @property
    def stored(self) -> list[Stored]:
        """All its tensors."""
        return [part for rows in (self.train, self.test) if rows for part in (rows.x, rows.y)]

    @classmethod
    def read(cls, record: Reader, shape: Shape | None) -> Self:
        """Checked."""
        return cls(
            record["name"].name(),
            record["episode"].whole(1, MOST),
            tuple(entry.name() for entry in record["classes"].items(10_000)),
            tuple(entry.name() for entry in record["augment"].items(2)),
            None if record["train"].is_null else Rows.read(record["train"], shape),
            Rows.read(record["test"], shape),
        )


@dataclass(frozen=True)
class MemberEntry:
    """A member: the episode it came in, the tasks it was trained on (in order), its file and the file of its votes.

    `fitted` are the tasks that it was not trained on and has a head for nevertheless, fitted to its finished features.
    `share` is the weight of its vote for each task that it speaks for; tasks in `silent` are pruned, not yet for good.
    """

    number: int
    episode: int
    tasks: tuple[str, ...]
    seed: int
    share: Mapping[str, float]
    silent: tuple[str, ...]
    file: str
    votes: str
    bytes: int
    loss: float
    seconds: float
    fitted: tuple[str, ...] = ()
    epochs: int | None = None  # that were asked for; None: as many as its rows needed

    @property
    def heads(self) -> tuple[str, ...]:
        """All tasks that it has a head for, in the order of the heads."""
        return (*self.tasks, *self.fitted)

    def votes_on(self, task: str) -> bool:
        """Whether its vote for this task counts now."""
        return task in self.share and task not in self.silent

    @classmethod
    def read(cls, record: Reader) -> Self:
        """Checked."""
        return cls(
            record["number"].whole(1, MOST),
            record["episode"].whole(1, MOST),
            tuple(entry.name() for entry in record["tasks"].items()),
            record["seed"].whole(0, 1 << 63),
            {name: share.number(0, 1) for name, share in record["share"].entries()},
            tuple(entry.name() for entry in record["silent"].items()),
            record["file"].digest(),
            record["votes"].digest(),
            record["bytes"].whole(0, 1 << 46),
            record["loss"].number(),
            record["seconds"].number(0),
            tuple(entry.name() for entry in record["fitted"].items()),
            None if record["epochs"].is_null else record["epochs"].whole(1, 1 << 31),
        )


@dataclass(frozen=True)
class Measure:
    """How well a task is answered on its held-out rows: accuracy, and the mean probability of the class that is named."""

    accuracy: float
    confidence: float


def _measures(record: Reader) -> dict[str, Measure]:
    return {
        name: Measure(entry["accuracy"].number(0, 1), entry["confidence"].number(0, 1))
        for name, entry in record.entries()
    }


@dataclass(frozen=True)
class EpisodeEntry:
    """What an episode did; its task is None once it was forgotten. `measures` holds the tasks whose answers it changed."""

    number: int
    task: str | None
    tasks: tuple[str, ...]
    weights: Mapping[str, float]
    when: str
    measures: Mapping[str, Measure]

    @classmethod
    def read(cls, record: Reader) -> Self:
        """Checked."""
        return cls(
            record["number"].whole(1, MOST),
            None if record["task"].is_null else record["task"].name(),
            tuple(entry.name() for entry in record["tasks"].items()),
            {name: weight.number(0) for name, weight in record["weights"].entries()},
            record["when"].name(),
            _measures(record["measures"]),
        )


@dataclass(frozen=True)
class LogEntry:
    """What was done, when, to which task."""

    when: str
    did: str
    task: str | None
    detail: str

    @classmethod
    def read(cls, record: Reader) -> Self:
        """Checked."""
        task = None if record["task"].is_null else record["task"].name()
        return cls(record["when"].name(), record["did"].name(), task, record["detail"].text())


@dataclass(frozen=True)
class Index:
    """A whole zoo at one moment; `generation` grows by one with every change.

    `chosen` are the settings as they were given; the first task settles what they leave open.
    """

    chosen: ZooSettings
    settings: ZooSettings
    generation: int = 0
    tasks: Mapping[str, TaskEntry] = field(default_factory=dict)
    members: tuple[MemberEntry, ...] = ()
    episodes: tuple[EpisodeEntry, ...] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)  # how every task is answered now
    log: tuple[LogEntry, ...] = ()

    def task(self, name: str) -> TaskEntry:
        """A task by its name."""
        if name not in self.tasks:
            raise UnknownTask(unknown_name("task", name, self.tasks))
        return self.tasks[name]

    def voters(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """The members that answer for a task, now or as of an episode (when nothing had been pruned since)."""
        entry = self.task(task)
        if at is None:
            return [member for member in self.members if member.votes_on(task)]
        if not entry.episode <= at <= len(self.episodes):
            raise UnknownTask(
                f"task {task!r} was learned in episode {entry.episode}; it can be asked as of {entry.episode} to "
                f"{len(self.episodes)}, not {at}"
            )
        return [member for member in self.members if task in member.share and member.episode <= at]

    def answering(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """`voters`, refused where nobody is left: members of past episodes go when a zoo is pruned for good or distilled."""
        voters = self.voters(task, at)
        if not any(member.share[task] for member in voters):
            first = min(member.episode for member in self.voters(task))
            raise UnknownTask(
                f"nobody who answered for task {task!r} as of episode {at} is left; ask as of {first} or later, or as of now"
            )
        return voters

    def heads(self, member: MemberEntry) -> dict[str, int]:
        """The number of classes of each task that a member has a head for."""
        return {name: len(self.tasks[name].classes) for name in member.heads}

    def shaped_by(self, member: MemberEntry, task: str) -> bool:
        """Whether a member would be another without this task: it was trained on it, or grew out of members that knew it."""
        return task in member.tasks or (self.settings.descends and member.episode >= self.tasks[task].episode)

    def files(self) -> set[str]:
        """The names, relative to the folder, of all files that belong to the zoo."""
        data = {f"data/{part.digest}.bin" for task in self.tasks.values() for part in task.stored}
        members = {f"members/{member.file}.safetensors" for member in self.members}
        return data | members | {f"votes/{member.votes}.safetensors" for member in self.members}

    def after(self, did: str, when: str, task: str | None = None, detail: str = "") -> "Index":
        """The next generation, with one more line in the log."""
        return replace(self, generation=self.generation + 1, log=(*self.log, LogEntry(when, did, task, detail)))

    def to_json(self) -> dict[str, Json]:
        """All of it as JSON holds it."""
        return {
            "format": FORMAT,
            "generation": self.generation,
            "chosen": asdict(self.chosen),
            "settings": asdict(self.settings),
            "tasks": [asdict(task) for task in self.tasks.values()],
            "members": [asdict(member) for member in self.members],
            "episodes": [asdict(episode) for episode in self.episodes],
            "measures": {name: asdict(measure) for name, measure in self.measures.items()},
            "log": [asdict(entry) for entry in self.log],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Json], file: str) -> "Index":
        """What `to_json` gave, every value and reference checked."""
        record = Reader(dict(content), file)
        if record["format"].value != FORMAT:
            raise StoreError(
                f"{file} has format {record['format'].value!r}, this zoolearn reads format {FORMAT}; use the version that wrote it"
            )
        settings = ZooSettings.read(record["settings"])
        tasks = [TaskEntry.read(entry, settings.shape) for entry in record["tasks"].items(MOST)]
        index = cls(
            ZooSettings.read(record["chosen"]),
            settings,
            record["generation"].whole(0, 1 << 53),
            {task.name: task for task in tasks},
            tuple(MemberEntry.read(entry) for entry in record["members"].items(MOST)),
            tuple(EpisodeEntry.read(entry) for entry in record["episodes"].items(MOST)),
            _measures(record["measures"]),
            tuple(LogEntry.read(entry) for entry in record["log"].items(MOST)),
        )
        _check_references(index, len(tasks), file)
        return index


def _check_references(index: Index, tasks: int, file: str) -> None:
    claims = {
        "two tasks have one name": tasks == len(index.tasks),
        "episodes are not numbered from 1": [episode.number for episode in index.episodes]
        == list(range(1, len(index.episodes) + 1)),
        "members are not in order": sorted({member.number for member in index.members})
        == [member.number for member in index.members],
        "a task is not that of its episode": all(
            task.episode <= len(index.episodes) and index.episodes[task.episode - 1].task == name
            for name, task in index.tasks.items()
        ),
        "an episode has a task that is not there": all(
            name in index.tasks
            for episode in index.episodes
            for name in [*episode.tasks, *episode.measures, *([episode.task] if episode.task else [])]
        ),
        "a member is of an episode that is not there": all(
            member.episode <= len(index.episodes) for member in index.members
        ),
        "a member knows a task that is not there": all(
            member.tasks
            and len(set(member.heads)) == len(member.heads)
            and set(member.heads) <= index.tasks.keys()
            and set(member.share) <= set(member.heads)
            and set(member.silent) <= member.share.keys()
            for member in index.members
        ),
        "a task has nobody to answer for it": all(
            sum(member.share[name] for member in index.members if member.votes_on(name)) > 0 for name in index.tasks
        ),
        "a task was never measured": index.measures.keys() == index.tasks.keys(),
        "a class is named twice": all(len(set(task.classes)) == len(task.classes) for task in index.tasks.values()),
        "a task has fewer than two classes": all(len(task.classes) > 1 for task in index.tasks.values()),
        "there are tasks but no input shape": not index.tasks or index.settings.shape is not None,
    }
    for problem, holds in claims.items():
        if not holds:
            raise StoreError(f"{file}: {problem}; the file was altered, restore it from a copy")
