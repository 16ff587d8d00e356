"""Pruning: finds the members that a task does not need, from stored votes; no net is run.

Members are chosen by every second held-out row, so that the accuracy on the other half is unbiased.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter

from msgspec.structs import replace as changed
from torch import Tensor

from zoolearn.errors import SettingsError
from zoolearn.methods.learner import accuracy
from zoolearn.training.predict import combine, probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_inputs, load_labels
from zoolearn.zoo.learning.episode import measure
from zoolearn.zoo.learning.recall import NetOf, StoredVotes

ALLOWED_LOSS = 0.005  # of accuracy, by default
Chosen = dict[str, set[int]]  # for each task, the numbers of the members that vote on it


def read_limit(**limits: float | None) -> tuple[str, float]:
    """The one given limit to prune by, with its value; by default a loss of half a point.

    >>> read_limit(loss=None, budget=20.0), read_limit(loss=None)
    (('budget', 20.0), ('loss', 0.005))
    """
    chosen = {name: value for name, value in limits.items() if value is not None} or {"loss": ALLOWED_LOSS}
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(chosen)} were given; prune by one of them")
    ((kind, value),) = chosen.items()
    return kind, value


@dataclass(frozen=True)
class TaskVotes:
    """The votes of each member on a task's held-out rows, their weights, and the labels.

    Classes are in the order of arrival, so a member that knows fewer of them knows the first ones.
    """

    votes: Mapping[int, Tensor]
    weights: Mapping[int, float]
    labels: Tensor
    classes: tuple[str, ...]

    def can_answer(self, members: Iterable[int]) -> bool:
        """Whether one of some members knows all classes."""
        return any(self.votes[number].shape[1] == len(self.classes) for number in members)

    def answer(self, members: Iterable[int], rows: slice = slice(None)) -> Tensor:
        """The combined probabilities of some members on some rows."""
        numbers = list(members)
        votes = [self.votes[number][rows] for number in numbers]
        knows = [self.classes[: vote.shape[1]] for vote in votes]
        return combine(votes, [self.weights[number] for number in numbers], knows, self.classes)

    def accuracy(self, members: Iterable[int], rows: slice = slice(None)) -> float:
        """The accuracy of some members on some rows."""
        return accuracy(self.answer(members, rows), self.labels[rows])

    def likelihood(self, members: Iterable[int], rows: slice) -> float:
        """The mean log-likelihood of the labels, a tie-breaker between sets of equal accuracy."""
        mean = self.answer(members, rows)
        return float(mean.gather(1, self.labels[rows][:, None]).clamp_min(1e-12).log().mean())


CHOOSE, JUDGE = slice(0, None, 2), slice(1, None, 2)


@dataclass(frozen=True)
class TaskPruning:
    """One task before and after: members, and accuracy on all held-out rows and on those that did not choose."""

    before: int
    after: int
    accuracy_before: float
    accuracy_after: float
    unseen_before: float
    unseen_after: float


@dataclass(frozen=True)
class Pruning:
    """The effect of pruning on a zoo: per task, and members and bytes in all; milliseconds are per row and task."""

    tasks: Mapping[str, TaskPruning]
    members_before: int
    members_after: int
    bytes_before: int
    bytes_after: int
    milliseconds_per_member: float

    def milliseconds(self, when: str) -> float:
        """The mean time of an answer for one row, `before` or `after`."""
        counts: list[int] = [getattr(task, when) for task in self.tasks.values()]
        return self.milliseconds_per_member * sum(counts) / max(1, len(counts))


def prune(folder: ZooFolder, index: Index, kind: str, value: float, cost: float) -> tuple[Index, Pruning]:
    """The zoo with votes pruned that tasks do not need, and the effect."""
    if value < 0 or (kind != "loss" and value == 0):
        raise SettingsError(f"{kind} is {value:g}; give a number above 0")
    if kind == "loss" and value > 1:
        raise SettingsError(f"loss is {value:g}; it is a share of the answers, as 0.005 for half a percent")
    if not index.tasks:
        raise SettingsError("the zoo has learned nothing yet; there is nothing to prune")
    stored = StoredVotes(folder, index)
    votes = {name: _votes(stored, name) for name in index.tasks}
    choose: dict[str, Callable[[], Chosen]] = {
        "loss": lambda: choose_by_loss(votes, value),
        "budget": lambda: choose_by_budget(
            {member.number: member.bytes for member in index.members}, votes, value * 1e6
        ),
        "latency": lambda: choose_by_count(votes, int(value / cost) if cost else 1, value, cost),
    }
    chosen = choose[kind]()
    members = tuple(
        changed(member, silent=tuple(name for name in member.share if member.number not in chosen[name]))
        for member in index.members
    )
    smaller = index.with_entries(members=members)
    return smaller.with_measures(measure(folder, smaller, list(index.tasks))), _report(index, votes, chosen, cost)


def _votes(stored: StoredVotes, task: str) -> TaskVotes:
    index, voters = stored.index, stored.index.voters(task)
    return TaskVotes(
        {member.number: stored.votes_of(member, task) for member in voters},
        {member.number: index.weight(member, task) for member in voters},
        load_labels(stored.folder, index.tasks[task], "test"),
        index.tasks[task].classes,
    )


def choose_by_loss(votes: Mapping[str, TaskVotes], loss: float) -> Chosen:
    """For each task, members added greedily until it is at most `loss` below all of them together.

    Of two that help equally, one that another task needs already is taken.
    """
    chosen: Chosen = {}
    needed: set[int] = set()
    for name in sorted(votes, key=lambda task: len(votes[task].votes)):
        goal = votes[name].accuracy(votes[name].votes, CHOOSE) - loss
        chosen[name] = set()
        while not chosen[name] or votes[name].accuracy(chosen[name], CHOOSE) < goal - 1e-9:
            chosen[name].add(_find_best(votes[name], chosen[name], needed))
        needed |= chosen[name]
    return chosen


def choose_by_count(votes: Mapping[str, TaskVotes], most: int, latency: float, cost: float) -> Chosen:
    """For each task the best `most` members that greedy selection finds, fewer if that is as good."""
    if most < 1:
        raise SettingsError(f"latency is {latency:g} ms, but a single member takes {cost:.3g} ms for a row; give more")
    chosen: Chosen = {}
    for name, task in votes.items():
        order: list[int] = []
        while len(order) < min(most, len(task.votes)):
            order.append(_find_best(task, set(order), set()))
        best = max(range(1, len(order) + 1), key=lambda count: (task.accuracy(order[:count], CHOOSE), -count))
        chosen[name] = set(order[:best])
    return chosen


def _find_best(votes: TaskVotes, chosen: set[int], needed: set[int]) -> int:
    """The member that helps most beside those chosen; the first must know all classes."""

    def merit(number: int) -> tuple[float, bool, float]:
        together = {*chosen, number}
        return votes.accuracy(together, CHOOSE), number in needed, votes.likelihood(together, CHOOSE)

    able = [number for number in votes.votes if number not in chosen and votes.can_answer({*chosen, number})]
    return max(able, key=merit)


def choose_by_budget(sizes: Mapping[int, int], votes: Mapping[str, TaskVotes], budget: float) -> Chosen:
    """Removes, one by one, the member whose absence costs the least accuracy over all tasks, until the rest fits."""
    chosen = {name: set(task.votes) for name, task in votes.items()}
    alive = set().union(*chosen.values())
    current = {name: votes[name].accuracy(chosen[name], CHOOSE) for name in votes}
    while sum(sizes[number] for number in alive) > budget:
        losses = {number: _loss_without(votes, chosen, current, number) for number in alive}
        possible = {number: loss for number, loss in losses.items() if loss is not None}
        if not possible:
            least = sum(sizes[number] for number in alive) / 1e6
            raise SettingsError(
                f"a budget of {budget / 1e6:g} MB is too small; answering every task takes {least:.2f} MB"
            )
        gone = min(possible, key=lambda number: (possible[number], -sizes[number], number))
        alive.discard(gone)
        for name, members in chosen.items():
            if gone in members:
                members.discard(gone)
                current[name] = votes[name].accuracy(members, CHOOSE)
    return chosen


def _loss_without(
    votes: Mapping[str, TaskVotes], chosen: Chosen, current: Mapping[str, float], number: int
) -> float | None:
    """The total loss of accuracy without a member; None if a task would have no member that knows all its classes."""
    loss = 0.0
    for name, members in chosen.items():
        if number in members:
            if not votes[name].can_answer(members - {number}):
                return None
            loss += current[name] - votes[name].accuracy(members - {number}, CHOOSE)
    return loss


def _report(index: Index, votes: Mapping[str, TaskVotes], chosen: Chosen, cost: float) -> Pruning:
    sizes = {member.number: member.bytes for member in index.members}
    needed = set().union(*chosen.values())
    tasks = {
        name: TaskPruning(
            before=len(task.votes),
            after=len(chosen[name]),
            accuracy_before=task.accuracy(task.votes),
            accuracy_after=task.accuracy(chosen[name]),
            unseen_before=task.accuracy(task.votes, _judging_rows(task)),
            unseen_after=task.accuracy(chosen[name], _judging_rows(task)),
        )
        for name, task in votes.items()
    }
    bytes_after = sum(sizes[number] for number in needed)
    return Pruning(tasks, len(index.members), len(needed), sum(sizes.values()), bytes_after, cost)


def _judging_rows(task: TaskVotes) -> slice:
    return JUDGE if len(task.labels) > 1 else CHOOSE


def restore_all(folder: ZooFolder, index: Index) -> Index:
    """The zoo with all pruned votes restored."""
    restored = index.with_entries(members=[changed(member, silent=()) for member in index.members])
    silenced = {name for member in index.members for name in member.silent}
    return restored.with_measures(measure(folder, restored, [name for name in index.tasks if name in silenced]))


def delete_silenced(index: Index) -> Index:
    """The zoo without pruned votes, and without members that have no other."""
    members = []
    for member in index.members:
        share = {name: weight for name, weight in member.share.items() if name not in member.silent}
        members.append(changed(member, share=share, silent=()))
    return index.with_entries(members=[member for member in members if member.share])


def milliseconds(folder: ZooFolder, index: Index, net_of: NetOf, recipe: Recipe, rows: int) -> float:
    """The time of a member for one row: the best of a few passes, averaged over a few members."""
    times = []
    for member in index.members[:: max(1, len(index.members) // 5)]:
        name = member.tasks[0]
        x = load_inputs(folder, index.tasks[name].as_of(member.episode), "test")[:rows]
        net = net_of(member)
        times.append(min(_time(lambda: probabilities(net, x, name, recipe)) for _ in range(4)) / len(x))  # noqa: B023
    return sum(times) / len(times)


def _time(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return 1000 * (perf_counter() - started)
