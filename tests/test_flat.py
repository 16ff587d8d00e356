import torch
from torch import nn

from zoolearn.methods.parts.flat import Flat
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.net import Net


def two_headed():
    net = Net(small_conv, (3, 8, 8))
    net.add_head("old", 2)
    net.add_head("new", 3)
    return net


def images(count=4):
    return torch.arange(count * 192).remainder(256).to(torch.uint8).view(count, 3, 8, 8)


def test_absent_gradients_read_as_zeros_in_their_own_place():
    net = two_headed()
    flat = Flat(net.parameters())
    net(images(), "new").square().mean().backward()
    gradient = flat.gradient()
    assert len(gradient) == len(flat) == net.num_parameters
    old = len(flat) - sum(parameter.numel() for head in net.heads for parameter in head.parameters())
    size = sum(parameter.numel() for parameter in net.head("old").parameters())
    assert gradient[old : old + size].count_nonzero() == 0
    assert gradient[old + size :].count_nonzero() > 0
    assert net.head("old").weight.grad is None


def test_writing_creates_absent_gradients():
    net = two_headed()
    flat = Flat(net.parameters())
    flat.write_gradient(torch.arange(len(flat), dtype=torch.float32))
    assert flat.gradient().equal(torch.arange(len(flat), dtype=torch.float32))
    assert net.head("old").weight.grad is not None


def test_a_written_gradient_steps_the_optimiser_as_the_same_vector_would():
    net = two_headed()
    flat = Flat(net.parameters())
    before, vector = flat.data(), torch.linspace(-1, 1, len(flat))
    flat.write_gradient(vector)
    torch.optim.SGD(net.parameters(), lr=0.5, fused=True).step()
    torch.testing.assert_close(flat.data(), before - 0.5 * vector)


def test_the_gradient_of_a_loss_leaves_the_own_gradients_alone():
    net = two_headed()
    flat = Flat(net.parameters())
    net(images(), "new").sum().backward()
    before = flat.gradient()
    of_old = flat.gradient_of(net(images(), "old").sum())
    assert flat.gradient().equal(before)
    assert net.head("old").weight.grad is None
    net.zero_grad()
    net(images(), "old").sum().backward()
    torch.testing.assert_close(flat.gradient(), of_old)


def test_data_goes_round():
    flat = Flat([nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(1))])
    flat.write_data(torch.arange(7.0))
    assert flat.data().tolist() == list(range(7))
    assert flat.parameters[0].tolist() == [[0, 1, 2], [3, 4, 5]]
