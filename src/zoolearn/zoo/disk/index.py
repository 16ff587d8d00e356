"""The index of a zoo folder: settings, tasks, members, episodes and a log, as checked plain values.

Tasks, members and measures are views of the episodes: only what is used is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from msgspec.structs import replace as changed

from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.methods.ensemble import first_counted
from zoolearn.words import printable
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.entries import EpisodeEntry, LogEntry, Measure, MemberEntry, Record
from zoolearn.zoo.disk.journal import Chain
from zoolearn.zoo.disk.lazy import LazyDict, LazyView
from zoolearn.zoo.disk.records import Records
from zoolearn.zoo.settings import ZooSettings


@dataclass(frozen=True)
class Index:
    """A whole zoo at one moment; `generation` increases by one with every change.

    `chosen` are the settings as given; `settings` are completed by the first task. `before` is the zoo that undo
    restores after a change of features, until the next change.
    """

    chosen: ZooSettings
    settings: ZooSettings
    generation: int = 0
    records: Records = field(default_factory=Records)
    log: Chain[LogEntry] = field(default_factory=Chain)
    before: "Index | None" = None

    @property
    def is_loaded(self) -> bool:
        """Whether all episodes are at hand."""
        earlier = self.before is None or self.before.is_loaded
        return earlier and (self.records.stored is None or self.records.stored.is_loaded)

    def load(self) -> None:
        """Reads the bytes of all episodes."""
        for index in (self, self.before):
            if index is not None and index.records.stored is not None:
                _ = index.records.stored.data

    @cached_property
    def tasks(self) -> Mapping[str, TaskEntry]:
        """The tasks by name, in the order they were learned."""
        return LazyDict(self.records.tasks, partial(_read_task, self.records))

    @cached_property
    def members(self) -> Sequence[MemberEntry]:
        """The members, oldest first."""
        records = self.records
        return LazyView(len(records.members), lambda place: _read_member(records, records.members[place]))

    def member(self, number: int) -> MemberEntry:
        return _read_member(self.records, number)

    @cached_property
    def episodes(self) -> Sequence[EpisodeEntry]:
        """Those that have ended."""
        records = self.records
        return LazyView(len(records) - self.is_open, lambda place: records[place].episode)

    @property
    def is_open(self) -> bool:
        """Whether the last episode has not ended yet."""
        return bool(self.records.new) and self.records.new[-1].episode is None

    @cached_property
    def measures(self) -> Mapping[str, Measure]:
        """The measure of every task now: by the last episode that changed it, and pruning since."""
        return LazyDict(self.records.tasks, partial(_read_measure, self.records))

    @cached_property
    def history(self) -> Mapping[str, list[tuple[int, Measure]]]:
        """The measures of each task after every episode that changed it."""
        return LazyDict(self.records.tasks, partial(_read_history, self.records))

    def with_measures(self, measures: Mapping[str, Measure]) -> "Index":
        """The zoo with new measures of some tasks since its last episode."""
        if not self.episodes:
            return self
        last = self.episodes[-1]
        bare = self._last(changed(last, since={}))
        now = {**last.since, **measures}
        since = {name: value for name, value in now.items() if bare.measures.get(name) != value}
        return self if since == last.since else self._last(changed(last, since=since))

    def _last(self, episode: EpisodeEntry) -> "Index":
        """With its last episode replaced."""
        earlier = self.records.truncate(len(self.records) - 1)
        return replace(self, records=earlier.append(changed(self.records[-1], episode=episode)))

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
        """The zoo with an arrival, which opens an episode."""
        return replace(self, records=self.records.append(Record(None, arrival, ())))

    def with_member(self, member: MemberEntry) -> "Index":
        """With one more member of the open episode."""
        last = self.records[-1]
        grown = changed(last, members=(*last.members, member))
        return replace(self, records=self.records.truncate(len(self.records) - 1).append(grown))

    def end_episode(self, episode: EpisodeEntry) -> "Index":
        """With the open episode ended."""
        return self._last(episode)

    def truncate(self, episode: int) -> "Index":
        """The zoo as it was after an episode, except for its log."""
        return replace(self, records=self.records.truncate(episode))

    def with_entries(
        self,
        *,
        tasks: Mapping[str, TaskEntry] | None = None,
        members: Sequence[MemberEntry] | None = None,
        episodes: Sequence[EpisodeEntry] | None = None,
    ) -> "Index":
        """The zoo with all its tasks, members or episodes replaced."""
        entries = (self.tasks if tasks is None else tasks).values()
        arrivals = {arrival.episode: arrival for entry in entries for arrival in entry.arrivals}
        ended = {episode.number: episode for episode in (self.episodes if episodes is None else episodes)}
        if ended:
            ended[max(ended)] = changed(ended[max(ended)], remade=True)
        made: dict[int, list[MemberEntry]] = {}
        for member in self.members if members is None else members:
            made.setdefault(member.episode, []).append(member)
        records = (
            Record(ended.get(number), arrivals.get(number), tuple(made.get(number, ())))
            for number in range(1, max((0, *ended, *arrivals, *made)) + 1)
        )
        return replace(self, records=Records(new=tuple(records)))

    @cached_property
    def _members_by_task(self) -> Mapping[str, list[MemberEntry]]:
        return LazyDict(self.records.tasks, partial(_read_members, self.records))

    def with_votes_on(self, task: str) -> list[MemberEntry]:
        """The members with a vote on a task, whether it counts now or not."""
        return _read_members(self.records, task)

    def counts(self, member: MemberEntry, task: str) -> bool:
        """Whether a member's vote on a task counts now."""
        return member.votes_on(task) and member in self.voters(task)

    def voters(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """The members that answer for a task, now or as of an episode (when nothing had been pruned since)."""
        speakers = self.all_voters(task, at)
        return speakers[first_counted([member.newest.get(task, 0) for member in speakers]) :]

    def all_voters(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """`voters`, and the members whose votes no longer count beside theirs."""
        entry = self.task(task)
        if at is None:
            return [member for member in self._members_by_task[task] if member.votes_on(task)]
        if not entry.episode <= at <= len(self.episodes):
            raise UnknownTask(
                f"task {task!r} was learned in episode {entry.episode}; it can be asked as of {entry.episode} to "
                f"{len(self.episodes)}, not {at}"
            )
        return [member for member in self._members_by_task[task] if member.episode <= at]

    def require_voters(self, task: str, at: int | None = None) -> list[MemberEntry]:
        """`voters`; raises if no member is left, as for past episodes of a pruned or distilled zoo."""
        voters = self.voters(task, at)
        if not self.is_answered(task, voters, at):
            episodes = range(self.tasks[task].episode, len(self.episodes) + 1)
            able = (number for number in episodes if self.is_answered(task, self.voters(task, number), number))
            if (first := next(able, None)) is None:
                raise self.records.make_error(f"no member answers for task {task!r}")
            raise UnknownTask(
                f"no member that answered for task {task!r} as of episode {at} is left; ask as of {first} or later, or as of now"
            )
        return voters

    def is_answered(self, task: str, voters: Sequence[MemberEntry], at: int | None = None) -> bool:
        """Whether some members can answer for a task: at least one knows all classes that it had."""
        since = self.task(task, at).last_class
        return any(member.share[task] and member.episode >= since for member in voters)

    def knows(self, member: MemberEntry, task: str) -> tuple[str, ...]:
        """The classes of a task that a member has outputs for, in order: those of its own episode."""
        return self.tasks[task].as_of(member.episode).classes

    def weight(self, member: MemberEntry, task: str, at: int | None = None) -> float:
        """The weight of a vote, now or as of an episode: its share, scaled to the rows that have arrived since."""
        return member.share[task] * self.task(task, at).share_seen(member.episode)

    def depends_on(self, member: MemberEntry, task: str) -> bool:
        """Whether a member depends on a task: trained on it, or started from members that knew it."""
        source = member
        if member.refits is not None and member.refits in self.records.members:
            source = self.member(member.refits)
        return task in (*member.tasks, *member.saw) or (
            self.settings.descends and source.episode >= self.tasks[task].episode
        )

    def files(self) -> set[str]:
        """The names, relative to the folder, of all files that belong to the zoo beside its index."""
        kept = self.before.files() if self.before else set()
        return (self.settings.files | kept).union(*(record.files for record in self.records))

    def names_file(self, name: str) -> bool:
        """Whether a file, by its name relative to the folder, belongs to the zoo."""
        kept = self.before is not None and self.before.names_file(name)
        return kept or name in self.settings.files or self.records.names_file(name)

    def with_log(self, did: str, when: str, task: str | None = None, detail: str = "") -> "Index":
        """The next generation, with one more line in the log; a detail may hold names of folders, which may be odd."""
        log = self.log.append(LogEntry(when, did, task, printable(detail)))
        return replace(self, generation=self.generation + 1, log=log, before=None)


# Views read by the records and not by the index that keeps them: two that keep each other are let go late.


def _read_task(records: Records, name: str) -> TaskEntry:
    arrivals = (records[place].arrival for place in records.arrivals(name))
    task = TaskEntry(name, tuple(arrival for arrival in arrivals if arrival is not None))
    if not records.new and (problem := task.problem) is not None:
        raise records.make_error(f"{problem} ({name!r})")
    return task


def _read_member(records: Records, number: int) -> MemberEntry:
    members: tuple[MemberEntry, ...] = records[records.place_of(number)].members
    return next(member for member in members if member.number == number)


def _read_measure(records: Records, task: str) -> Measure:
    for place in reversed(records.answers(task)):
        episode: EpisodeEntry | None = records[place].episode
        if episode is not None and (found := episode.since.get(task) or episode.measures.get(task)):
            return found
    raise KeyError(task) if records.new else records.make_error(f"task {task!r} was never measured")


def _read_history(records: Records, task: str) -> list[tuple[int, Measure]]:
    episodes = [records[place].episode for place in records.answers(task)]
    return [(each.number, each.measures[task]) for each in episodes if each and task in each.measures]


def _read_members(records: Records, task: str) -> list[MemberEntry]:
    episodes = (records[place] for place in records.answers(task))
    return [member for episode in episodes for member in episode.members if member.share.get(task)]
