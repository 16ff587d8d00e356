"""Gradients of single samples, and the Fisher information that is made of them.

All of it in evaluation mode: no units dropped, batch-norm with its running statistics, so that samples stay apart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from zoolearn.data.task import Examples
from zoolearn.methods.parts.flat import Flat
from zoolearn.nets.net import Net, passed
from zoolearn.seeds import generator, global_seed

CHUNK_BYTES = 1 << 26  # how much memory the gradients of one chunk of samples may take

Score = Callable[[Tensor, Tensor], Tensor]  # of one sample: (logits, label) -> a number


def log_likelihood(logits: Tensor, label: Tensor) -> Tensor:
    """The log-probability of a label."""
    return -F.cross_entropy(logits, label)


def logit(logits: Tensor, label: Tensor) -> Tensor:
    """The label's own logit."""
    return logits.gather(0, label[None])[0]


def sample_gradients(
    net: Net, task: str, flat: Flat, score: Score, x: Tensor, labels: Tensor, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Tensor]:
    """The gradient of each sample's score, one row a sample, in chunks of as many rows as fit in `chunk_bytes`."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    moved = {names[id(parameter)]: parameter.detach() for parameter in flat.parameters}

    def value(moved: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
        return score(functional_call(net, moved, (x[None], task))[0], label)

    gradients = vmap(grad(value), in_dims=(None, 0, 0))
    rows = max(1, chunk_bytes // (4 * len(flat)))
    for inputs, chosen in zip(torch.split(x, rows), torch.split(labels, rows), strict=True):
        with evaluation_mode(net), torch.no_grad():  # the heads stay outside: nothing is to be differentiated twice
            parts = gradients(moved, net.normalize(inputs), chosen)
        passed.rows["asked"] += len(chosen) - 1  # all of them looked like one row to the net
        yield torch.cat([parts[name].reshape(len(chosen), -1) for name in moved], dim=1)


@contextmanager
def evaluation_mode(net: Net) -> Iterator[None]:
    """Evaluation mode inside the block, the mode that it was in afterwards."""
    training = net.training
    net.eval()
    try:
        yield
    finally:
        net.train(training)


Fisher = Callable[[Net, str, Flat, Examples, int, int], Tensor]


def exact(net: Net, task: str, flat: Flat, examples: Examples, seed: int, batch_size: int) -> Tensor:
    """The diagonal of the Fisher information: squared gradients of all labels, each as often as the net expects it."""
    probabilities = _probabilities(net, task, examples.x)
    count, classes = probabilities.shape
    rows = torch.arange(count, device=examples.x.device).repeat_interleave(classes)
    labels = torch.arange(classes, device=examples.x.device).repeat(count)
    return _mean_square(net, task, flat, examples.x[rows], labels, probabilities.reshape(-1) / count)


def sampled(net: Net, task: str, flat: Flat, examples: Examples, seed: int, batch_size: int) -> Tensor:
    """An unbiased estimate of `exact`: squared gradients of one label each, drawn from the net's own answer."""
    probabilities = _probabilities(net, task, examples.x)
    labels = torch.multinomial(probabilities.cpu(), 1, generator=generator(seed))[:, 0].to(examples.x.device)
    return _mean_square(net, task, flat, examples.x, labels, probabilities.new_full((len(labels),), 1 / len(labels)))


def observed(net: Net, task: str, flat: Flat, examples: Examples, seed: int, batch_size: int) -> Tensor:
    """The empirical Fisher information: squared gradients of the labels in the data; near 0 once they are fitted."""
    weights = torch.full((len(examples),), 1 / len(examples), device=examples.x.device)
    return _mean_square(net, task, flat, examples.x, examples.y, weights)


def batched(net: Net, task: str, flat: Flat, examples: Examples, seed: int, batch_size: int) -> Tensor:
    """Squares of mean gradients over batches, as most published code has it: too low by about the batch size."""
    total = torch.zeros_like(flat.data())
    batches = list(zip(torch.split(examples.x, batch_size), torch.split(examples.y, batch_size), strict=True))
    with evaluation_mode(net):
        for x, y in batches:
            total += flat.gradient_of(F.cross_entropy(net(x, task), y)).square_()
    return total / len(batches)


def tag(net: Net, task: str, flat: Flat, examples: Examples, seed: int, batch_size: int) -> Tensor:
    """What TAG's code takes for it: one squared mean gradient of the log-sum of an untrained head less the label's logit.

    The head is that of the task to come, by mistake.
    """
    with global_seed(seed, torch.device("cpu")):
        untrained = nn.Linear(net.head(task).in_features, net.head(task).out_features).to(examples.x.device)
    with evaluation_mode(net):
        features = net.embed(examples.x)
        own = net.head(task)(features).gather(1, examples.y[:, None])[:, 0]
        return flat.gradient_of((untrained(features).logsumexp(dim=1) - own).mean()).square_()


FISHERS: dict[str, Fisher] = {"exact": exact, "sample": sampled, "true": observed, "batched": batched, "tag": tag}


def _probabilities(net: Net, task: str, x: Tensor) -> Tensor:
    with evaluation_mode(net), torch.no_grad():
        return torch.cat([torch.softmax(net(rows, task), dim=1) for rows in torch.split(x, 256)])


def _mean_square(net: Net, task: str, flat: Flat, x: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    total = torch.zeros_like(flat.data())
    done = 0
    for gradients in sample_gradients(net, task, flat, log_likelihood, x, labels):
        total += weights[done : done + len(gradients)] @ gradients.square_()
        done += len(gradients)
    return total
