"""Linear layers whose weights are independent Gaussians, sampled where it is cheapest: at their outputs."""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.errors import SettingsError
from zoolearn.nets.backbones import backbone_name
from zoolearn.nets.net import Net

ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Identity)

Noise = Callable[[Tensor], Tensor]  # the mean activations of a layer -> standard normal draws to add in proportion


class GaussianLinear(nn.Linear):
    """A linear layer with Gaussian weights: `weight` and `bias` are means, beside log-variances.

    Called like any layer, it uses its means.
    """

    def __init__(self, layer: nn.Linear, log_variance: float) -> None:
        nn.Module.__init__(self)  # a linear layer's own would draw weights only for them to be replaced
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach()
        bias = layer.bias.detach() if layer.bias is not None else weight.new_zeros(layer.out_features)
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
        self.log_variance = nn.Parameter(torch.full_like(weight, log_variance))
        self.bias_log_variance = nn.Parameter(torch.full_like(bias, log_variance))

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each output: an output is a sum of Gaussians, so it is one."""
        variance = F.linear(x.square(), self.log_variance.exp(), self.bias_log_variance.exp())
        return F.linear(x, self.weight, self.bias), variance

    def distribution(self) -> "Distribution":
        """The means and log-variances of all weights, biases last, as they are now."""
        means = torch.cat([self.weight.reshape(-1), self.bias])
        return means, torch.cat([self.log_variance.reshape(-1), self.bias_log_variance])


Distribution = tuple[Tensor, Tensor]  # the means and the log-variances of independent Gaussians


def divergence(posterior: Distribution, prior: Distribution) -> Tensor:
    """KL(posterior || prior) of independent Gaussians, summed.

    >>> standard = (torch.zeros(3), torch.zeros(3))
    >>> float(divergence(standard, standard)), float(divergence((torch.ones(3), torch.zeros(3)), standard))
    (0.0, 1.5)
    """
    (mean, log_variance), (prior_mean, prior_log_variance) = posterior, prior
    ratio = log_variance - prior_log_variance
    distance = (mean - prior_mean).square() * (-prior_log_variance).exp()
    return 0.5 * (ratio.exp() - ratio - 1 + distance).sum()


def make_gaussian(net: Net, log_variance: float, method: str) -> Net:
    """Replaces, in place, every linear layer of a net that is not Gaussian yet by one around its weights."""
    if not isinstance(net.backbone, nn.Sequential) or not _is_perceptron(net.backbone):
        raise SettingsError(
            f"{method} takes backbones that are a sequence of linear layers and activations, such as mlp, mlp-100 or "
            f"mlp-2000; {backbone_name(net.backbone_fn)!r} is none"
        )
    for layers in (net.backbone, net.heads):
        for place, layer in enumerate(layers):
            if isinstance(layer, nn.Linear) and not isinstance(layer, GaussianLinear):
                layers[place] = GaussianLinear(layer, log_variance)
    return net


def _is_perceptron(body: nn.Sequential) -> bool:
    linear = next((place for place, layer in enumerate(body) if isinstance(layer, nn.Linear)), len(body))
    return all(
        isinstance(layer, (nn.Linear, nn.Dropout, *ELEMENTWISE)) or (isinstance(layer, nn.Flatten) and place < linear)
        for place, layer in enumerate(body)
    )


def gaussian_layers(net: Net, task: str) -> list[GaussianLinear]:
    """The layers that answer for a task, its head last."""
    layers = [*cast(nn.Sequential, net.backbone), net.head(task)]
    return [layer for layer in layers if isinstance(layer, GaussianLinear)]


def sampled_logits(net: Net, x: Tensor, task: str, noise: Noise) -> Tensor:
    """Logits under several draws of the weights, (draws, rows, classes), by local reparametrisation.

    Each layer's outputs are drawn from their own Gaussian given its inputs (Kingma et al., 2015). Noise of shape (draws,
    rows, units) draws the weights separately for every row; (draws, 1, units) gives all rows the same noise, which leaves the
    distribution of each row as it is.
    """
    hidden = net.normalize(x)
    for layer in [*cast(nn.Sequential, net.backbone), net.head(task)]:
        if isinstance(layer, GaussianLinear):
            mean, variance = layer.moments(hidden)
            hidden = mean + variance.sqrt() * noise(mean)
        else:
            hidden = layer(hidden)
    net.count(hidden.shape[:-1].numel())
    return hidden


def noise_for_rows(draws: int) -> Noise:
    """Noise of its own for every row, from torch's global generator."""

    def draw(mean: Tensor) -> Tensor:
        return torch.randn(draws, *mean.shape[-2:], device=mean.device, dtype=mean.dtype)

    return draw


def common_noise(draws: int, rng: torch.Generator) -> Noise:
    """The same noise for all rows, from a generator: a row's answer does not depend on the rows beside it."""

    def draw(mean: Tensor) -> Tensor:
        return torch.randn(draws, 1, mean.shape[-1], generator=rng, dtype=mean.dtype).to(mean.device)

    return draw
