"""The nets that HAT, APD, FedWeIT and FRCL were published with."""

import pytest
import torch
from torch import nn

from zoolearn.errors import SettingsError
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.nets.published import alexnet_hat, lenet_apd


def numbers(module, kind=""):
    return sum(parameter.numel() for name, parameter in module.named_parameters() if name.endswith(kind))


def test_the_net_of_hat_has_as_many_weights_as_published():
    net = Net(alexnet_hat, (3, 32, 32))
    assert net.num_parameters == 6_503_872
    for dataset, classes in enumerate((10, 100, 10, 10, 10, 43, 100, 10)):  # the eight data sets of its mixture
        net.add_head(str(dataset), classes)
    assert net.num_parameters == 7_104_229  # the paper says 7.1 M


def test_the_net_of_apd_has_as_many_weights_as_published():
    body = lenet_apd((3, 32, 32))
    assert numbers(body, "weight") == 2_986_500
    assert numbers(body, "bias") == 1_370


def test_the_net_of_hat_drops_as_many_units_as_published():
    rates = [module.p for module in alexnet_hat((3, 32, 32), 0.2) if isinstance(module, nn.Dropout)]
    assert rates == [0.2, 0.2, 0.5, 0.5, 0.5]
    assert {module.p for module in alexnet_hat((3, 32, 32), 0.0) if isinstance(module, nn.Dropout)} == {0.0}


def test_the_features_of_frcl_are_linear_in_its_hidden_units():
    net = Net(BACKBONES["mlp-frcl"], (1, 28, 28), seed=0)
    assert net.num_parameters == 784 * 100 + 100 + 100 * 100 + 100
    features = net.embed(torch.randint(0, 256, (64, 1, 28, 28), dtype=torch.uint8))
    assert features.shape == (64, 100)
    assert bool((features < 0).any())


def test_the_net_of_a_gem_begins_as_in_its_code():
    net = Net(BACKBONES["mlp-agem"], (1, 28, 28), seed=0)
    weights = torch.cat([weight.detach().flatten() for weight in net.backbone.parameters() if weight.dim() == 2])
    assert float(weights.abs().max()) <= 0.2
    assert float(weights.std()) == pytest.approx(0.088, abs=1e-3)  # of a normal distribution cut off at two deviations
    biases = torch.cat([bias.detach() for bias in net.backbone.parameters() if bias.dim() == 1])
    assert biases.unique().tolist() == [pytest.approx(0.1)]


@pytest.mark.parametrize("name", ["alexnet-hat", "lenet-apd"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 28), (2, 9, 40), (3, 84, 84), (1, 3, 5)])
def test_they_take_any_image_and_nothing_else(name, shape):
    net = Net(BACKBONES[name], shape)
    net.add_head("task", 3)
    assert net(torch.zeros(2, *shape, dtype=torch.uint8), "task").shape == (2, 3)
    with pytest.raises(SettingsError, match=rf"{name} takes images"):
        Net(BACKBONES[name], (6,))


def test_units_of_the_net_of_apd_are_normalised_across_channels():
    norms = [module for module in lenet_apd((3, 32, 32)) if type(module).__name__ == "_NeighbourNorm"]
    for norm, channels in zip(norms, (20, 50), strict=True):
        x = 30 * torch.randn(2, channels, 3, 3, generator=torch.Generator().manual_seed(0))
        around = sum(x[:, place] ** 2 for place in range(1, 10))  # channel 5 and four on either side
        assert torch.allclose(norm(x)[:, 5], x[:, 5] / (1 + 0.001 / 9 * around) ** 0.75, rtol=1e-5)
        assert torch.allclose(norm(x), nn.LocalResponseNorm(9, alpha=1e-3)(x), rtol=1e-5)
    assert not any("band" in name for name in lenet_apd((3, 32, 32)).state_dict())
