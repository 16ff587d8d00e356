"""The Gauss-Newton diagonal, by outer products and input by input."""

import pytest
import torch
from torch import nn

from toys import net_for, pictures, state
from zoolearn.methods.parts.curvature import gauss_newton_diagonal
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.pergrad import exact
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100


def by_hand(net, task, flat, x):
    """diag(J' (diag(p) - p p') J), one input at a time."""
    total = torch.zeros(len(flat), dtype=torch.float64)
    for row in x:
        logits = net(row[None], task)[0]
        jacobian = torch.stack(
            [flat.gradient_of(net(row[None], task)[0, label]) for label in range(len(logits))]
        ).double()
        p = torch.softmax(logits, dim=0).double().detach()
        total += (jacobian * ((torch.diag(p) - p[:, None] * p[None]) @ jacobian)).sum(dim=0)
    return total


def plain(shape, dropout=0.0):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5, bias=False), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(inplace=True))


@pytest.mark.parametrize("rows", [512, 3])
def test_outer_products_give_what_single_inputs_give(rows):
    tasks = [pictures("one", classes=3), pictures("two")]
    net = net_for(tasks, plain).eval()
    flat = Flat(net.trainable(["one"]))
    x = tasks[0].train.x[:8]
    assert torch.allclose(
        gauss_newton_diagonal(net, "one", flat, x, rows).double(), by_hand(net, "one", flat, x), rtol=1e-4, atol=1e-9
    )


def test_a_published_net_agrees_with_the_information_of_its_answers_and_is_left_as_it_was():
    task = pictures()
    net = net_for([task], mlp_100, dropout=0.5)
    before, flat = state(net), Flat(net.trainable([task.name]))
    found = gauss_newton_diagonal(net, task.name, flat, task.train.x)
    expected = exact(net, task.name, flat, task.train, 0, 1) * len(task.train)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-7)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(weight.grad is None for weight in net.parameters())
    assert not any(module._forward_hooks for module in net.modules())


def tied(shape, dropout=0.0):
    layer = nn.Linear(6, 6)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Tanh(), layer, nn.Tanh(), layer)


@pytest.mark.parametrize(("backbone", "flips"), [(mlp_100, True), (tied, False)])
def test_a_layer_that_is_passed_twice_counts_with_the_sum_of_its_gradients(backbone, flips):
    task = pictures(shape=(3, 8, 8))
    net = net_for([task], backbone, flip_tta=flips).eval()
    flat = Flat(net.trainable([task.name]))
    x = task.train.x[:8]
    found = gauss_newton_diagonal(net, task.name, flat, x).double()
    assert torch.allclose(found, by_hand(net, task.name, flat, x), rtol=1e-3, atol=1e-9)


def test_a_convolutional_net_is_taken_input_by_input():
    task = pictures(shape=(1, 22, 22), per_class=2)
    net = net_for([task], small_conv).eval()
    flat = Flat(net.trainable([task.name]))
    x = task.train.x[:2]
    assert torch.allclose(
        gauss_newton_diagonal(net, task.name, flat, x).double(), by_hand(net, task.name, flat, x), rtol=1e-3, atol=1e-6
    )
