"""Every backbone against a second one: its layers written out from the papers, in double precision, with the same weights."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from toys import settled
from zoolearn.nets.backbones import BACKBONES, small_conv
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import identity, mlp, mlp_100, mlp_2000, tabular
from zoolearn.nets.published import (
    alexnet_hat,
    lenet_apd,
    mlp_agem,
    mlp_frcl,
    resnet18_s,
    resnet18_s_one_conv,
    wrn_16_4,
)
from zoolearn.seeds import generator, global_seed

DROPOUT = 0.3
CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("training", [False, True], ids=["asked", "trained"])


def body_of(backbone: Callable[..., nn.Module], shape: tuple[int, ...]) -> nn.Module:
    with global_seed(1, CPU):
        return settled(backbone(shape, DROPOUT)).double()


def inputs(count: int, *shape: int) -> Tensor:
    return torch.randn(count, *shape, generator=generator(2), dtype=torch.float64)


def seeded(function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """What the function gives if dropout draws from this seed: two that drop in the same places draw the same masks."""
    with global_seed(3, CPU), torch.no_grad():
        return function(*arguments)


def near(found: Tensor, expected: Tensor) -> bool:
    """Whether two computations in double precision agree, far below what any other order of layers would give."""
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-6, atol=1e-6)


# Layers


def convolved(x: Tensor, layer: nn.Module, stride: int = 1, padding: int = 0) -> Tensor:
    return F.conv2d(x, layer.weight, layer.bias, stride, padding)


def normed(x: Tensor, norm: nn.Module, training: bool) -> Tensor:
    """Mean 0 and deviation 1, by the batch's own statistics in training and by the gathered ones after, then a line."""
    places = [0, *range(2, x.ndim)]
    sizes = [1, -1, *[1] * (x.ndim - 2)]
    mean, variance = norm.running_mean.view(sizes), norm.running_var.view(sizes)
    if training:
        mean = x.mean(places, keepdim=True)
        variance = (x - mean).square().mean(places, keepdim=True)
    alike = (x - mean) / (variance + 1e-5).sqrt()
    return alike if norm.weight is None else alike * norm.weight.view(sizes) + norm.bias.view(sizes)


def dropped(x: Tensor, training: bool, rate: float = DROPOUT) -> Tensor:
    return F.dropout(x, rate, training)


# Blocks


def wide_block(block: nn.Module, x: Tensor, stride: int, training: bool) -> Tensor:
    """Norm, ReLU, convolution, norm, ReLU, dropout, convolution; a new width's shortcut starts after the first ReLU."""
    active = F.relu(normed(x, block.norm1, training))
    inner = F.relu(normed(convolved(active, block.conv1, stride, 1), block.norm2, training))
    residual = convolved(dropped(inner, training), block.conv2, 1, 1)
    return residual + (x if x.shape == residual.shape else convolved(active, block.shortcut, stride))


def basic_block(block: nn.Module, x: Tensor, stride: int, training: bool) -> Tensor:
    """Convolution, norm, ReLU, convolution, norm, and ReLU after the sum with the shortcut."""
    inner = F.relu(normed(convolved(x, block.conv1, stride, 1), block.norm1, training))
    residual = normed(convolved(inner, block.conv2, 1, 1), block.norm2, training)
    if x.shape != residual.shape:
        convolution, norm = block.shortcut
        x = normed(convolved(x, convolution, stride), norm, training)
    return F.relu(residual + x)


def one_conv_block(block: nn.Module, x: Tensor, stride: int, training: bool) -> Tensor:
    """Convolution, ReLU, norm, dropout, the sum with the shortcut, ReLU, norm, dropout."""
    inner = dropped(normed(F.relu(convolved(x, block.conv, stride, 1)), block.norm1, training), training)
    shortcut = x if x.shape == inner.shape else convolved(x, block.shortcut, stride)
    return dropped(normed(F.relu(inner + shortcut), block.norm2, training), training)


# Backbones


