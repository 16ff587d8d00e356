"""One softmax over the classes of all tasks, in place of one for each task: rows teach what tells tasks apart, too."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.nets.net import Net
from zoolearn.training.batches import Batch


def open_cross_entropy(net: Net, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean over rows of the negative log-likelihood of each row's label among the classes of all heads of the net.

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
