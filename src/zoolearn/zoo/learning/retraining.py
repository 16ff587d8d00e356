"""Retrains the members that depend on rows that are gone, oldest first, and updates votes, statistics and measures."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from time import perf_counter

from msgspec.structs import replace as changed

from zoolearn.beyond.warm_start import refit_head
from zoolearn.nets.net import Net
from zoolearn.runs.counting import count_rows
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe
from zoolearn.training.step import Step
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.entries import EpisodeEntry, MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.lazy import LazyDict
from zoolearn.zoo.disk.stored import load_task
from zoolearn.zoo.learning.episode import ask_earlier_members, list_seen, make_entry, measure, write_member
from zoolearn.zoo.learning.recall import count_arrived, list_members, load_net
from zoolearn.zoo.learning.statistics import recompute_statistics
from zoolearn.zoo.settings import Names


def iter_retrain(
    folder: ZooFolder,
    index: Index,
    learner: OwnedZoo,
    names: Names | None,
    *,
    is_touched: Callable[[MemberEntry], bool],
    stays: Callable[[MemberEntry], bool] = lambda member: True,
    trains: Callable[[MemberEntry], bool] = lambda member: True,
    but: str = "",
    since: Mapping[str, int] | None = None,
    trained_since: Mapping[str, int] | None = None,
) -> Generator[Progress | Step, None, Index]:
    """Retrains or removes the members that are touched by a change of tasks, which `index` has already.

    Members keep their seeds and tasks, without the task `but`; each starts from the members before it as they are now. One
    that does not train, since only held-out rows changed for it, votes again. Tasks are measured again `since` the first
    episode in which their answers changed; `trained_since`, if it differs, is the first of which rows to train on did.
    """
    members: list[MemberEntry] = []
    touched = {member.number: stays(member) for member in index.members if is_touched(member)}
    again = {member.number for member in index.members if touched.get(member.number) and trains(member)}
    done, total = 0, len(again)
    changed_rows, since = dict((since if trained_since is None else trained_since) or {}), dict(since or {})
    for member in index.members:
        if member.number not in touched:
            members.append(member)
            continue
        yield Step("members trained again", done, total)
        done += member.number in again
        if touched[member.number] and member.number not in again:
            net = load_net(folder, index, member, names)
            members.append(write_member(folder, index, member, net, learner.recipe, {}))
            continue
        for name in member.share:
            since.setdefault(name, member.episode)
        if touched[member.number]:
            earlier = [*members]
            learner.members = list_members(index, earlier, lambda other: load_net(folder, index, other, names))
            members.append((yield from _iter_retrain_member(folder, index, earlier, learner, member, but)))
    yield Step("members trained again", done, total)
    rest = _ask_again(folder, index.members, index.with_entries(members=members), learner.recipe, names)
    rest = _count_again(folder, index.members, rest, learner.recipe, names, changed_rows)
    rest = rest.with_entries(episodes=[measure_episode_again(folder, rest, entry, since) for entry in rest.episodes])
    return rest.with_measures(measure(folder, rest, [name for name in rest.tasks if name in since]))


def _iter_retrain_member(
    folder: ZooFolder,
    rest: Index,
    earlier: Sequence[MemberEntry],
    learner: OwnedZoo,
    member: MemberEntry,
    but: str,
) -> Generator[Progress, None, MemberEntry]:
    """Retrains a member on the kept rows of the tasks that were known in its episode, without the task `but`.

    `earlier` are the members before it, as they are now.
    """
    entries = rest.tasks.values()
    known = [entry.name for entry in entries if entry.keeps_rows and entry.episode <= member.episode]
    learner.kept = LazyDict(known, lambda name: load_task(folder, rest.tasks[name].as_of(member.episode)))
    learner.arrived = LazyDict(known, lambda name: count_arrived(rest.tasks[name].as_of(member.episode)))  # type: ignore[assignment]
    learner.episode = member.episode - 1
    learner.epochs = member.epochs or rest.settings.recipe["epochs"]
    remaining = [name for name in member.tasks if name != but]
    started = perf_counter()
    source = next((place for place, other in enumerate(earlier) if other.number == member.refits), None)
    if source is None:
        work = learner.grow(learner, [learner.kept[name] for name in remaining], member.seed)
        made, rows = yield from count_rows(work)
    else:
        made, rows = refit_head(learner, learner.members[source], learner.kept[remaining[0]]), Counter()
    entry = make_entry(made, member.number, remaining, member.seed, perf_counter() - started, rows["trained"])
    share = {
        name: weight if member.share[name] else 0.0 for name, weight in entry.share.items() if name in member.share
    }
    silent = tuple(name for name in member.silent if name in share)
    entry = changed(entry, epochs=member.epochs, share=share, silent=silent)
    if source is not None:
        entry = changed(entry, refits=member.refits, saw=list_seen(earlier[source], but=remaining[0]))
    return write_member(folder, rest, entry, made.net, learner.recipe, {})


def _ask_again(
    folder: ZooFolder, members: Sequence[MemberEntry], rest: Index, recipe: Recipe, names: Names | None
) -> Index:
    """Updates the votes of members that changed on rows held out of later arrivals."""
    same = _find_unchanged(members, rest)

    def net_of(member: MemberEntry) -> Net:
        return load_net(folder, rest, member, names)

    return _with_arrivals(
        rest,
        {
            arrival.episode: ask_earlier_members(folder, rest, arrival, net_of, recipe)
            for arrival in rest.arrivals
            if not {*arrival.asked} <= same or (arrival.test is not None and arrival.votes is None)
        },
    )


def _count_again(
    folder: ZooFolder,
    members: Sequence[MemberEntry],
    rest: Index,
    recipe: Recipe,
    names: Names | None,
    changed_rows: Mapping[str, int],
) -> Index:
    """Recomputes statistics, from kept rows, whose features or rows have changed."""
    unchanged = _find_unchanged(members, rest)
    same = {member.sees_as for member in rest.members if member.number in unchanged}

    def net_of(member: MemberEntry) -> Net:
        return load_net(folder, rest, member, names)

    def is_same(arrival: Arrival) -> bool:
        return arrival.seen_by in same and arrival.episode < changed_rows.get(arrival.task, arrival.episode + 1)

    return _with_arrivals(
        rest,
        {
            arrival.episode: recompute_statistics(folder, rest, net_of, arrival, recipe)
            for arrival in rest.arrivals
            if arrival.statistics and rest.tasks[arrival.task].keeps_rows and not is_same(arrival)
        },
    )


def _find_unchanged(members: Sequence[MemberEntry], rest: Index) -> set[int]:
    """The numbers of members whose nets did not change."""
    were = {member.number: member.file for member in members}
    return {member.number for member in rest.members if were[member.number] == member.file}


def _with_arrivals(rest: Index, made: Mapping[int, Arrival]) -> Index:
    """With the arrivals of some episodes replaced."""
    if all(rest.records[number - 1].arrival == arrival for number, arrival in made.items()):
        return rest
    return rest.with_entries(
        tasks={
            name: TaskEntry(name, tuple(made.get(arrival.episode, arrival) for arrival in entry.arrivals))
            for name, entry in rest.tasks.items()
        }
    )


def measure_episode_again(folder: ZooFolder, rest: Index, episode: EpisodeEntry, since: dict[str, int]) -> EpisodeEntry:
    """An episode with the measures of tasks whose members changed taken again."""
    at = episode.number
    touched = [name for name in episode.measures if since.get(name, at + 1) <= at]
    left = [name for name in touched if rest.is_answered(name, rest.voters(name, at), at)]
    known = {name: value for name, value in episode.measures.items() if name in left or name not in touched}
    return changed(episode, measures={**known, **measure(folder, rest, left, at)}) if touched else episode
