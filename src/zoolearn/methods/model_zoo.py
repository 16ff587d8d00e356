"""Model Zoo (Ramesh and Chaudhari, 2022): every episode adds a small net, trained on the new task and a few hard past ones."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import load_state
from zoolearn.methods.learner import Episode, Learner, Part, Snapshot, accuracy, check_share
from zoolearn.methods.members import Member, Votes, heads_of, heads_part, label_logs
from zoolearn.methods.parts.held_out import is_held_out
from zoolearn.methods.parts.inherit import INHERIT, Inherit, begin_from, nobody
from zoolearn.methods.parts.linear_head import FittedHead, fit_head, set_head
from zoolearn.methods.parts.partners import MEASURES, Measure, Partner
from zoolearn.methods.parts.partners import loss as loss_of_partner
from zoolearn.methods.weighing import WEIGH, Weigh, boosted
from zoolearn.nets.backbones import Backbone
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.fit import Progress, cross_entropy, fitting
from zoolearn.training.predict import average, feature_rows, joined, probabilities, votes

PROBED = 500  # training rows of a new task that members are probed on
LEAST = -60.0  # logarithm of a vote's weight: sums of such votes are far from the smallest number there is


@dataclass(kw_only=True, eq=False)
class ModelZoo(Learner):
    """Grows by one small net an episode; answers for a task with the average of the members that know it.

    Episode k trains on task k and on up to `tasks_per_episode` - 1 past tasks, drawn without repeats with weights that
    `weigh` makes of the zoo's training losses. A prediction is sum_m share_m p_m(y | x) / sum_m share_m over the members
    m that were trained on the task (equation 3 of the paper, with the weighting of its appendix for limited replay).

    Where we differ from the paper: the new task is always trained on, and past ones are drawn without repeats (as in the
    authors' code, and as the text needs); each member starts from its own seed; limited replay keeps the same share of
    each class; half of each of its batches is of the new task, half of the past tasks together.

    >>> from zoolearn import Recipe, benchmark, mlp
    >>> zoo = ModelZoo(backbone=mlp, recipe=Recipe(epochs=2), tasks_per_episode=2)
    >>> first, second = benchmark("split-digits")[:2]
    >>> zoo.learn(first)
    >>> zoo.learn(second)
    >>> [sorted(member.share) for member in zoo.members]
    [['0-1'], ['0-1', '2-3']]
    >>> zoo.predict_proba(first.test.x[:3], task="0-1").sum(dim=1).tolist()
    [1.0, 1.0, 1.0]
    """

    grows: ClassVar[bool] = True

    tasks_per_episode: int = field(
        default=5, metadata={"help": "tasks that a member is trained on, the new one included (the paper's b)"}
    )
    replay: float = field(default=1.0, metadata={"help": "share of each past task's training data that is kept"})
    weigh: Weigh = field(
        default=boosted, metadata={"help": "how past tasks are weighed from their losses", "choices": WEIGH}
    )
    inherit: Inherit = field(
        default=nobody,
        metadata={"help": "whose backbone a new member begins with", "choices": INHERIT, "later": True},
    )
    partners: Measure = field(
        default=loss_of_partner, metadata={"help": "what past tasks are weighed by", "choices": MEASURES, "later": True}
    )
    shrink: float = field(default=1.0, metadata={"help": "inherited weights are multiplied by this", "later": True})
    perturb: float = field(default=0.0, metadata={"help": "how much of random weights is added", "later": True})
    heir_lr: float = field(
        default=1.0,
        metadata={"help": "learning rate of members that inherit, as a multiple of the recipe's", "later": True},
    )
    smoothing: float = field(
        default=0.0, metadata={"help": "share of a label that is spread over all classes in training", "later": True}
    )
    fit_heads: Literal["no", "before", "after", "both"] = field(
        default="no",
        metadata={
            "help": "fit heads to inherited features before training, to trained ones after it",
            "later": True,
        },
    )
    adoption: bool = field(
        default=False, metadata={"help": "give members heads for tasks that they were not trained on", "later": True}
    )
    elders: bool = field(
        default=True,
        metadata={
            "help": "older members adopt the new task too; without, only the newest adopts, past ones",
            "later": True,
        },
    )
    trust: float = field(
        default=0.0,
        metadata={
            "help": "above 0: a vote counts exp(trust x log-likelihood of rows), of unseen rows where there are any",
            "later": True,
        },
    )
    held_out: float = field(
        default=0.0,
        metadata={"help": "share of the kept rows that is not trained on again, to judge members", "later": True},
    )
    mirror: bool = field(
        default=False,
        metadata={
            "help": "look at the mirror image of a colour picture too, to answer and to fit heads",
            "later": True,
        },
    )

    members: list[Member] = field(init=False, default_factory=list)
    kept: dict[str, Task] = field(init=False, default_factory=dict, repr=False)  # the share of each task's data
    train_votes: dict[str, Votes] = field(init=False, default_factory=dict, repr=False)  # of the label, on `kept`
    test_votes: dict[str, Votes] = field(init=False, default_factory=dict, repr=False)  # of every class

    def __post_init__(self) -> None:
        if self.tasks_per_episode < 1:
            raise SettingsError(f"tasks_per_episode is {self.tasks_per_episode}; it counts the new task, so 1 or more")
        check_share("replay", self.replay)
        check_share("held_out", self.held_out)
        check_share("smoothing", self.smoothing)
        if not 0 < self.heir_lr < np.inf:
            raise SettingsError(f"heir_lr is {self.heir_lr}; it multiplies the learning rate, so give more than 0")
        if self.held_out == 1:
            raise SettingsError("held_out is 1; leave some rows to train on")
        if not (np.isfinite(self.shrink) and np.isfinite(self.perturb)):
            raise SettingsError(f"shrink is {self.shrink} and perturb is {self.perturb}; give finite numbers")
        if not 0 <= self.trust < np.inf:
            raise SettingsError(f"trust is {self.trust}; give 0 (all votes alike) or more")

    def absorb(self, task: Task) -> Generator[Progress, None, Episode]:
        """Draws past tasks, trains a member on them and on the new task, and counts its votes."""
        self._refuse_missing_data()
        weights = self.past_weights(task)
        drawn = self.draw(weights)
        loss = yield from self.grow([task, *(self.kept[name] for name in drawn)], self.episode_seed())
        if self.replay:
            self.kept[task.name] = task.keep(self.replay, derive(self.seed, "replay"))
        if self.adoption:
            self._adopt(task)
        self._count_train_votes([task.name, *drawn])
        return Episode((task.name, *drawn), weights, loss)

    def grow(self, tasks: Sequence[Task], seed: int) -> Generator[Progress, None, float]:
        """Trains one member on some tasks, the first of which it sees in full, and adds it to the zoo."""
        parents = self.inherit(len(self.members), lambda place: self.probe(place, tasks[0]))
        seen = [tasks[0], *(self.without_judges(task) for task in tasks[1:])]
        net = self.heir([self.members[place].net for place in parents], seen, seed)
        loss = yield from self.training(net, seen, seed, heir=bool(parents), balanced=self.replay < 1)
        net.freeze()
        share = {task.name: self.settled(net, task, new=task is tasks[0]) for task in tasks}
        self.members.append(Member(net, share, parents))
        return loss

    def training(
        self, net: Net, tasks: Sequence[Task], seed: int, *, heir: bool, balanced: bool = False
    ) -> Generator[Progress, None, float]:
        """Trains a member on rows of some tasks; one that inherits may have another learning rate."""
        train = fitting if self.crew is None else self.crew.fitting
        return train(
            net,
            tasks,
            replace(self.recipe, lr=self.recipe.lr * self.heir_lr) if heir else self.recipe,
            seed=seed,
            loss=partial(cross_entropy, smoothing=self.smoothing),
            balanced=balanced,
            checkpoints=self.checkpoints,
        )

    def settled(self, net: Net, task: Task, *, new: bool) -> float:
        """Fits the head of a task that a finished net saw in full, if that is wanted; gives the weight of its vote."""
        share = 1.0 if new else self.replay
        judges = None if new else self.judges(task)
        if share == 1.0 and self.fit_heads in ("after", "both"):
            head = self.fitted(net, task, judges)
            set_head(net, task.name, head)
            return self.weight_of(head, share)
        if not self.trust:
            return share
        rows = task.train if judges is None else task.train.select(judges.nonzero()[:, 0])
        answers = probabilities(net, rows.x, task.name, self.recipe, mirror=self.mirror)
        return self.trusted(float(label_logs(answers, rows.y).mean()))

    def judges(self, task: Task) -> Tensor | None:
        """Which of a past task's kept rows are held out to judge members; None if none are."""
        held = is_held_out(task.train, self.held_out, derive(self.seed, "held out")) if self.held_out else None
        return held if held is not None and bool(held.any()) else None

    def without_judges(self, task: Task) -> Task:
        """A past task with the kept rows that may be trained on again."""
        judges = self.judges(task)
        return task if judges is None else replace(task, train=task.train.select((~judges).nonzero()[:, 0]))

    def heir(self, parents: Sequence[Net], tasks: Sequence[Task], seed: int) -> Net:
        """The net that a member with these parents begins with."""
        net = self.new_net(tasks, seed)
        begin_from(net, parents, self.shrink, self.perturb)
        if parents and self.fit_heads in ("before", "both"):
            for task in tasks:
                set_head(net, task.name, self.fitted(net, task))
        return net

    def fitted(self, net: Net, task: Task, judges: Tensor | None = None) -> FittedHead:
        """A head for a task, on the features of a net as it is."""
        features = feature_rows(net, task.train.x, self.recipe, mirror=self.mirror)
        return fit_head(features, task.train.y, len(task.classes), judges)

    def _adopt(self, task: Task) -> None:
        """Makes the newest member able to speak for past tasks; and the others for the new one, if elders adopt."""
        *others, newest = self.members
        for name, kept in self.kept.items():
            if name not in newest.share:
                head = self.fitted(newest.net, kept, self.judges(kept))
                newest.adopt(name, head, self.weight_of(head, self.replay))
        for member in others if self.elders else ():
            head = self.fitted(member.net, task)
            member.adopt(task.name, head, self.weight_of(head, 1.0))

    def weight_of(self, head: FittedHead, share: float) -> float:
        """How much the vote of an adopted head counts that was fitted to this share of a task's rows."""
        return self.trusted(head.likelihood) if self.trust else share

    def trusted(self, likelihood: float) -> float:
        """The weight of a vote by the mean log-likelihood that its giver finds for rows whose labels are known."""
        return float(np.exp(max(self.trust * likelihood, LEAST)))

    def probe(self, place: int, task: Task) -> float:
        """How well the features of a member fit a task, by a sample of its training data."""
        sample = task.keep(min(1.0, PROBED / len(task.train)), derive(self.seed, "probe"))
        return self.fitted(self.members[place].net, sample).likelihood

    def past_weights(self, task: Task) -> dict[str, float]:
        """The normalised weight of every past task that can be drawn beside a new one."""
        if not self.train_votes or self.tasks_per_episode == 1:
            return {}
        measured = np.array([self.partners(self._partner(name, task)) for name in self.train_votes])
        return dict(zip(self.train_votes, self.weigh(measured).tolist(), strict=True))

    def _partner(self, name: str, new: Task) -> Partner:
        return Partner(
            loss=self.training_loss(name),
            kept=self.kept[name],
            members=[member.net for member in self.members if name in member.share.keys() - member.adopted],
            newest=self.members[-1].net,
            new=new,
            recipe=self.recipe,
            seed=self.episode_seed("partners"),
        )

    def training_loss(self, task: str) -> float:
        """Mean negative log-likelihood that the zoo gives to the kept training data of a task."""
        return self.train_votes[task].loss

    def draw(self, weights: Mapping[str, float]) -> list[str]:
        """Up to `tasks_per_episode` - 1 past tasks, without repeats."""
        names = list(weights)
        count = min(self.tasks_per_episode - 1, len(names))
        if not count:
            return []
        rng = np.random.default_rng(self.episode_seed("draw"))
        chances = np.fromiter(weights.values(), float)
        return [names[place] for place in rng.choice(len(names), count, replace=False, p=chances / chances.sum())]

    def _refuse_missing_data(self) -> None:
        """What an episode looks back at must be at hand: it is not where a zoo was loaded to answer only."""
        needed = list(self.classes) if self.adoption and self.replay else list(self.train_votes)
        missing = [name for name in needed if name not in self.kept]
        if missing:
            raise DataError(
                f"the data of task {missing[0]!r} is not at hand, so the zoo can answer but not learn on; "
                "continue it with the benchmark it was grown on"
            )

    def answer(self, x: Tensor, task: str) -> Tensor:
        """The weighted average of the members that know the task."""
        speakers = [member for member in self.members if task in member.share]
        shares = [member.share[task] for member in speakers]
        pieces = votes([member.net for member in speakers], x, task, self.recipe, mirror=self.mirror)
        return joined([average(said, shares) for said in pieces])

    def ask(self, member: Member, x: Tensor, task: str) -> Tensor:
        """What one member says."""
        return probabilities(member.net, x, task, self.recipe, mirror=self.mirror)

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of the tasks that got a new vote since the last call; only the new members are asked."""
        changed = {}
        for task in tasks:
            votes = self.test_votes.setdefault(task.name, Votes(torch.zeros(())))
            if self._ask_new_members(votes, task.name, task.test.x):
                changed[task.name] = accuracy(votes.mean, task.test.y)
        return changed

    def _count_train_votes(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.kept and self.tasks_per_episode > 1:
                votes = self.train_votes.setdefault(name, Votes(torch.zeros(())))
                train = self.kept[name].train
                self._ask_new_members(votes, name, train.x, train.y)

    def _ask_new_members(self, votes: Votes, task: str, x: Tensor, labels: Tensor | None = None) -> bool:
        """Adds the votes (on the labels, if given, and of members trained on them) that came since; says if any did."""
        before = votes.weight
        for member in self.members[votes.members :]:
            if task in member.share and not (labels is not None and task in member.adopted):
                if labels is None:
                    answers = self.ask(member, x, task)
                else:
                    answers = probabilities(member.net, x, task, self.recipe).gather(1, labels[:, None])[:, 0]
                votes.add(answers, member.share[task])
        votes.members = len(self.members)
        return votes.weight > before

    def knowledge(self) -> Snapshot:
        """The latest episode's members, and the votes that they changed."""
        assert self.latest is not None
        parts = {}
        first = len(self.members) - self.members_per_episode
        for number, member in enumerate(self.members[first:], first + 1):
            info = {
                "net": member.net.spec(),
                "share": member.share,
                "parents": list(member.parents),
                "adopted": sorted(member.adopted),
            }
            parts[f"members/{number:04d}"] = Part(member.net.state_dict(), info)
        newest = self.latest.tasks[0]
        heads = {place: member for place, member in enumerate(self.members) if newest in member.adopted}
        if heads:
            parts[f"heads/{self.episode:04d}"] = heads_part(newest, heads)
        changed = list(self.classes) if self.adoption else self.latest.tasks
        tensors, counts = {}, {}
        for kind, counted in (("train", self.train_votes), ("test", self.test_votes)):
            for place, name in enumerate(changed):
                if name in counted:
                    tensors[f"{kind}.{place}"] = counted[name].total
                    counts[f"{kind}.{place}"] = [name, counted[name].weight, counted[name].members]
        parts[f"votes/{self.episode:04d}"] = Part(tensors, counts)
        return Snapshot({}, parts)

    def recall(self, snapshots: Sequence[Snapshot], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up every episode's members and the newest votes of each task."""
        for snapshot in snapshots:
            for name, part in snapshot.parts.items():
                if name.startswith("members/"):
                    net = Net.from_spec(part.info["net"], backbones)
                    load_state(net, part.tensors, name)
                    parents = tuple(part.info.get("parents", ()))
                    adopted = set(part.info.get("adopted", ()))
                    self.members.append(Member(net.freeze(), dict(part.info["share"]), parents, adopted))
                elif name.startswith("heads/"):
                    for place, head, share in heads_of(part):
                        self.members[place].adopt(part.info["task"], head, share)
                else:
                    self._recall_votes(part)
        if self.replay:
            self.kept = {task.name: task.keep(self.replay, derive(self.seed, "replay")) for task in tasks}

    def _recall_votes(self, part: Part) -> None:
        for key, (name, weight, members) in part.info.items():
            votes = self.train_votes if key.startswith("train.") else self.test_votes
            votes[name] = Votes(part.tensors[key], weight, members)

    @property
    def members_per_episode(self) -> int:
        """How many members an episode adds."""
        return 1

    @property
    def stored_samples(self) -> int:
        """Kept training examples."""
        return sum(len(task.train) for task in self.kept.values())

    @property
    def weights(self) -> int:
        """Weights of all members."""
        return sum(member.weights for member in self.members)
