"""The ResNet18-S variant with one convolution per block, as Stable-SGD and TAG run it."""

import torch
from torch import nn

from zoolearn.nets.backbones import BACKBONES, resnet18_s, resnet18_s_one_conv
from zoolearn.nets.net import Net


def one_conv(dropout: float = 0.0) -> nn.Module:
    return resnet18_s_one_conv((3, 32, 32), dropout)


def test_it_is_found_by_its_name() -> None:
    assert BACKBONES["resnet18-s-one-conv"] is resnet18_s_one_conv


def test_each_block_has_one_3x3_convolution_and_shortcuts_have_no_batch_norm() -> None:
    kernels = [module.kernel_size for module in one_conv().modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in one_conv().modules() if isinstance(module, nn.BatchNorm2d)]
    assert kernels.count((3, 3)) == 1 + 8
    assert kernels.count((1, 1)) == 3
    assert len(norms) == 1 + 2 * 8


def test_it_has_the_weights_of_resnet18_s_but_the_second_convolutions_and_the_norms_of_shortcuts() -> None:
    whole = sum(parameter.numel() for parameter in resnet18_s((3, 32, 32)).parameters())
    second = sum(2 * 9 * width * width for width in (20, 40, 80, 160))
    norms = sum(2 * width for width in (40, 80, 160))
    assert sum(parameter.numel() for parameter in one_conv().parameters()) == whole - second - norms == 480_580


def test_a_block_is_convolution_relu_norm_then_shortcut_relu_norm() -> None:
    block = one_conv().eval()[3]
    x = torch.randn(2, 20, 8, 8)
    inner = block.norm1(torch.relu(block.conv(x)))
    assert torch.equal(block(x), block.norm2(torch.relu(inner + x)))


def test_units_are_dropped_after_every_norm_of_a_block_in_training_only() -> None:
    net = one_conv(0.5)
    assert [module.p for module in net.modules() if isinstance(module, nn.Dropout)] == [0.5] * 8
    x = torch.randn(4, 3, 32, 32)
    dropped = net.train()(x)
    assert (dropped == 0).float().mean() < 0.5  # averaged over 4x4 places, few features are wholly dropped
    assert not torch.equal(dropped, net(x))
    assert torch.equal(net.eval()(x), net(x))


def test_it_takes_images_of_other_sizes() -> None:
    assert Net(resnet18_s_one_conv, (1, 28, 28)).features == 160
    assert Net(resnet18_s_one_conv, (3, 84, 84)).features == 640
    assert Net(resnet18_s_one_conv, (1, 8, 8)).features == 160
