"""What a zoo folder's index says: settings, tasks, members, episodes and a log, as plain values that were checked.

On the disk an episode is one record: what arrived in it, the members that came of it, and how tasks are answered since.
Every file is named by the sha256 of its content, so an index can name no file outside of its folder, and what it names
can be verified. Nothing in it refers to anything that refers back: members name tasks, tasks and members name files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace as changed

from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.zoo.arrivals import Arrival, Count, Name, Number, TaskEntry
from zoolearn.zoo.journal import Digest
from zoolearn.zoo.settings import ZooSettings

LONGEST_TEXT = 10_000
Share = Annotated[float, Meta(ge=0, le=1)]


class MemberEntry(Struct, frozen=True, gc=False):
    """A member: the episode it came in, the tasks it was trained on (in order), its file and the file of its votes.

    `fitted` are the tasks that it was not trained on and has a head for nevertheless, fitted to its finished features.
    Where it `refits` an earlier member, it is a head on that one's features, which `saw` further tasks.
    It knows the classes that its tasks had in its episode. `share` is the weight that its vote for each task that it speaks
    for had then; tasks in `silent` are pruned, not yet permanently.
    For tasks in `supersedes` the votes of earlier members no longer count. `layers`: its heads read layers inside, too.
    """

    number: Number
    episode: Number
    tasks: Annotated[tuple[Name, ...], Meta(min_length=1)]
    seed: Count
    share: Mapping[Name, Share]
    silent: tuple[Name, ...]
    file: Digest
    votes: Digest
    bytes: Count
    loss: float
    seconds: Annotated[float, Meta(ge=0)]
    fitted: tuple[Name, ...] = ()
    supersedes: tuple[Name, ...] = ()
    layers: bool = False
    refits: Number | None = None
    saw: tuple[Name, ...] = ()
    epochs: Number | None = None  # that were asked for; None: as many as its rows needed
    rows_trained: Count | None = None  # that it was shown in training, since that was last continued; None: not known

    @property
    def heads(self) -> tuple[str, ...]:
        """All tasks that it has a head for, in the order of the heads."""
        return (*self.tasks, *self.fitted)

    def votes_on(self, task: str) -> bool:
        """Whether its vote for this task counts now."""
        return task in self.share and task not in self.silent


class Measure(Struct, frozen=True, gc=False):
    """How well a task is answered on its held-out rows: accuracy, and the mean probability of the class that is named.

    `balanced` is the mean of the classes' accuracies, so that a rare one counts as much as a frequent one.
    `loss` is the zoo's on the task's kept rows, by which it is weighed for the next episode; None where nothing is kept.
    `temperature` is fitted to the same rows, and is that of every answer given.
    """

    accuracy: Share
    balanced: Share
    confidence: Share
    loss: float | None = None
    temperature: Annotated[float, Meta(gt=0, le=100)] = 1.0


class EpisodeEntry(Struct, frozen=True, gc=False):
    """What an episode did; its task is None once it was forgotten.

    `measures` holds the tasks whose answers it changed; `since`, what pruning has made of answers before the next one.
    """

    number: Number
    task: Name | None
    tasks: tuple[Name, ...]
    when: Name
    measures: Mapping[Name, Measure]
    since: Mapping[Name, Measure] = {}


class Record(Struct, frozen=True, gc=False):
    """One episode on the disk: what it did, what arrived in it (None once forgotten), and its members that are left."""

    episode: EpisodeEntry
    arrival: Arrival | None
    members: tuple[MemberEntry, ...]

    @property
    def files(self) -> set[str]:
        """The names, relative to the folder, of the files that belong to it."""
        data = self.arrival.files if self.arrival else set()
        members = {f"members/{member.file}.safetensors" for member in self.members}
        return data | members | {f"votes/{member.votes}.safetensors" for member in self.members}


class LogEntry(Struct, frozen=True, gc=False):
    """What was done, when, to which task."""

    when: Name
    did: Name
    task: Name | None
    detail: Annotated[str, Meta(max_length=LONGEST_TEXT)]


@dataclass(frozen=True)
class Index:
    """A whole zoo at one moment; `generation` grows by one with every change.

    `chosen` are the settings as they were given; the first task settles what they leave open. `before` is the zoo that undo
    gives back where its last change made all of it anew; the next change lets it go.
    """

    chosen: ZooSettings
    settings: ZooSettings
    generation: int = 0
    tasks: Mapping[str, TaskEntry] = field(default_factory=dict)
    members: tuple[MemberEntry, ...] = ()
    episodes: tuple[EpisodeEntry, ...] = ()
    log: tuple[LogEntry, ...] = ()
    before: "Index | None" = None

    @cached_property
    def measures(self) -> Mapping[str, Measure]:
        """How every task is answered now: by the last episode that changed it, and what was pruned since."""
        measures: dict[str, Measure] = {}
        for episode in self.episodes:
            measures |= episode.measures
            measures |= episode.since
        return measures

    @cached_property
    def history(self) -> Mapping[str, list[tuple[int, Measure]]]:
        """How each task was answered after every episode that changed it."""
        history: dict[str, list[tuple[int, Measure]]] = {name: [] for name in self.tasks}
        for episode in self.episodes:
            for name, measure in episode.measures.items():
                history[name].append((episode.number, measure))
        return history

    def measured(self, measures: Mapping[str, Measure]) -> "Index":
        """The same zoo, where some tasks are answered like this since its last episode."""
        if not self.episodes:
            return self
        *earlier, last = self.episodes
        bare = replace(self, episodes=(*earlier, changed(last, since={})))
        now = {**self.measures, **measures}
        since = {name: value for name, value in now.items() if bare.measures.get(name) != value}
        return replace(self, episodes=(*earlier, changed(last, since=since)))

    def task(self, name: str, at: int | None = None) -> TaskEntry:
        """A task by its name, as it is now or was after an episode."""
        if name not in self.tasks:
            raise UnknownTask(unknown_name("task", name, self.tasks))
        return self.tasks[name] if at is None else self.tasks[name].as_of(at)

    @property
    def arrivals(self) -> list[Arrival]:
        """All that has arrived, task by task."""
        return [arrival for task in self.tasks.values() for arrival in task.arrivals]

    def with_arrival(self, arrival: Arrival) -> "Index":
        """The zoo with rows that arrived of a task, new or known."""
        known = self.tasks.get(arrival.task, TaskEntry(arrival.task, ()))
        return replace(self, tasks={**self.tasks, arrival.task: known.grown(arrival)})

    @cached_property
    def _numbered(self) -> Mapping[int, MemberEntry]:
        return {member.number: member for member in self.members}

    def member(self, number: int) -> MemberEntry:
        """A member by its number."""
        return self._numbered[number]

    @cached_property
    def _speakers(self) -> Mapping[str, list[MemberEntry]]:
        """The members that have a vote for each task, counted now or not."""
        speakers: dict[str, list[MemberEntry]] = {name: [] for name in self.tasks}
        for member in self.members:
            for name in member.share:
                speakers.setdefault(name, []).append(member)
        return speakers

    @cached_property
    def _first_voters(self) -> Mapping[str, int]:
        """The number of the newest member that supersedes those before it, for each task that has one."""
        return {name: member.number for member in self.members for name in member.supersedes if member.votes_on(name)}

    def counts(self, member: MemberEntry, task: str) -> bool:
        """Whether a member's vote on a task counts now."""
        return member.votes_on(task) and member.number >= self._first_voters.get(task, 0)

    def voters(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """The members that answer for a task, now or as of an episode (when nothing had been pruned since)."""
        speakers = self.speakers(task, at)
        first = max((place for place, member in enumerate(speakers) if task in member.supersedes), default=0)
        return speakers[first:]

    def speakers(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """`voters`, and those that they supersede."""
        entry = self.task(task)
        if at is None:
            return [member for member in self._speakers[task] if member.votes_on(task)]
        if not entry.episode <= at <= len(self.episodes):
            raise UnknownTask(
                f"task {task!r} was learned in episode {entry.episode}; it can be asked as of {entry.episode} to "
                f"{len(self.episodes)}, not {at}"
            )
        return [member for member in self._speakers[task] if member.episode <= at]

    def answering(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """`voters`, refused where no member is left: members of past episodes go when a zoo is pruned permanently or distilled."""
        voters = self.voters(task, at)
        if not self.is_answered(task, voters, at):
            episodes = range(self.tasks[task].episode, len(self.episodes) + 1)
            first = next(number for number in episodes if self.is_answered(task, self.voters(task, number), number))
            raise UnknownTask(
                f"no member that answered for task {task!r} as of episode {at} is left; ask as of {first} or later, or as of now"
            )
        return voters

    def is_answered(self, task: str, voters: Sequence[MemberEntry], at: int | None = None) -> bool:
        """Whether some members can answer for a task: one of them at least knows all classes that it has by then."""
        since = self.task(task, at).last_class
        return any(member.share[task] and member.episode >= since for member in voters)

    def knows(self, member: MemberEntry, task: str) -> tuple[str, ...]:
        """The classes of a task that a member has an output for, in the order of the outputs: those of its own episode."""
        return self.tasks[task].as_of(member.episode).classes

    def weight(self, member: MemberEntry, task: str, at: int | None = None) -> float:
        """How much a vote counts, now or as of an episode: by the share of the rows arrived until then that it has seen."""
        return member.share[task] * self.task(task, at).share_seen(member.episode)

    def shaped_by(self, member: MemberEntry, task: str) -> bool:
        """Whether a member would be another without this task: it was trained on it, or grew out of members that knew it."""
        source = member if member.refits is None else self._numbered.get(member.refits, member)
        return task in (*member.tasks, *member.saw) or (
            self.settings.descends and source.episode >= self.tasks[task].episode
        )

    def files(self) -> set[str]:
        """The names, relative to the folder, of all files that belong to the zoo beside its index."""
        data = set().union(*(arrival.files for arrival in self.arrivals))
        members = {f"members/{member.file}.safetensors" for member in self.members}
        votes = {f"votes/{member.votes}.safetensors" for member in self.members}
        kept = self.before.files() if self.before else set()
        return data | members | votes | self.settings.files | kept

    def after(self, did: str, when: str, task: str | None = None, detail: str = "") -> "Index":
        """The next generation, with one more line in the log."""
        log = (*self.log, LogEntry(when, did, task, detail))
        return replace(self, generation=self.generation + 1, log=log, before=None)

    def records(self) -> list[Record]:
        """The episodes as they are on the disk."""
        arrivals = {arrival.episode: arrival for arrival in self.arrivals}
        members: dict[int, list[MemberEntry]] = {}
        for member in self.members:
            members.setdefault(member.episode, []).append(member)
        return [
            Record(episode, arrivals.get(episode.number), tuple(members.get(episode.number, ())))
            for episode in self.episodes
        ]

    def with_records(self, records: Sequence[Record], log: Sequence[LogEntry]) -> "Index":
        """The zoo of these episodes."""
        arrivals: dict[str, list[Arrival]] = {}
        for record in records:
            if record.arrival is not None:
                arrivals.setdefault(record.arrival.task, []).append(record.arrival)
        return replace(
            self,
            tasks={name: TaskEntry(name, tuple(parts)) for name, parts in arrivals.items()},
            members=tuple(member for record in records for member in record.members),
            episodes=tuple(record.episode for record in records),
            log=tuple(log),
        )
