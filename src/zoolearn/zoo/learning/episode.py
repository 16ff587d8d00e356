"""One episode of a zoo: rows that are already in the folder become a new member, its votes and measures."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import torch
from msgspec.structs import replace as changed
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.ensemble import Member, label_probabilities
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Net
from zoolearn.runs.counting import count_rows
from zoolearn.seeds import derive
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.clock import clock
from zoolearn.training.fit import Progress
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.auto_epochs import EpisodePlan, OwnedZoo
from zoolearn.zoo.disk.arrivals import SIDES, Arrival, Rows
from zoolearn.zoo.disk.entries import EpisodeEntry, Measure, MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.lazy import LazyDict
from zoolearn.zoo.disk.stored import choose_rows, load_arrival, load_examples, load_inputs, load_labels
from zoolearn.zoo.learning.evaluation import held_out_scores
from zoolearn.zoo.learning.gate import compare_answers, score_new_rows
from zoolearn.zoo.learning.recall import NetOf, StoredVotes, has_train_votes, load_learner, measure_answers
from zoolearn.zoo.learning.scores import Change, Scores, Share
from zoolearn.zoo.learning.statistics import correct_statistics, load_statistics, store_statistics
from zoolearn.zoo.settings import Names

CHECKPOINTS = 20  # of a training, at most


@dataclass(frozen=True)
class Learned:
    """The outcome of an episode: every task's measure before (None for a new one) and after, and the new task's scores.

    `changes` has the tasks that the new member votes on; for a task that grew, on the rows that were held out before, among
    its earlier classes. `new_rows` are those of its earlier classes that are held out only now. If `worse` names tasks, the
    episode was undone because of them.
    """

    task: str
    episode: int
    trained_on: tuple[str, ...]
    before: Mapping[str, Measure | None]
    after: Mapping[str, Measure]
    seconds: float
    scores: Scores
    changes: Mapping[str, Change]
    worse: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # remarks on the rows, such as copies
    new_classes: tuple[str, ...] = ()  # of a task that grew
    new_rows: Share | None = None
    refits: int | None = None  # the member on whose features a head was fitted, if nothing was trained

    @property
    def earlier(self) -> dict[str, Change]:
        """The changes of other tasks than the one that was learned."""
        return {name: change for name, change in self.changes.items() if name != self.task}

    @property
    def earlier_classes(self) -> Share:
        """The accuracy on rows of the classes that the task had before."""
        old = [self.scores.of_class(name) for name in self.scores.classes if name not in self.new_classes]
        return Share(sum(share.right for share in old), sum(share.rows for share in old))


def iter_episode(
    folder: ZooFolder,
    index: Index,
    arrival: Arrival,
    net_of: NetOf,
    names: Names | None,
    epochs: int | None = None,
    *,
    heads_only: bool = False,
) -> Generator[EpisodePlan | Progress, None, tuple[Index, Learned]]:
    """Yields the plan of the episode, then progress; writes its member, and returns the new index and the outcome.

    The member is trained on a new task, or on the kept and the new rows of a known one. With `heads_only`, or if no rows are
    kept, it is a head fitted to the features of an earlier member. A correction brings no rows.
    """
    learner = load_learner(folder, index.with_arrival(arrival) if arrival.corrects else index, net_of, names, epochs)
    digests = (part.digest for part in arrival.stored)
    learner.checkpoints = checkpoints(folder, index, "learn", arrival.task, *digests, *arrival.augment, str(epochs))
    seed, started = learner.episode_seed(), clock.now()
    rows = Counter[str]()
    if arrival.corrects and arrival.fix_train is None:
        return _measure_again(folder, index, arrival)
    known, seen_by, source = len(learner.members), None, None
    if arrival.corrects:
        yield learner.plan(learner.kept[arrival.task])
        _, rows = yield from count_rows(learner.iter_learn_again(arrival.task))
        arrival = correct_statistics(folder, index, net_of, arrival, learner.recipe)
    else:
        part = load_arrival(folder, index, arrival)
        if part.part:
            seen_by = source = load_statistics(folder, index, net_of, arrival.task, learner)
        if heads_only and learner.replay:
            source = find_features(index, arrival.task)
            yield learner.plan_refit(part, source.number)
            learner.refit(part, learner.members[index.records.members.index(source.number)])
            seen_by = seen_by or source
        else:
            yield learner.plan(part)
            started = clock.now()
            _, rows = yield from count_rows(learner.iter_learn(part))
        if not (part.part or learner.keep_statistics):
            learner.statistics.pop(arrival.task, None)  # learners have them where no row is kept; a zoo was told not to
        arrival = keep_arrival(folder, arrival, part, learner, seen_by.sees_as if seen_by else next_number(index))
    entries = _entries(learner, known, arrival.task, source, next_number(index), seed)
    costs = {"seconds": (clock.now() - started).seconds, "rows_trained": rows["trained"], "epochs": epochs}
    entries[-1] = changed(entries[-1], **costs)
    return _end_episode(folder, index, arrival, learner, entries, net_of)


def _entries(
    learner: OwnedZoo, known: int, task: str, source: MemberEntry | None, number: int, seed: int
) -> list[MemberEntry]:
    """Entries of the members of an episode: a trained one, a head on the features of `source`, or both, the head first."""
    assert learner.latest is not None
    entries = []
    for place, member in enumerate(learner.members[known:]):
        tasks = learner.latest.tasks if member.trained else (task,)
        entry = make_entry(member, number + place, tasks, seed, 0.0, 0)
        if not member.trained:
            assert source is not None
            entry = changed(entry, refits=source.sees_as, saw=list_seen(source, but=task))
        entries.append(entry)
    return entries


def _measure_again(folder: ZooFolder, index: Index, arrival: Arrival) -> tuple[Index, Learned]:
    """An episode without a member: only held-out rows changed, so the task is measured again."""
    grown = index.with_arrival(arrival)
    episode = EpisodeEntry(arrival.episode, arrival.task, (), now(), measure(folder, grown, [arrival.task]))
    grown = grown.end_episode(episode)
    scores = held_out_scores(folder, grown, arrival.task)
    learned = Learned(arrival.task, arrival.episode, (), index.measures, grown.measures, 0.0, scores, {})
    return grown.with_log("corrected", episode.when, arrival.task, "rows held out"), learned


def _end_episode(
    folder: ZooFolder,
    index: Index,
    arrival: Arrival,
    learner: OwnedZoo,
    entries: Sequence[MemberEntry],
    net_of: NetOf,
) -> tuple[Index, Learned]:
    """Writes the members of an episode; returns the index with them and the outcome."""
    grown = index.with_arrival(
        ask_earlier_members(folder, index.with_arrival(arrival), arrival, net_of, learner.recipe)
    )
    train = {name: votes.latest for name, votes in learner.train_votes.items() if votes.latest is not None}
    for entry, member in zip(entries, learner.members[-len(entries) :], strict=True):
        known = train if entry is entries[-1] else {}
        grown = grown.with_member(write_member(folder, grown, entry, member.net, learner.recipe, known))
    entry, grew = entries[-1], arrival.task in index.tasks
    measures = measure(folder, grown, entry.heads)
    episode = EpisodeEntry(arrival.episode, arrival.task, entry.tasks, now(), measures)
    grown = grown.end_episode(episode)
    learned = Learned(
        arrival.task,
        arrival.episode,
        entry.tasks,
        LazyDict(grown.tasks, index.measures.get),
        grown.measures,
        entry.seconds,
        held_out_scores(folder, grown, arrival.task),
        compare_answers(folder, index, grown, entry.heads),
        new_classes=arrival.classes if grew else (),
        new_rows=score_new_rows(folder, index, grown, arrival.task) if grew else None,
        refits=entry.refits,
    )
    did = "corrected" if arrival.corrects else "grown" if grew else "learned"
    return grown.with_log(did, episode.when, arrival.task, _detail(arrival, entries)), learned


def ask_earlier_members(folder: ZooFolder, index: Index, arrival: Arrival, net_of: NetOf, recipe: Recipe) -> Arrival:
    """The arrival with the votes of earlier members on its held-out rows."""
    earlier = index.tasks[arrival.task].as_of(arrival.episode - 1)
    voters = [member for member in index.with_votes_on(arrival.task) if member.episode < arrival.episode]
    if arrival.test is None or not voters:
        return changed(arrival, asked=(), votes=None)
    x = folder.tensor(arrival.test.x)
    votes = torch.zeros(len(voters), len(x), len(earlier.classes))
    for place, member in enumerate(voters):
        vote = probabilities(net_of(member), x, arrival.task, recipe)
        votes[place, :, : vote.shape[1]] = vote
    digest, _ = folder.store_tensors("votes", {"test": votes})
    return changed(arrival, asked=tuple(member.number for member in voters), votes=digest)


def make_entry(
    member: Member, number: int, tasks: Sequence[str], seed: int, seconds: float, rows_trained: int | None = None
) -> MemberEntry:
    """The entry of a new member trained on these tasks, before its files are written."""
    return MemberEntry(
        number=number,
        episode=member.episode + 1,
        tasks=tuple(tasks),
        seed=seed,
        share={name: vote.weight for name, vote in member.votes.items()},
        silent=(),
        file="",
        votes="",
        bytes=0,
        loss=member.loss,
        seconds=seconds,
        fitted=tuple(name for name in member.votes if name not in tasks),
        newest={name: vote.newest for name, vote in member.votes.items() if vote.newest},
        layers=bool(member.net.blocks),
        rows_trained=rows_trained,
    )


def list_seen(source: MemberEntry, but: str) -> tuple[str, ...]:
    """The tasks that a member's features were trained on, without `but`."""
    return tuple(name for name in dict.fromkeys((*source.tasks, *source.saw)) if name != but)


