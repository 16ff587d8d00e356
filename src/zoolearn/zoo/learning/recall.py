"""From files back to what they were: nets, votes, and the learner that a zoo's settings describe."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from zoolearn.beyond.temperature import apply_temperature, fit_temperature
from zoolearn.errors import SettingsError, StoreError
from zoolearn.files import load_state
from zoolearn.methods.ensemble import Arrived, Member, Vote, Votes, label_probabilities
from zoolearn.methods.learner import accuracy
from zoolearn.nets.backbones import Shape
from zoolearn.nets.net import Net
from zoolearn.training.predict import combine
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.entries import Measure, MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.lazy import LazyDict, LazyList
from zoolearn.zoo.disk.stored import drop_deleted, load_task
from zoolearn.zoo.learning.scores import balanced_accuracy
from zoolearn.zoo.settings import Names, find_backbone

NetOf = Callable[[MemberEntry], Net]


def load_net(folder: ZooFolder, index: Index, member: MemberEntry, names: Names | None) -> Net:
    """A member's net, after comparing its file with what the index lets expect; nothing is allocated before."""
    recipe, settings = index.settings.recipe, index.settings
    heads = {name: len(index.knows(member, name)) for name in member.heads}
    spec = {
        "backbone": settings.backbone,
        "shape": list(settings.stored_shape),
        "dropout": recipe["dropout"],
        "pixel_mean": recipe["pixel_mean"],
        "pixel_std": recipe["pixel_std"],
        "flip_tta": recipe["flip_tta"],
        "standardize": settings.stored_dtype == "float32",
        "heads": list(heads.values()),
        "head_index": {name: place for place, name in enumerate(heads)},
        "layers": member.layers,
    }
    backbones = {str(settings.backbone): find_backbone(str(settings.backbone), names)}
    try:
        with torch.device("meta"):
            template = Net.from_spec({**spec, "features": _features(folder, member)}, backbones).state_dict()
    except (RuntimeError, SettingsError) as error:
        raise StoreError(
            f"{folder.path}: no {settings.backbone} for inputs {settings.stored_shape} ({error})"
        ) from error
    wanted = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in template.items()}
    tensors = folder.tensors("members", member.file, wanted)
    net = Net.from_spec(spec, backbones)
    load_state(net, tensors, f"member {member.number}")
    return net.freeze()


def _features(folder: ZooFolder, member: MemberEntry) -> int | None:
    """The features of a member's net, by its file: to ask a net without weights would load a compiler, which takes a second.

    None where heads read the layers inside, too: their width does not tell.
    """
    if member.layers:
        return None
    with suppress(SafetensorError), safe_open(folder.file("members", member.file), framework="np") as file:
        width: int = file.get_slice("heads.0.weight").get_shape()[-1]
        return width
    return 1  # of a file that will be refused


def load_votes(folder: ZooFolder, index: Index, member: MemberEntry, task: str | None = None) -> dict[str, Tensor]:
    """A member's votes on the rows that were there in its own episode, of one task or of all.

    `test.K` are of all classes of the K-th task that it has a head for, `train.K` of the labels of a task that it
    was trained on.
    """
    wanted: dict[str, tuple[Shape, torch.dtype]] = {}
    for place, name in enumerate(member.heads):
        if task not in (None, name):
            continue
        entry = index.tasks[name].as_of(member.episode)
        wanted[f"test.{place}"] = ((entry.rows_held_out, len(entry.classes)), torch.float32)
        if has_train_votes(index, member, name):
            wanted[f"train.{place}"] = ((entry.rows_kept,), torch.float32)
    return folder.tensors("votes", member.votes, wanted, whole=task is None)


def load_arrival_votes(folder: ZooFolder, index: Index, arrival: Arrival) -> Tensor:
    """The votes of older members on the held-out rows of an arrival: (member, row, class), members as in `asked`."""
    assert arrival.votes is not None
    assert arrival.test is not None
    classes = len(index.tasks[arrival.task].as_of(arrival.episode - 1).classes)
    shape = (len(arrival.asked), arrival.test.count, classes)
    return folder.tensors("votes", arrival.votes, {"test": (shape, torch.float32)})["test"]


def has_train_votes(index: Index, member: MemberEntry, task: str) -> bool:
    """Whether a member's file has its votes on a task's kept rows, which weigh past tasks."""
    return task in member.tasks and index.settings.tasks_per_episode > 1 and index.tasks[task].keeps_rows


