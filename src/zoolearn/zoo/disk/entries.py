"""What a zoo's index is made of: members, measures, episodes and lines of a log, as plain values.

On the disk an episode is one record: what arrived in it, the members that came of it, and how tasks are answered since.
Every file is named by the sha256 of its content, so an index can name no file outside of its folder, and what it names
can be verified. Nothing in it refers to anything that refers back: members name tasks, tasks and members name files.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from zoolearn.zoo.disk.arrivals import Arrival, Count, Number
from zoolearn.zoo.disk.journal import Digest
from zoolearn.zoo.settings import Name

LONGEST_TEXT = 10_000
Share = Annotated[float, Meta(ge=0, le=1)]


class MemberEntry(Struct, frozen=True, gc=False, omit_defaults=True):
    """A member: its episode, the tasks it was trained on (in order), its file and the file of its votes.

    `fitted` are further tasks that it has a head for, fitted to its finished features. If it `refits` an earlier
    member, it is a head on the features of that one, which `saw` further tasks. It knows the classes that its tasks
    had in its episode. `share` is the weight of its vote on each task in its episode; votes on tasks in `silent`
    are pruned, not yet permanently. For tasks in `newest` only so many votes count, its own and those before it.
    `layers`: its heads read inner layers too.
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
    newest: Mapping[Name, Number] = {}
    layers: bool = False
    refits: Number | None = None
    saw: tuple[Name, ...] = ()
    epochs: Number | None = None  # that were asked for; None: as many as its rows needed
    rows_trained: Count | None = None  # that it was shown in training, since that was last continued; None: not known

    @property
    def heads(self) -> tuple[str, ...]:
        """All tasks that it has a head for, in the order of the heads."""
        return (*self.tasks, *self.fitted)

    @property
    def sees_as(self) -> int:
        """The number of the member that trained its features."""
        return self.refits or self.number

    def votes_on(self, task: str) -> bool:
        """Whether its vote for this task counts now."""
        return bool(self.share.get(task)) and task not in self.silent


class Measure(Struct, frozen=True, gc=False, omit_defaults=True):
    """Accuracy on a task's held-out rows, and the mean probability of the predicted class.

    `balanced` is the mean of the classes' accuracies. `loss` is the zoo's loss on the task's kept rows, which
    weighs it in the next draw; None if no rows are kept. `temperature` is fitted to the held-out rows and applied
    to every answer.
    """

    accuracy: Share
    balanced: Share
    confidence: Share
    loss: float | None = None
    temperature: Annotated[float, Meta(gt=0, le=100)] = 1.0


class EpisodeEntry(Struct, frozen=True, gc=False, omit_defaults=True):
    """What an episode did; its task is None once forgotten.

    `measures` has the tasks whose answers it changed, `since` their measures after later pruning. If members or
    rows of earlier episodes were `remade` since, earlier measures are outdated.
    """

    number: Number
    task: Name | None
    tasks: tuple[Name, ...]
    when: Name
    measures: Mapping[Name, Measure]
    since: Mapping[Name, Measure] = {}
    remade: bool = False


class Record(Struct, frozen=True, gc=False):
    """One episode: what it did (None until it ends), what arrived in it (None once forgotten), its members that are left."""

    episode: EpisodeEntry | None
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