def check_heads_only(index: Index, task: str, new_classes: Sequence[str] = ()) -> None:
    """Raises unless a head can be fitted to the features of an earlier member: for a known task without new classes."""
    if index.settings.features is not None:
        raise SettingsError(
            "a zoo on features makes a head of all rows each time, and trains nothing; leave out --heads-only"
        )
    if task not in index.tasks:
        raise DataError(f"task {task!r} is new, so no member has features for it; leave out --heads-only")
    if new_classes:
        raise DataError(
            f"class {new_classes[0]!r} is new in task {task!r}; a head alone tells it from the others less well than "
            "a member that is trained on it; leave out --heads-only"
        )


def find_features(index: Index, task: str) -> MemberEntry:
    """The newest trained member that votes on a task; one that refits another has no features of its own."""
    return max(index.with_votes_on(task), key=lambda member: (member.refits is None, member.number))


def next_number(index: Index) -> int:
    """The number of a new member."""
    return index.records.members[-1] + 1 if index.records.members else 1


def keep_arrival(folder: ZooFolder, arrival: Arrival, part: Task, learner: ModelZoo, seen_by: int) -> Arrival:
    """The arrival with only the rows that are kept and, if the zoo keeps them, feature statistics by member `seen_by`."""
    kept = changed(arrival, train=_kept_rows(folder, arrival, part, learner) if learner.replay else None)
    if arrival.task not in learner.statistics:
        return kept
    return changed(kept, statistics=store_statistics(folder, learner.statistics[arrival.task]), seen_by=seen_by)