class StoredVotes:
    """The votes of a zoo's members on its stored rows; each file is read once."""

    def __init__(self, folder: ZooFolder, index: Index) -> None:
        self.folder, self.index = folder, index
        self.files: dict[tuple[int, str], dict[str, Tensor]] = {}
        self.beside: dict[int, Tensor] = {}  # by episode

    def votes_of(self, member: MemberEntry, task: str, at: int | None = None) -> Tensor:
        """A member's votes on the held-out rows of a task, among the classes that it knows."""
        votes = self._load(member, task)[f"test.{member.heads.index(task)}"]
        for arrival in self.index.tasks[task].arrivals_since(member.episode):
            if at is not None and arrival.episode > at:
                break
            if arrival.fix_test is not None:
                votes = drop_deleted(self.folder, arrival.fix_test, votes)
            if arrival.test is not None:
                votes = torch.cat(
                    [votes, self._load_arrival(arrival)[arrival.asked.index(member.number), :, : votes.shape[1]]]
                )
        return votes

    def answer(self, task: str, index: Index | None = None, at: int | None = None) -> Tensor:
        """The zoo's probabilities for the held-out rows of a task: now, as of an episode, or of an earlier `index`."""
        index = index or self.index
        voters = index.voters(task, at)
        return combine(
            [self.votes_of(member, task, at) for member in voters],
            [index.weight(member, task, at) for member in voters],
            [index.knows(member, task) for member in voters],
            index.task(task, at).classes,
        )

    def train(self, task: str, at: int | None = None) -> Votes:
        """The sum of votes on the labels of a task's kept rows, of the members that saw all of these rows."""
        votes = Votes("stored")
        entry = self.index.task(task, at)
        for member in self.index.all_voters(task, at):
            if member.episode >= entry.latest and has_train_votes(self.index, member, task):
                votes = votes.add(self._load(member, task)[f"train.{member.tasks.index(task)}"], member.share[task])
        return votes

    def _load(self, member: MemberEntry, task: str) -> dict[str, Tensor]:
        if (member.number, task) not in self.files:
            self.files[member.number, task] = load_votes(self.folder, self.index, member, task)
        return self.files[member.number, task]

    def _load_arrival(self, arrival: Arrival) -> Tensor:
        if arrival.episode not in self.beside:
            self.beside[arrival.episode] = load_arrival_votes(self.folder, self.index, arrival)
        return self.beside[arrival.episode]


class KnownVotes(Votes):
    """Votes whose loss is known; the votes themselves are read only when one is added."""

    read: Callable[[], Votes]

    def __init__(self, loss: float, read: Callable[[], Votes]) -> None:
        self.__dict__.update(rows="stored", loss=loss, read=read)  # as `Votes` keeps them, without a total

    def add(self, output: Tensor, weight: float) -> Votes:
        return self.read().add(output, weight)


def measure_answers(probabilities: Tensor, labels: Tensor, loss: float | None, *, calibrates: bool = True) -> Measure:
    """Accuracy of answers on labelled rows, the temperature fitted to them, and the mean confidence with it.

    Without `calibrates`, the temperature is 1: heads from statistics are calibrated by leave-one-out already.
    """
    temperature = fit_temperature(probabilities, labels) if calibrates else 1.0
    chosen = apply_temperature(probabilities, temperature).max(dim=1).values
    shares = accuracy(probabilities, labels), balanced_accuracy(probabilities, labels)
    return Measure(*shares, min(1.0, float(chosen.double().mean())), loss, temperature)


def load_learner(
    folder: ZooFolder, index: Index, net_of: NetOf, names: Names | None, epochs: int | None = None
) -> OwnedZoo:
    """The learner of a zoo after its last episode; rows, votes and nets are read when it uses them.

    `epochs` are those of the next episode, if given.
    """
    learner = index.settings.learner(names, epochs)
    learner.episode = len(index.episodes)
    learner.members = list_members(index, index.members, net_of)
    learner.classes = LazyDict(index.tasks, lambda name: index.tasks[name].classes)  # type: ignore[assignment]
    learner.arrived = LazyDict(index.tasks, lambda name: count_arrived(index.tasks[name]))  # type: ignore[assignment]
    kept = index.records.kept_tasks
    learner.kept = LazyDict(kept, lambda name: load_task(folder, index.tasks[name]))
    stored, losses = StoredVotes(folder, index), index.records.losses
    for name in kept if learner.tasks_per_episode > 1 else ():
        loss = losses[name]
        known = None if loss is None else KnownVotes(loss, partial(stored.train, name))
        learner.train_votes[name] = known or _ask_voters(index, learner, net_of, name)
    if index.tasks:
        learner.shape = index.settings.stored_shape
        learner.dtype = getattr(torch, index.settings.stored_dtype)
    return learner


def count_arrived(task: TaskEntry) -> Arrived:
    """The rows of a task that have arrived, as a learner counts them."""
    return Arrived(tuple(task.arrived[name] for name in task.classes))


def _ask_voters(index: Index, learner: OwnedZoo, net_of: NetOf, task: str) -> Votes:
    """Votes of the present voters on the labels of a task's kept rows, if no member trained on the task is left."""
    votes, since = Votes("kept"), index.tasks[task].last_class
    for member in [voter for voter in index.voters(task) if voter.episode >= since]:
        output = label_probabilities(net_of(member), learner.kept[task].train, task, learner.recipe)
        votes = votes.add(output, member.share[task])
    return votes


def list_members(index: Index, entries: Sequence[MemberEntry], net_of: NetOf) -> LazyList[Member]:
    """Members of a zoo as a learner has them, read when they are used."""
    return LazyList(partial(_ensemble_member, index, entries, place, net_of) for place in range(len(entries)))


def _ensemble_member(index: Index, entries: Sequence[MemberEntry], place: int, net_of: NetOf) -> Member:
    """A member with the votes that count now."""
    entry = entries[place]
    votes = {
        task: Vote(
            weight, index.knows(entry, task), entry.newest.get(task, 0), index.tasks[task].rows_seen(entry.episode)
        )
        for task, weight in entry.share.items()
        if entry.votes_on(task)
    }
    return Member(net_of(entry), votes, entry.loss, entry.episode - 1, trained=entry.refits is None)
