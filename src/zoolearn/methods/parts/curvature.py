"""The diagonal of the generalised Gauss-Newton matrix: how much a net's answers depend on each of its weights."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from zoolearn.data.task import Examples
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import evaluation_mode, exact
from zoolearn.nets.net import Net

Trace = list[tuple[nn.Linear, Tensor, Tensor]]  # every call of a linear layer: its inputs and its outputs


def gauss_newton_diagonal(net: Net, task: str, flat: Flat, x: Tensor, rows: int = 512) -> Tensor:
    """The sum over inputs of diag(J' (diag(p) - p p') J), J the Jacobian of the logits, p the probabilities.

    It is the sum over inputs and classes c of p_c (d log p_c)^2, the Fisher information of the net's own answers. Where
    all parameters are of linear layers, an input's gradient is an outer product and so is its square: inputs are then
    summed by one matrix product a layer, and no gradient of a single input is ever formed.
    """
    linear = {id(weight) for module in net.modules() if isinstance(module, nn.Linear) for weight in module.parameters()}
    if any(id(parameter) not in linear for parameter in flat.parameters):
        labels = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return exact(net, task, flat, Examples(x, labels), 0, rows) * len(x)
    totals = {id(parameter): torch.zeros_like(parameter) for parameter in flat.parameters}
    with evaluation_mode(net), torch.enable_grad():
        for part in torch.split(x, rows):
            with trace_layers(net) as trace:
                logits = net(part, task)
            _add_squares(totals, trace, torch.log_softmax(logits, dim=1))
    return torch.cat([totals[id(parameter)].reshape(-1) for parameter in flat.parameters])


@contextmanager
def trace_layers(net: Net) -> Iterator[Trace]:
    """Records the inputs and outputs of every linear layer inside the block."""
    trace: Trace = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        assert isinstance(layer, nn.Linear)
        trace.append((layer, inputs[0].detach(), output))
        return output.clone()  # an activation that works in place then leaves the noted one alone

    with ExitStack() as stack:
        for module in net.modules():
            if isinstance(module, nn.Linear):
                stack.enter_context(module.register_forward_hook(note))
        yield trace


def _add_squares(totals: dict[int, Tensor], trace: Trace, log_probabilities: Tensor) -> None:
    """Adds squared gradients; that of a layer called several times is a sum, whose square has products of all its calls."""
    outputs = [output for _, _, output in trace]
    pairs = [
        (layer, first, second, inputs * others)
        for first, (layer, inputs, _) in enumerate(trace)
        for second, (other, others, _) in enumerate(trace)
        if layer is other
    ]
    for label in range(log_probabilities.shape[1]):
        chosen = log_probabilities[:, label]
        gradients = torch.autograd.grad(chosen.sum(), outputs, retain_graph=True)
        weights = chosen.detach().exp()[:, None]
        for layer, first, second, products in pairs:
            weighed = weights * (gradients[first] * gradients[second])
            if id(layer.weight) in totals:
                totals[id(layer.weight)].addmm_(weighed.T, products)
            if layer.bias is not None and id(layer.bias) in totals:
                totals[id(layer.bias)].add_(weighed.sum(dim=0))
