"""The ResNet18-S variant with one convolution per block, as Stable-SGD and TAG run it."""

import pytest
import torch
from torch import Tensor, nn

from toys import settled
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.nets.published import resnet18_s, resnet18_s_one_conv
from zoolearn.seeds import global_seed


def one_conv(dropout: float = 0.0) -> nn.Module:
    with global_seed(0, torch.device("cpu")):
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


@pytest.mark.parametrize("training", [False, True])
def test_a_block_is_convolution_relu_norm_then_shortcut_relu_norm(training: bool) -> None:
    block = settled(one_conv()).double().train(training)[3]
    x = torch.randn(2, 20, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inner = block.norm1(torch.relu(block.conv(x)))
    expected = block.norm2(torch.relu(inner + x))
    other = block.norm2(torch.relu(torch.relu(block.norm1(block.conv(x))) + x))  # the order of ResNet18-S
    assert torch.allclose(block(x), expected, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(expected, other, rtol=0.1, atol=0.1)


def test_units_are_dropped_after_every_norm_of_a_block_in_training_only() -> None:
    net = one_conv(0.5)
    blocks = [layer for layer in net if hasattr(layer, "drop")]
    assert [block.drop.p for block in blocks] == [0.5] * 8
    given: list[Tensor] = []
    for block in blocks:
        block.drop.register_forward_hook(lambda _, inputs, output: given.extend((inputs[0], output)))
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with global_seed(0, torch.device("cpu")):
        net.train()(x)
    pairs = [*zip(given[::2], given[1::2], strict=True)]
    assert len(pairs) == 2 * 8
    for before, after in pairs:
        dropped = after == 0
        assert 0.4 < float(dropped.float().mean()) < 0.6
        assert torch.allclose(after[~dropped], 2 * before[~dropped])
    assert torch.equal(net.eval()(x), net(x))


def test_it_takes_images_of_other_sizes() -> None:
    assert Net(resnet18_s_one_conv, (1, 28, 28)).features == 160
    assert Net(resnet18_s_one_conv, (3, 84, 84)).features == 640
    assert Net(resnet18_s_one_conv, (1, 8, 8)).features == 160
