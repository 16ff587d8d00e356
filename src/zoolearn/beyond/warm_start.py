"""Warm starts: members that begin where the last one ended, refit their heads, and vote on every stored task.

Past the paper, whose members begin from scratch: `ModelZoo(grow=WarmStart())`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.beyond.linear_head import fit_head, set_head
from zoolearn.data.task import Task
from zoolearn.methods.ensemble import Member, Vote
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.net import Net
from zoolearn.nets.whitening import whiten
from zoolearn.settings import check_settings, setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Work
from zoolearn.training.predict import compute_features


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Grows a member from the last one. Each field is one idea; all False and 0, in one chain, is a bare warm start.

    With several `chains`, which take turns, members share no weights with those of other chains. Their errors differ, so
    that their mean is better than each, and an episode costs what it costs with one chain.

    A vote weighs, as in the paper, the share of the task's rows that the member had.

    >>> from zoolearn import Recipe, benchmark, mlp
    >>> zoo = ModelZoo(backbone=mlp, recipe=Recipe(epochs=2), tasks_per_episode=1, grow=WarmStart())
    >>> for task in benchmark("split-digits")[:2]:
    ...     zoo.learn(task)
    >>> [sorted(member.votes) for member in zoo.members]
    [['0-1'], ['0-1', '2-3']]
    """

    refit_heads: bool = setting(True, "fit the heads of tasks seen in full once more at the end")
    all_tasks: bool = setting(True, "fit heads for stored tasks that were not drawn, too")
    other_tasks: int = setting(
        20, "at most so many of them in an episode, those that waited longest", least=1, omit_default=True
    )
    whiten: bool = setting(False, "begin the first convolution as filters that whiten the first task's pictures")
    open_softmax: bool = setting(False, "train one softmax over the classes of all heads, and inherit the heads")
    read_layers: bool = setting(False, "let heads that are fitted read the layers inside the net, too")
    supersede: bool = setting(
        False, "let the newest members that had a task's data in full, as many as chains, answer alone for it"
    )
    chains: int = setting(
        1, "chains of members that take turns, each beginning where the last of its chain ended", least=1
    )

    def __post_init__(self) -> None:
        check_settings(WarmStart, vars(self))

    def __call__(self, zoo: ModelZoo, tasks: Sequence[Task], seed: int) -> Work[Member]:
        """The member of an episode on these tasks."""
        names = {task.name for task in tasks}
        others = self._others(zoo, names) if self.all_tasks else []
        net = zoo.new_net([*tasks, *others] if self.open_softmax else tasks, seed)
        if self.read_layers:
            net.read_layers()
        self._begin(zoo, net, tasks[0])
        open_loss = partial(open_cross_entropy, smoothing=zoo.recipe.label_smoothing) if self.open_softmax else None
        balanced = zoo.share_at_hand(tasks[0]) > zoo.replay
        loss = yield from zoo.fit(net, tasks, seed, balanced=balanced, loss=open_loss, heads=net.tasks)
        for task in tasks:
            zoo.correct_priors(net, task)
        net.freeze()
        votes = {tasks[0].name: self._trained_vote(zoo, net, tasks[0])}
        for task in (*tasks[1:], *others):
            if not self._is_left_to_others(zoo, task):
                vote = self._trained_vote if task.name in names else self.fitted_vote
                votes[task.name] = vote(zoo, net, task)
            elif task.name in net.tasks:  # the next member inherits its head
                votes[task.name] = zoo.vote(task, 0.0)
        return Member(net.freeze(), votes, loss, zoo.episode)

    def _others(self, zoo: ModelZoo, drawn: Collection[str]) -> list[Task]:
        """Stored tasks that were not drawn and get heads all the same: a bounded number, so that a long stream costs no more."""
        waiting = [name for name in zoo.kept if name not in drawn]
        if len(waiting) > self.other_tasks:
            newest = {name: place for place, member in enumerate(zoo.members) for name in member.votes}
            longest = sorted(waiting, key=lambda name: newest.get(name, -1))[: self.other_tasks]
            waiting = [name for name in waiting if name in longest]
        return [zoo.kept[name] for name in waiting]

    def _begin(self, zoo: ModelZoo, net: Net, task: Task) -> None:
        """Sets the initial weights of a net: those of the last member of its chain, or whitening filters for a first one."""
        before = (member.net for member in reversed(zoo.members) if member.trained)
        if (last := next(islice(before, self.chains - 1, None), None)) is not None:
            net.backbone.load_state_dict(last.backbone.state_dict())
            for name in set(net.tasks) & set(last.tasks) if self.open_softmax else ():
                _inherit_head(net, last, name)
        elif self.whiten:
            whiten(net, task.train.x, net.seed)

    def _is_left_to_others(self, zoo: ModelZoo, task: Task) -> bool:
        """Whether a past task is left to members that had its data in full, or new data of it."""
        return self.supersede and zoo.share_at_hand(task) <= zoo.replay < 1

    def _trained_vote(self, zoo: ModelZoo, net: Net, task: Task) -> Vote:
        """The vote on a task that the net was trained on; its head is refitted if the task was seen in full or grew."""
        share = zoo.share_at_hand(task)
        if self.refit_heads and (share == 1.0 or share > zoo.replay):
            return self.fitted_vote(zoo, net, task)
        return self._vote(zoo, task)

    def fitted_vote(self, zoo: ModelZoo, net: Net, task: Task) -> Vote:
        """The vote on a task whose head is fitted to the finished features."""
        if task.name not in net.tasks:
            net.add_head(task.name, len(task.classes), task.train.x)
        features = compute_features(net, net.scale_features(task.train.x, task.name), zoo.recipe)
        set_head(net, task.name, fit_head(features, task.train.y, len(task.classes), net.blocks))
        zoo.correct_priors(net, task)
        return self._vote(zoo, task)

    def _vote(self, zoo: ModelZoo, task: Task) -> Vote:
        share = zoo.share_at_hand(task)
        return zoo.vote(task, share, newest=self.chains if self.supersede and share == 1.0 else 0)


