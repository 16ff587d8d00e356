"""How else the members of a finished zoo could vote, and how good each of them is alone.

Nothing is trained: the same members answer the same test rows, and only the way in which their answers become one differs.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.methods.ensemble import Member, vote_weights
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import flip_is_safe
from zoolearn.training.predict import average, complete, iter_probabilities, join

Rule = Callable[[Tensor, Tensor], Tensor]  # log-probabilities (member, row, class) and weights of members to answers


def mean(logs: Tensor, weights: Tensor) -> Tensor:
    """The weighted average of probabilities, the paper's.

    >>> mean(torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]]).log(), torch.ones(2)).round(decimals=4).tolist()
    [[0.5, 0.5]]
    """
    return torch.einsum("m,mrc->rc", weights / weights.sum(), logs.exp())


def product(logs: Tensor, weights: Tensor) -> Tensor:
    """The weighted geometric mean of probabilities: one member that is sure that it is not so can veto a class.

    >>> product(torch.tensor([[[0.5, 0.5]], [[0.9, 0.1]]]).log(), torch.ones(2)).round(decimals=4).tolist()
    [[0.75, 0.25]]
    """
    return torch.softmax(torch.einsum("m,mrc->rc", weights / weights.sum(), logs), dim=1)


RULES: dict[str, Rule] = {"mean": mean, "product": product}


@dataclass(frozen=True)
class MemberStats:
    """The accuracy of the members that vote on a task one by one, averaged over the tasks.

    `disagreement` is the share of test rows on which two members name different classes, averaged over pairs.
    """

    zoo: float
    newest: float  # of the members that vote on the task
    best: float
    average: float
    disagreement: float


@dataclass(frozen=True)
class TaskOutputs:
    """Probabilities (member, row, class) of the test rows of a task, by the members that vote on it, and the votes' weights."""

    task: Task
    weights: Tensor
    plain: Tensor
    flipped: Tensor | None = None  # of a picture and its mirror image together


def collect_outputs(zoo: ModelZoo, tasks: Sequence[Task]) -> Iterator[TaskOutputs]:
    """Asks every member once about the test rows of the tasks it votes on."""
    for task in tasks:
        voters = [place for place, member in enumerate(zoo.members) if member.votes_on(task.name)]
        members = [zoo.members[place] for place in voters]
        first = zoo.first_voter(task.name)  # members before it are asked, too, and count nothing
        counted = vote_weights([member.votes[task.name] for member in members])
        weights = [weight if place >= first else 0.0 for place, weight in zip(voters, counted, strict=True)]
        outputs = {
            flips: _member_outputs(zoo, members, task.name, task.test.x, flips)
            for flips in {False, flip_is_safe(task.shape)}
        }
        yield TaskOutputs(task, torch.tensor(weights), outputs[False], outputs.get(True))


def accuracy_by_rule(outputs: Sequence[TaskOutputs]) -> dict[str, float]:
    """The mean test accuracy of a zoo under each way to vote.

    Members vote with a picture alone or with its mirror image too, with the weights that the zoo gave them or all alike.
    """
    totals: dict[str, float] = {}
    for of_task in outputs:
        alike = torch.ones_like(of_task.weights)
        for mirroring, answers in (("", of_task.plain), (", mirrored", of_task.flipped)):
            if answers is None:
                continue
            for (rule, vote), (weighing, weights) in itertools.product(
                RULES.items(), (("", of_task.weights), (", all alike", alike))
            ):
                name = f"{rule}{weighing}{mirroring}"
                right = accuracy(vote(_logs(answers), weights), of_task.task.test.y)
                totals[name] = totals.get(name, 0.0) + right / len(outputs)
    return totals


def member_stats(outputs: Sequence[TaskOutputs], *, flips: bool) -> MemberStats:
    """How good the members of a zoo are one by one, and how far they differ."""
    rows = []
    for of_task in outputs:
        answers = of_task.flipped if flips and of_task.flipped is not None else of_task.plain
        labels = of_task.task.test.y
        each = [accuracy(answer, labels) for answer in answers]
        together = accuracy(mean(_logs(answers), of_task.weights), labels)
        rows.append((together, each[-1], max(each), fmean(each), _disagreement(answers.argmax(dim=2))))
    return MemberStats(*map(fmean, zip(*rows, strict=True)))


def _disagreement(named: Tensor) -> float:
    """The share of rows on which two members differ, over all pairs; 0 for one member."""
    members = len(named)
    if members < 2:
        return 0.0
    return float((named[:, None] != named[None]).float().mean(dim=2).sum()) / (members * (members - 1))


def _member_outputs(zoo: ModelZoo, members: Sequence[Member], task: str, x: Tensor, flips: bool) -> Tensor:
    """Probabilities of all classes; members that know fewer of them are completed by those that know all."""
    pieces = iter_probabilities([member.net.with_flips(flips) for member in members], x, task, zoo.recipe)
    outputs = [join(answers) for answers in zip(*pieces, strict=True)]
    votes, wanted = [member.votes[task] for member in members], zoo.classes[task]
    know_all = [place for place, vote in enumerate(votes) if vote.classes == wanted]
    if len(know_all) < len(votes):
        weights = vote_weights(votes)
        whole = average([outputs[place] for place in know_all], [weights[place] for place in know_all])
        outputs = [complete(answers, vote.classes, wanted, whole) for answers, vote in zip(outputs, votes, strict=True)]
    return torch.stack(outputs)


def _logs(answers: Tensor) -> Tensor:
    return answers.clamp_min(torch.finfo(torch.float32).tiny).log()
