"""What is kept of a task where not all of its rows are: counts, means and scatter of features, by which it can grow.

They are of the features of one member, that which the task was first learned by; heads from statistics are on the same ones.
Where that member and its copies were pruned, they begin anew with the next one that is trained on the task.
"""

from copy import deepcopy

import torch
from msgspec.structs import replace as changed
from torch import nn

from zoolearn.methods.ensemble import Member
from zoolearn.methods.parts.growth import Statistics, feature_statistics
from zoolearn.nets.net import Net
from zoolearn.training.predict import compute_features
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.entries import MemberEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.stored import load_inputs, load_labels, load_task
from zoolearn.zoo.learning.recall import NetOf


def store_statistics(folder: ZooFolder, statistics: Statistics) -> str:
    """Writes them in float32, of the scatter what is on and above its diagonal; gives the digest of the file."""
    above = torch.triu_indices(*statistics.scatter.shape)
    tensors = {
        "counts": statistics.counts.long(),
        "means": statistics.means.float(),
        "scatter": statistics.scatter[above[0], above[1]].float(),
    }
    return folder.store_tensors("statistics", tensors)[0]


def find_statistics_member(index: Index, entry: TaskEntry) -> MemberEntry | None:
    """The member whose features the statistics of a task are of, or a head on these; None where both are gone."""
    if entry.statistics is None:
        return None
    number = entry.counted.seen_by
    if number in index.records.members:
        return index.member(number)
    heads = index.with_votes_on(entry.name)
    return next((member for member in heads if number in (None, member.refits)), None)


def read_statistics(folder: ZooFolder, index: Index, net_of: NetOf, entry: TaskEntry) -> Statistics | None:
    """Those of all rows that have arrived of a task; None where nobody has features that they are of."""
    member = find_statistics_member(index, entry)
    if member is None or entry.statistics is None:
        return None
    classes, width = len(entry.classes), net_of(member).head(entry.name).in_features
    wanted = {
        "counts": ((classes,), torch.int64),
        "means": ((classes, width), torch.float32),
        "scatter": ((width * (width + 1) // 2,), torch.float32),
    }
    found = folder.tensors("statistics", entry.statistics, wanted)
    above = torch.triu_indices(width, width)
    scatter = torch.zeros(width, width, dtype=torch.float64)
    scatter[above[0], above[1]] = found["scatter"].double()
    return Statistics(found["counts"].double(), found["means"].double(), scatter + scatter.triu(1).T)


def load_statistics(folder: ZooFolder, index: Index, net_of: NetOf, task: str, learner: OwnedZoo) -> MemberEntry | None:
    """Lets a learner grow a task by them; gives the member that has the features which they are of."""
    entry = index.tasks[task]
    known, member = read_statistics(folder, index, net_of, entry), find_statistics_member(index, entry)
    if known is not None and member is not None:
        learner.statistics[task] = known
        learner.seeing[task] = Member(with_one_head(net_of(member), task), {}, member.loss, member.episode - 1)
    return member


def with_one_head(net: Net, task: str) -> Net:
    """A net with the head of one task, and no other."""
    alone, place = deepcopy(net), net.head_index[task]
    alone.heads = nn.ModuleList([alone.heads[place]])
    alone.columns = nn.ModuleList([alone.columns[place]] if net.standardize else [])
    alone.head_index = {task: 0}
    return alone


def correct_statistics(folder: ZooFolder, index: Index, net_of: NetOf, arrival: Arrival, recipe: Recipe) -> Arrival:
    """An arrival that corrects rows of a task, with the statistics of the task once they are corrected, where those are kept."""
    entry = index.tasks[arrival.task]
    known, member = read_statistics(folder, index, net_of, entry), find_statistics_member(index, entry)
    if known is None or member is None or arrival.fix_train is None:
        return arrival
    rows, labels = folder.tensor(arrival.fix_train.pairs).unbind(dim=1)
    net, x = net_of(member), load_inputs(folder, entry, "train")[rows]
    features = compute_features(net, net.scale_features(x, entry.name), recipe)
    were, left, classes = load_labels(folder, entry, "train")[rows], labels >= 0, len(entry.classes)
    found = subtract(known, Statistics.of(features, were, classes)).merge(
        Statistics.of(features[left], labels[left], classes)
    )
    return changed(arrival, statistics=store_statistics(folder, found), seen_by=entry.counted.seen_by)


def subtract(known: Statistics, gone: Statistics) -> Statistics:
    """Statistics of the rows that are left when some are gone; of every class one at least."""
    counts = known.counts - gone.counts
    means = (known.counts[:, None] * known.means - gone.counts[:, None] * gone.means) / counts[:, None]
    moved = gone.means - means
    apart = (counts * gone.counts / known.counts)[:, None] * moved
    return Statistics(counts, means, known.scatter - gone.scatter - moved.T @ apart)


def recompute_statistics(folder: ZooFolder, index: Index, net_of: NetOf, arrival: Arrival, recipe: Recipe) -> Arrival:
    """An arrival whose statistics are of what is kept of the rows, since they were of rows or features that are gone."""
    entry = index.tasks[arrival.task].as_of(arrival.episode)
    member = find_statistics_member(index, entry) if entry.counted.episode == arrival.episode else None
    if member is None:
        return changed(arrival, statistics=None, seen_by=None)
    found = feature_statistics(net_of(member), load_task(folder, entry), recipe)
    return changed(arrival, statistics=store_statistics(folder, found))
