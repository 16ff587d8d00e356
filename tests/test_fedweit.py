"""FedWeIT with one client: APD with attention over what past tasks published."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import TINY, benchmark, pictures, show
from zoolearn.errors import SettingsError
from zoolearn.methods.apd import AdditiveLayer, Apd, objective
from zoolearn.methods.bases.task_net import parts
from zoolearn.methods.fedweit import FedWeit, KnowingLayer
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.seeds import global_seed
from zoolearn.training.batches import Batch

RECIPE = replace(TINY, epochs=3, lr=0.01, augment="no", dropout=0.0)
BASES = pytest.mark.parametrize("base", ["all", "last"])


def fedweit(**settings):
    return FedWeit(**{"backbone": mlp_100, "recipe": RECIPE, **settings})


def layers(learner):
    return parts(learner.net, KnowingLayer)


def batch_of(task):
    return Batch(task.train.x[:8], task.train.y[:8], torch.zeros(8, dtype=torch.int64), (task.name,))


def test_without_attention_the_loss_is_that_of_apd():
    first, second = benchmark(2)
    learner = show(fedweit(retroactive=True), [first])
    net = learner.grow_net(second).train()
    twin = Apd(backbone=mlp_100, recipe=RECIPE)
    twin_net = show(twin, [first]).grow_net(second).train()
    with torch.no_grad():
        for layer in parts(net, KnowingLayer):
            layer.attentions[1].zero_()
        other = dict(net.named_parameters())
        for name, parameter in twin_net.named_parameters():
            parameter.copy_(other[name])
    values = []
    for each in (net, twin_net):
        loss = objective(each, sparsity=0.01, retention=10.0, decay=0.1)
        with torch.no_grad():
            for layer in parts(each, AdditiveLayer):
                layer.shared.add_(0.05)
        values.append(loss(each, batch_of(second)))
        values[-1].backward()
    assert torch.allclose(*values, rtol=1e-6)
    gradients = dict(net.named_parameters())
    for name, parameter in twin_net.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(parameter.grad, gradients[name].grad, atol=1e-6)


@BASES
def test_a_task_sees_a_mixture_of_what_was_published_before_it(base):
    tasks = benchmark(3)
    learner = show(fedweit(knowledge_base=base), tasks)
    for layer in layers(learner):
        assert [len(attention) for attention in layer.attentions] == ([0, 1, 2] if base == "all" else [0, 1, 1])
        layer.task = 2
        known = layer.published[:2] if base == "all" else layer.published[1:2]
        own = AdditiveLayer.weight(layer.eval())
        mixed = sum(share * part for share, part in zip(layer.attentions[2], known, strict=True))
        assert torch.allclose(layer.weight(), own + mixed, atol=1e-6)


def test_what_is_published_is_the_sparse_correction_and_gets_no_gradient():
    first, second = benchmark(2)
    learner = show(fedweit(sparsity=0.02), [first])
    for layer in layers(learner):
        large = layer.correction.abs() > 0.02
        assert 0 < large.float().mean() < 1
        assert torch.equal(layer.published[0], layer.correction * large)
    net = learner.grow_net(second).train()
    objective(net, 0.02, 100.0, 0.0)(net, batch_of(second)).backward()
    for layer in parts(net, KnowingLayer):
        assert not layer.published.requires_grad
        assert layer.published.grad is None
        assert layer.attentions[1].grad is not None
    before = [layer.published[0].clone() for layer in layers(learner)]
    learner.learn(second)
    assert all(torch.equal(layer.published[0], old) for layer, old in zip(layers(learner), before, strict=True))


def test_the_first_task_knows_nothing():
    learner = show(fedweit(), [pictures()])
    for layer in layers(learner):
        assert len(layer.attentions[0]) == 0
        layer.task = 0
        assert torch.equal(layer.eval().weight(), AdditiveLayer.weight(layer))


@pytest.mark.parametrize("retroactive", [True, False])
def test_old_corrections_move_only_if_asked(retroactive):
    first, second = benchmark(2)
    learner = show(fedweit(retroactive=retroactive, recipe=replace(RECIPE, weight_decay=0.1)), [first])
    before = [layer.correction.detach().clone() for layer in layers(learner)]
    learner.learn(second)
    same = [torch.equal(layer.past_correction[0], old) for layer, old in zip(layers(learner), before, strict=True)]
    assert all(same) != retroactive


@pytest.mark.parametrize("backbone", [mlp_100, small_conv], ids=["mlp", "conv"])
def test_masks_and_attentions_of_old_tasks_stay_bit_for_bit(backbone):
    first, second, third = benchmark(3)
    learner = show(fedweit(backbone=backbone), [first, second])
    before = [(layer.mask.clone(), layer.attentions[1].clone()) for layer in layers(learner)]
    learner.learn(third)
    for layer, (mask, attention) in zip(layers(learner), before, strict=True):
        assert torch.equal(layer.past_mask[1], mask)
        assert torch.equal(layer.attentions[1], attention)


def test_firm_retention_holds_the_shared_weights():
    first, second = benchmark(2)
    moved = []
    for retention in (0.0, 1e6):
        learner = show(fedweit(retention=retention), [first])
        before = layers(learner)[1].shared.detach().clone()
        learner.learn(second)
        moved.append(float((layers(learner)[1].shared - before).detach().norm()))
    assert moved[1] < 0.5 * moved[0]


def test_with_one_client_the_servers_round_trip_changes_nothing():
    learner = show(fedweit(), [pictures()])
    for layer in layers(learner):
        size = layer.mask.detach().abs()
        sent = layer.shared.detach() * (size > size.quantile(0.3))[:, None]
        average = torch.stack([sent]).mean(dim=0)
        received = torch.where(average == 0, layer.shared.detach(), average)
        assert torch.equal(received, layer.shared)


def test_a_correction_starts_at_a_third_of_the_shared_weight():
    net = fedweit().grow_net(pictures())
    for layer in parts(net, KnowingLayer):
        assert torch.allclose(layer.correction, layer.shared / 3)


def test_attention_starts_normal_with_a_variance_of_one_over_the_tasks_attended_to():
    layer = KnowingLayer(nn.Linear(1, 1), threshold=0.0, start=1 / 3, retroactive=False, reach=None)
    with global_seed(0, torch.device("cpu")):
        for _ in range(150):
            layer.begin_task()
            layer.end_task()
    drawn = [len(attention) ** 0.5 * attention.detach() for attention in layer.attentions]
    assert [len(attention) for attention in drawn] == list(range(150))
    for some in (torch.cat(drawn[:75]), torch.cat(drawn[75:])):  # five deviations of so many draws' mean and deviation
        assert abs(float(some.mean())) < 5 / len(some) ** 0.5
        assert abs(float(some.std()) - 1) < 5 / (2 * len(some)) ** 0.5


def test_all_that_is_kept_is_counted():
    first, second = benchmark(2)
    learner = show(fedweit(), [first, second])
    shared = 64 * 100 + 100 * 100
    own = shared + 200 + 200
    attentions, published = 2 * 1, 2 * shared
    assert learner.num_parameters == shared + 2 * own + 101 * 2 + 101 * 3 + attentions + published
    assert learner.stored_samples == 0


@pytest.mark.parametrize("setting", [{"sparsity": -1.0}, {"retention": float("inf")}, {"shared_head": True}])
def test_impossible_settings_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        FedWeit(**setting)
