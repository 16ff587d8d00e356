"""Initialises the first convolution with filters that whiten image patches; no labels are needed."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.nets.net import Net
from zoolearn.seeds import derive, generator

PICTURES = 1000  # sampled for their patches
AT_ONCE = 100
GAIN = 2.0  # the standard deviation of a filter's output
FLOOR = 0.01  # added to variances, so that noise is not amplified; pixels have a variance of about 1


@torch.no_grad()
def whiten(net: Net, x: Tensor, seed: int) -> None:
    """Sets the first convolution of a net, if it has one, to filters that whiten the patches of raw inputs.

    The filters are the patches' principal axes divided by their standard deviations, each with both signs, so that both
    pass a ReLU; the remaining filters are random mixtures of them.

    >>> from zoolearn.nets.backbones import small_conv
    >>> net, noise = Net(small_conv, (3, 32, 32)), torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8)
    >>> whiten(net, noise, seed=0)
    >>> output = net.backbone[0](net.normalize(noise)).std(dim=(0, 2, 3))
    >>> bool((output / GAIN - 1).abs().max() < 0.05)
    True
    """
    layer = next((module for module in net.backbone.modules() if isinstance(module, nn.Conv2d)), None)
    if layer is None or layer.groups > 1:
        return
    rng = generator(derive(seed, "whitening"))
    chosen = x[torch.randperm(len(x), generator=rng)[:PICTURES]]
    variances, axes = torch.linalg.eigh(_patch_covariance(net, chosen, layer))
    whole = (axes / (variances.clamp_min(0.0) + FLOOR).sqrt()).T.flip(0)  # the largest variance first
    pairs = min(len(whole), layer.out_channels // 2)
    mixes = F.normalize(torch.randn(layer.out_channels - 2 * pairs, len(whole), generator=rng).double()) @ whole
    filters = torch.cat([whole[:pairs], -whole[:pairs], mixes])
    layer.weight.copy_(GAIN * filters.reshape(layer.weight.shape))


def _patch_covariance(net: Net, x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The covariance of patches of the size of a filter, over all positions."""
    size = layer.weight[0].numel()
    count, total, squares = 0, torch.zeros(size).double(), torch.zeros(size, size).double()
    for pictures in torch.split(x, AT_ONCE):
        columns = F.unfold(net.normalize(pictures), layer.kernel_size)
        patches = columns.transpose(1, 2).reshape(-1, size).double()
        count, total, squares = count + len(patches), total + patches.sum(dim=0), squares + patches.T @ patches
    mean = total / count
    return squares / count - torch.outer(mean, mean)
