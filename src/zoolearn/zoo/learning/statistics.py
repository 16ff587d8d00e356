"""What a zoo that keeps no rows keeps of a task instead: counts, means and scatter of features, by which it can grow.

They are of the features of the member that the task was first learned by; heads from statistics are on the same ones.
"""

import torch

from zoolearn.methods.parts.growth import Statistics
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.journal import Digest
from zoolearn.zoo.learning.recall import NetOf


def store_statistics(folder: ZooFolder, statistics: Statistics) -> Digest:
    """Writes them in float32, of the scatter what is on and above its diagonal; gives the digest of the file."""
    above = torch.triu_indices(*statistics.scatter.shape)
    tensors = {
        "counts": statistics.counts.long(),
        "means": statistics.means.float(),
        "scatter": statistics.scatter[above[0], above[1]].float(),
    }
    return folder.store_tensors("statistics", tensors)[0]


def stored_statistics(folder: ZooFolder, index: Index, net_of: NetOf, entry: TaskEntry) -> Statistics:
    """Those of all rows that have arrived of a task."""
    assert entry.statistics is not None
    member = next(member for member in index.members if entry.name in member.share)
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
