"""Feature statistics of tasks of which not all rows are kept: counts, means and scatter, by which a task can grow.

They are of the features of the task's first member, and heads made of them use the same features. If that member and its
copies were pruned, statistics start again with the next member trained on the task.
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
    """Writes statistics in float32, of the scatter its upper triangle; returns the digest of the file."""
    above = torch.triu_indices(*statistics.scatter.shape)
    tensors = {
        "counts": statistics.counts.long(),
        "means": statistics.means.float(),
        "scatter": statistics.scatter[above[0], above[1]].float(),
    }
    return folder.store_tensors("statistics", tensors)[0]


def find_statistics_member(index: Index, entry: TaskEntry) -> MemberEntry | None:
    """The member whose features the statistics of a task are of, or one that refits it; None if both are gone."""
    if entry.statistics is None:
        return None
    number = entry.counted.seen_by
    if number in index.records.members:
        return index.member(number)
    heads = index.with_votes_on(entry.name)
    return next((member for member in heads if number in (None, member.refits)), None)


def read_statistics(folder: ZooFolder, index: Index, net_of: NetOf, entry: TaskEntry) -> Statistics | None:
    """The statistics of all rows of a task that have arrived; None if no member has their features."""
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
    """Loads the statistics of a task into a learner; returns the member that has their features."""
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
    """A correction of rows with the corrected statistics of its task, if the zoo keeps them."""
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
    """Statistics of the remaining rows after some are removed, at least one row of every class remaining."""
    counts = known.counts - gone.counts
    means = (known.counts[:, None] * known.means - gone.counts[:, None] * gone.means) / counts[:, None]
    moved = gone.means - means
    apart = (counts * gone.counts / known.counts)[:, None] * moved
    return Statistics(counts, means, known.scatter - gone.scatter - moved.T @ apart)


def recompute_statistics(folder: ZooFolder, index: Index, net_of: NetOf, arrival: Arrival, recipe: Recipe) -> Arrival:
    """An arrival with statistics of the kept rows, in place of some of rows or features that are gone."""
    entry = index.tasks[arrival.task].as_of(arrival.episode)
    member = find_statistics_member(index, entry) if entry.counted.episode == arrival.episode else None
    if member is None:
        return changed(arrival, statistics=None, seen_by=None)
    found = feature_statistics(net_of(member), load_task(folder, entry), recipe)
    return changed(arrival, statistics=store_statistics(folder, found))