def _kept_rows(folder: ZooFolder, arrival: Arrival, part: Task, learner: ModelZoo) -> Rows | None:
    """The rows of an arrival that are kept; all of them are stored already."""
    if arrival.train is None or learner.replay == 1:
        return arrival.train
    rows = part.subsample_rows(learner.replay, derive(learner.seed, "replay"))
    return choose_rows(folder, arrival.train, rows, part.train.y[rows])


def _detail(arrival: Arrival, entries: Sequence[MemberEntry]) -> str:
    member = entries[-1]
    if arrival.corrects:
        changes = sum(fixes.pairs.shape[0] for fixes in (arrival.fix_train, arrival.fix_test) if fixes)
        return f"member {member.number}; {changes} row{'' if changes == 1 else 's'} changed or deleted"
    train, test = (part.count if (part := arrival.rows(side)) else 0 for side in SIDES)
    rows = f"{train} row{'' if train == 1 else 's'} kept, {test} held out"
    heads = [
        f"member {entry.number}, a head on the features of member {entry.refits}" for entry in entries if entry.refits
    ]
    if member.refits is None:
        heads.append(f"member {member.number} from {len(member.tasks)} task{'' if len(member.tasks) == 1 else 's'}")
    return f"{'; '.join(heads)}; {rows}"


def write_member(
    folder: ZooFolder, index: Index, entry: MemberEntry, net: Net, recipe: Recipe, train: Mapping[str, Tensor]
) -> MemberEntry:
    """Writes a member's net and votes; `train` has its votes on training rows as far as they are known."""
    votes: dict[str, Tensor] = {}
    for place, name in enumerate(entry.heads):
        task = index.tasks[name].as_of(entry.episode)
        votes[f"test.{place}"] = probabilities(net, load_inputs(folder, task, "test"), name, recipe)
        if has_train_votes(index, entry, name):
            votes[f"train.{place}"] = (
                train[name]
                if name in train
                else label_probabilities(net, load_examples(folder, task, "train"), name, recipe)
            )
    file, size = folder.store_tensors("members", net.state_dict())
    digest, _ = folder.store_tensors("votes", votes)
    return changed(entry, file=file, votes=digest, bytes=size)


def measure(folder: ZooFolder, index: Index, tasks: Sequence[str], at: int | None = None) -> dict[str, Measure]:
    """Accuracies and losses of some tasks, computed from stored votes without running a net."""
    measures, votes = {}, StoredVotes(folder, index)
    for name in tasks:
        on_labels = votes.train(name, at)
        loss = on_labels.loss if on_labels.weight else None
        answer = votes.answer(name, at=at)
        labels = load_labels(folder, index.task(name, at), "test")
        measures[name] = measure_answers(answer, labels, loss, calibrates=index.settings.features is None)
    return measures


def checkpoints(folder: ZooFolder, index: Index, *what: str) -> Checkpoints:
    """Where this very training is kept while it goes on: found again only by the same work on the same zoo."""
    key = sha256("/".join([str(index.generation), *what]).encode()).hexdigest()[:32]
    return Checkpoints(folder.checkpoints(key), every=1, most=CHECKPOINTS)


def now() -> str:
    """The time as logs show it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