@torch.no_grad()
def _inherit_head(net: Net, last: Net, task: str) -> None:
    """Copies the trainable part of a head; columns of inner layers are fitted later.

    New classes stay untrained.
    """
    head, before = net.head(task), last.head(task)
    head.weight[: before.out_features, : net.features] = before.weight[:, : net.features]
    head.bias[: before.out_features] = before.bias


def open_cross_entropy(net: Net, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The mean cross-entropy over the classes of all heads of the net.

    With `smoothing`, this share of a label is spread evenly over all of them.
    """
    heads = [head for head in net.heads if isinstance(head, nn.Linear)]
    weight, bias = torch.cat([head.weight for head in heads]), torch.cat([head.bias for head in heads])
    sizes = torch.tensor([head.out_features for head in heads])
    first = (sizes.cumsum(0) - sizes)[[net.head_index[task] for task in batch.tasks]]
    labels = batch.y + first.to(batch.y.device)[batch.task_index]
    features = net.embed(net.scale_features_mixed(batch.x, batch.tasks, batch.task_index))
    logits = F.linear(features, weight[:, : features.shape[1]], bias)
    return F.cross_entropy(logits, labels, label_smoothing=smoothing)


def refit_head(zoo: ModelZoo, member: Member, task: Task) -> Member:
    """A member with the features of another and one head, fitted to all available rows of a task."""
    net = zoo.new_net([task], member.net.seed)
    if member.net.blocks:
        net.read_layers()
    net.backbone.load_state_dict(member.net.backbone.state_dict())
    if net.standardize:  # its features are of inputs on this scale
        scale = member.net.columns[member.net.head_index[task.name]]
        net.columns[0].load_state_dict(scale.state_dict())
    grow = zoo.grow if isinstance(zoo.grow, WarmStart) else WarmStart()
    vote = grow.fitted_vote(zoo, net.freeze(), task)
    return Member(net.freeze(), {task.name: vote}, member.loss, zoo.episode, trained=False)