def wide_net(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    first, *blocks, norm, _, _, _ = body
    x = convolved(x, first, 1, 1)
    for block, stride in zip(blocks, (1, 1, 2, 1, 2, 1), strict=True):
        x = wide_block(block, x, stride, training)
    return F.relu(normed(x, norm, training)).mean((2, 3))


def residual_net(block_by_hand: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def net(body: nn.Module, x: Tensor, training: bool) -> Tensor:
        first, norm, _, *blocks, _, _ = body
        x = F.relu(normed(convolved(x, first, 1, 1), norm, training))
        for block, stride in zip(blocks, (1, 1, 2, 1, 2, 1, 2, 1), strict=True):
            x = block_by_hand(block, x, stride, training)
        return F.avg_pool2d(x, min(4, *x.shape[2:])).flatten(1)

    return net


def small_net(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    """Three times convolution, (but for the first) norm, ReLU and pooling."""
    first, second, third = (layer for layer in body if isinstance(layer, nn.Conv2d))
    norms = [layer for layer in body if isinstance(layer, nn.BatchNorm2d)]
    padding, pool = int(x.shape[-1] < 22), 3 if x.shape[-1] >= 64 else 2
    x = F.max_pool2d(F.relu(convolved(x, first, 1, padding)), pool)
    for convolution, norm in zip((second, third), norms, strict=True):
        x = F.max_pool2d(F.relu(normed(convolved(x, convolution, 1, padding), norm, training)), pool)
    return x.flatten(1)


def perceptron(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    x = x.flatten(1)
    for layer in (layer for layer in body if isinstance(layer, nn.Linear)):
        x = dropped(F.relu(x @ layer.weight.T + layer.bias), training)
    return x


def over_columns(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    _, norm, layers = body
    return perceptron(layers, normed(x.flatten(1), norm, training), training)


def net_of_hat(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    convolutions = [layer for layer in body if isinstance(layer, nn.Conv2d)]
    for layer, rate in zip(convolutions, (DROPOUT, DROPOUT, 2.5 * DROPOUT), strict=True):
        x = F.max_pool2d(dropped(F.relu(convolved(x, layer)), training, rate), 2)
    x = x.flatten(1)
    for layer in (layer for layer in body if isinstance(layer, nn.Linear)):
        x = dropped(F.relu(x @ layer.weight.T + layer.bias), training, 2.5 * DROPOUT)
    return x


def net_of_apd(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    for layer in (layer for layer in body if isinstance(layer, nn.Conv2d)):
        x = F.local_response_norm(F.relu(convolved(x, layer, 1, 2)), 9, alpha=0.001, beta=0.75)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
    x = x.flatten(1)
    for layer in (layer for layer in body if isinstance(layer, nn.Linear)):
        x = F.relu(x @ layer.weight.T + layer.bias)
    return x


def net_of_frcl(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    hidden, linear = (layer for layer in body if isinstance(layer, nn.Linear))
    active = dropped(F.relu(x.flatten(1) @ hidden.weight.T + hidden.bias), training)
    return active @ linear.weight.T + linear.bias


def as_they_are(body: nn.Module, x: Tensor, training: bool) -> Tensor:
    return x


BY_HAND = [
    (wrn_16_4, (3, 16, 12), wide_net),
    (resnet18_s, (3, 32, 32), residual_net(basic_block)),
    (resnet18_s, (1, 40, 72), residual_net(basic_block)),
    (resnet18_s, (1, 16, 16), residual_net(basic_block)),
    (resnet18_s_one_conv, (3, 32, 32), residual_net(one_conv_block)),
    (resnet18_s_one_conv, (1, 40, 72), residual_net(one_conv_block)),
    (small_conv, (3, 32, 32), small_net),
    (small_conv, (1, 12, 12), small_net),
    (small_conv, (3, 84, 84), small_net),
    (mlp, (1, 9, 7), perceptron),
    (mlp_100, (1, 9, 7), perceptron),
    (mlp_2000, (5,), perceptron),
    (tabular, (9,), over_columns),
    (identity, (9,), as_they_are),
    (alexnet_hat, (3, 32, 32), net_of_hat),
    (lenet_apd, (3, 12, 12), net_of_apd),
    (mlp_agem, (1, 9, 7), perceptron),
    (mlp_frcl, (1, 9, 7), net_of_frcl),
]


@MODES
@pytest.mark.parametrize(("backbone", "shape", "by_hand"), BY_HAND)
def test_a_backbone_computes_what_its_paper_says(backbone, shape, by_hand, training):
    body, x = body_of(backbone, shape), inputs(3, *shape)
    expected = seeded(by_hand, body, x, training)
    found = seeded(body.train(training), x)
    assert near(found, expected)
    assert float(found.std()) > 0.01  # not all alike, which any net would give


def test_every_backbone_is_written_out_here():
    assert {backbone for backbone, _, _ in BY_HAND} == {*BACKBONES.values()}


@MODES
@pytest.mark.parametrize(
    ("backbone", "by_hand", "stages"),
    [
        (wrn_16_4, wide_block, [(16, 64, 1), (64, 128, 2), (128, 256, 2)]),
        (resnet18_s, basic_block, [(20, 20, 1), (20, 40, 2), (40, 80, 2), (80, 160, 2)]),
        (resnet18_s_one_conv, one_conv_block, [(20, 20, 1), (20, 40, 2), (40, 80, 2), (80, 160, 2)]),
    ],
)
def test_each_block_halves_what_it_should_and_computes_what_its_paper_says(backbone, by_hand, stages, training):
    body = body_of(backbone, (3, 32, 32)).train(training)
    blocks = [layer for layer in body if type(layer).__name__.endswith("Block")]
    settings = [setting for width, wider, stride in stages for setting in ((width, wider, stride), (wider, wider, 1))]
    for block, (width, wider, stride) in zip(blocks, settings, strict=True):
        x = inputs(3, width, 8, 6)
        expected = seeded(by_hand, block, x, stride, training)
        assert expected.shape == (3, wider, 8 // stride, 6 // stride)
        assert near(seeded(block, x), expected)


@pytest.mark.parametrize(
    ("backbone", "maps"),
    [
        (wrn_16_4, [(64, 32), (64, 32), (128, 16), (128, 16), (256, 8), (256, 8)]),
        (resnet18_s, [(width, side) for width, side in ((20, 32), (40, 16), (80, 8), (160, 4)) for _ in range(2)]),
        (
            resnet18_s_one_conv,
            [(width, side) for width, side in ((20, 32), (40, 16), (80, 8), (160, 4)) for _ in range(2)],
        ),
    ],
)
def test_the_maps_of_a_cifar_image_become_as_small_as_published(backbone, maps):
    met = []
    body = backbone((3, 32, 32), 0.0).eval()
    for layer in body:
        if type(layer).__name__.endswith("Block"):
            layer.register_forward_hook(lambda _, __, out: met.append(tuple(out.shape[1:])))
    body(torch.zeros(1, 3, 32, 32))
    assert met == [(width, side, side) for width, side in maps]


@pytest.mark.parametrize(
    "backbone", [backbone for name, backbone in BACKBONES.items() if name not in ("alexnet-hat", "lenet-apd")]
)
def test_statistics_of_norms_move_a_tenth_of_the_way_to_those_of_each_batch(backbone):
    shape = (3, 24, 24)
    body, x = body_of(backbone, shape), inputs(5, *shape)
    norms = [layer for layer in body.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    assert bool(norms) == (backbone not in (identity, mlp, mlp_100, mlp_2000, mlp_agem, mlp_frcl))
    before = [(norm.running_mean.clone(), norm.running_var.clone()) for norm in norms]
    given = {}
    for norm in norms:
        norm.register_forward_hook(lambda norm, given_inputs, _: given.update({norm: given_inputs[0]}))
    seeded(body.train(), x)
    for norm, (mean, variance) in zip(norms, before, strict=True):
        columns = given[norm].transpose(0, 1).flatten(1)
        assert near(norm.running_mean, 0.9 * mean + 0.1 * columns.mean(1))
        assert near(norm.running_var, 0.9 * variance + 0.1 * columns.var(1, unbiased=True))


def test_convolutions_of_wrn_start_as_he_et_al_say_by_what_goes_out():
    with global_seed(0, CPU):
        body = wrn_16_4((3, 32, 32), 0.0)
    convolutions = [layer for layer in body.modules() if isinstance(layer, nn.Conv2d)]
    assert len(convolutions) == 16  # one first, two in each of six blocks, three shortcuts
    for layer in convolutions:
        count = layer.weight.numel()
        variance = 2 / (layer.out_channels * layer.kernel_size[0] ** 2)
        assert float(layer.weight.detach().var()) == pytest.approx(variance, rel=6 * (2 / count) ** 0.5)
        assert float(layer.weight.detach().mean()) == pytest.approx(0, abs=6 * (variance / count) ** 0.5)


@pytest.mark.parametrize("backbone", [resnet18_s, resnet18_s_one_conv, small_conv, alexnet_hat, lenet_apd])
def test_convolutions_of_the_others_start_even_up_to_one_over_the_root_of_what_comes_in(backbone):
    with global_seed(0, CPU):
        body = backbone((3, 32, 32), 0.0)
    for layer in (layer for layer in body.modules() if isinstance(layer, nn.Conv2d)):
        bound = (layer.in_channels * layer.kernel_size[0] ** 2) ** -0.5
        sizes = layer.weight.detach().abs()
        assert 0.95 * bound < float(sizes.max()) <= 1.001 * bound
        assert float(sizes.mean()) == pytest.approx(bound / 2, rel=4 / layer.weight.numel() ** 0.5)


@pytest.mark.parametrize(("backbone", "by_hand"), [(wrn_16_4, wide_net), (small_conv, small_net), (mlp, perceptron)])
def test_a_net_of_single_precision_in_its_own_layout_says_the_same_of_raw_pixels(backbone, by_hand):
    shape = (3, 32, 32)
    net = Net(backbone, shape, dropout=DROPOUT, pixel_mean=0.4, pixel_std=0.3, seed=1).eval()
    settled(net.backbone)
    x = torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=generator(0))
    with torch.no_grad():
        found = net.embed(x).double()
        expected = by_hand(net.backbone.double(), (x.double() / 255 - 0.4) / 0.3, False)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
