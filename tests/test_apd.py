"""APD: shared weights, masks and sparse corrections, and how past tasks' weights are held without data."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from toys import TINY, benchmark, pictures, show
from zoolearn.errors import SettingsError
from zoolearn.methods import apd as method
from zoolearn.methods.apd import AdditiveLayer, Apd, HeldCorrections, objective
from zoolearn.methods.bases.task_net import TaskNorm, parts
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.nets.published import lenet_apd, resnet18_s
from zoolearn.seeds import global_seed
from zoolearn.training.batches import Batch

RECIPE = replace(TINY, epochs=4, lr=0.01, augment="no", dropout=0.0)
NETS = pytest.mark.parametrize("backbone", [mlp_100, small_conv], ids=["mlp", "conv"])


def apd(**settings):
    return Apd(**{"backbone": mlp_100, "recipe": RECIPE, **settings})


def logits(net, task):
    with torch.no_grad():
        return net.eval()(task.test.x, task.name)


def batch_of(task):
    return Batch(task.train.x[:8], task.train.y[:8], torch.zeros(8, dtype=torch.int64), (task.name,))


def layers(learner):
    return parts(learner.net, AdditiveLayer)


def weights_of_first_task(learner):
    """The weights of the first task in full, whether it is the newest or not."""
    found = []
    for layer in layers(learner):
        layer.task = 0
        found.append(layer.train().weight().detach().clone())
    return torch.cat([weight.flatten() for weight in found])


@NETS
def test_a_new_task_begins_without_a_change_to_the_old_ones(backbone):
    first, second, third = benchmark(3)
    learner = show(apd(backbone=backbone), [first, second])
    before = [logits(learner.net, task) for task in (first, second)]
    net = learner.grow_net(third)
    assert all(torch.equal(logits(net, task), old) for task, old in zip((first, second), before, strict=True))
    net.train()
    for layer in parts(net, AdditiveLayer):
        anchors = layer.past_weights().detach()
        assert float(layer.penalty(anchors, 0.0, 100.0, 0.0).detach()) < 1e-8  # rounding, by another order of sums


def test_the_weight_is_the_shared_one_scaled_per_output_plus_the_correction():
    layer = AdditiveLayer(nn.Conv2d(2, 3, 3), threshold=0.1, start=1.0, retroactive=True)
    layer.begin_task()
    with torch.no_grad():
        layer.mask.copy_(torch.tensor([-50.0, 0.0, 50.0]))
        layer.correction.copy_(torch.linspace(-0.4, 0.4, layer.correction.numel()).view_as(layer.correction))
    scale = torch.tensor([0.0, 0.5, 1.0]).reshape(3, 1, 1, 1)
    assert torch.allclose(layer.train().weight(), layer.shared * scale + layer.correction)
    large = layer.correction * (layer.correction.abs() > 0.1)
    assert torch.allclose(layer.eval().weight(), layer.shared * scale + large)


def test_a_correction_starts_as_a_copy_of_the_shared_weight():
    layer = AdditiveLayer(nn.Linear(4, 3), threshold=0.1, start=1.0, retroactive=True)
    layer.begin_task()
    assert torch.equal(layer.correction, layer.shared)
    with torch.no_grad():
        layer.shared.mul_(2)
    layer.begin_task()
    assert torch.equal(layer.correction, layer.shared)
    assert torch.equal(layer.past_correction[0], layer.shared / 2)


def test_a_task_starts_with_what_the_shared_weights_are_then():
    first, second = benchmark(2)
    learner = show(apd(), [first])
    for layer in parts(learner.grow_net(second), AdditiveLayer):
        assert torch.equal(layer.correction, layer.shared)


def test_a_mask_starts_normal_with_a_variance_of_one_over_the_outputs():
    layer = AdditiveLayer(nn.Linear(1, 10_000), threshold=0.1, start=1.0, retroactive=True)
    with global_seed(0, torch.device("cpu")):
        layer.begin_task()
    drawn = 100 * layer.mask.detach()
    assert abs(float(drawn.mean())) < 0.05  # five deviations of the mean of so many draws
    assert abs(float(drawn.std()) - 1) < 0.036


def test_the_loss_is_that_of_the_paper():
    first, second, third = benchmark(3)
    learner = show(apd(), [first, second])
    net = learner.grow_net(third).train()
    loss = objective(net, sparsity=0.01, retention=10.0, decay=0.3)
    own = parts(net, AdditiveLayer)
    with torch.no_grad():
        old = [layer.past_weights().clone() for layer in own]
        for layer in own:
            layer.shared.add_(0.1)
        expected = F.cross_entropy(net(batch_of(third).x, third.name), batch_of(third).y)
        for layer, before in zip(own, old, strict=True):
            expected += 0.01 * (layer.correction.abs().sum() + layer.past_correction.abs().sum())
            for task in range(2):
                scale = torch.sigmoid(layer.past_mask[task])[:, None]
                weight = layer.shared * scale + layer.past_correction[task]
                expected += 5.0 * (weight - before[task]).square().sum()
            expected += 0.15 * (layer.correction.square().sum() + layer.mask.square().sum())
        assert torch.allclose(loss(net, batch_of(third)), expected, rtol=1e-5)


@pytest.mark.parametrize("cached", [1, 40, 1 << 16])
@pytest.mark.parametrize("shape", [(7, 5), (6, 4, 3, 3)])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_what_holds_the_past_has_the_gradients_that_autograd_finds(monkeypatch, cached, shape, weight):
    monkeypatch.setattr(method, "CACHED", cached)
    rng = torch.Generator().manual_seed(0)
    shared, past, anchors = (torch.randn(*size, generator=rng) for size in (shape, (3, *shape), (3, *shape)))
    scales = torch.rand(3, shape[0], generator=rng)
    shared.requires_grad_(), past.requires_grad_()
    wide = scales.reshape(3, -1, *[1] * (len(shape) - 1))
    plain = 0.3 * past.abs().sum() + 4.0 / 2 * (shared * wide + past - anchors).square().sum()
    held = HeldCorrections.apply(shared, past, scales, anchors, 0.3, 4.0)
    assert torch.allclose(held, plain, rtol=1e-5)
    wanted, found = (torch.autograd.grad(weight * value, [shared, past]) for value in (plain, held))
    assert all(torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5) for ours, theirs in zip(found, wanted, strict=True))
    (alone,) = torch.autograd.grad(HeldCorrections.apply(shared, past.detach(), scales, anchors, 0.3, 4.0), [shared])
    assert torch.allclose(weight * alone, wanted[0], rtol=1e-4, atol=1e-5)


def test_the_first_task_decays_the_shared_weights_too():
    task = pictures()
    net = apd().grow_net(task).train()
    own = parts(net, AdditiveLayer)
    with torch.no_grad():
        both = [objective(net, 0.0, 0.0, decay)(net, batch_of(task)) for decay in (2.0, 0.0)]
        owned = [tensor for layer in own for tensor in (layer.shared, layer.correction, layer.mask)]
        assert torch.allclose(both[0] - both[1], sum(tensor.square().sum() for tensor in owned), rtol=1e-4)


def test_firm_retention_holds_old_weights_while_the_shared_ones_move():
    first, second = benchmark(2)
    moved, drift = [], []
    for retention in (0.0, 1e5):
        learner = show(apd(retention=retention, sparsity=0.0), [first])
        before, shared = weights_of_first_task(learner), layers(learner)[0].shared.detach().clone()
        learner.learn(second)
        drift.append(float((weights_of_first_task(learner) - before).norm()))
        moved.append(float((layers(learner)[0].shared - shared).detach().norm()))
    assert moved[1] > 0.1
    assert drift[1] < 0.1 * drift[0]


def test_old_corrections_absorb_changes_of_the_shared_weights():
    first, second = benchmark(2)
    learner = show(apd(retention=1e4), [first])
    before = layers(learner)[0].correction.detach().clone()
    learner.learn(second)
    assert not torch.equal(layers(learner)[0].past_correction[0], before)


def test_a_large_price_leaves_no_correction():
    task = pictures()
    learner = show(apd(sparsity=0.1, recipe=replace(RECIPE, epochs=40)), [task])
    for layer in layers(learner):
        assert bool((layer.correction.abs() <= 0.1).all())
        scale = torch.sigmoid(layer.mask)[:, None]
        assert torch.equal(layer.eval().weight(), layer.shared * scale)


def test_a_higher_price_leaves_fewer_corrections():
    task = pictures()
    recipe = replace(RECIPE, epochs=20)
    shares = []
    for price in (1e-5, 3e-3, 3e-2):
        learner = show(apd(sparsity=price, recipe=recipe), [task])
        kept = [(layer.correction.abs() > price).float() for layer in layers(learner)]
        shares.append(float(torch.cat([part.flatten() for part in kept]).mean()))
    assert shares[0] > shares[1] > shares[2]


@NETS
def test_masks_biases_heads_and_norms_of_old_tasks_stay_bit_for_bit(backbone):
    first, second, third = benchmark(3)
    recipe = replace(RECIPE, weight_decay=0.1)
    learner = show(apd(backbone=backbone, recipe=recipe), [first, second])
    before = [(layer.past_mask[0].clone(), layer.mask.clone(), layer.shift.clone()) for layer in layers(learner)]
    rest = {
        name: tensor.clone()
        for name, tensor in learner.net.state_dict().items()
        if name.startswith("heads") or "norms" in name
    }
    learner.learn(third)
    for layer, (mask, newer, shift) in zip(layers(learner), before, strict=True):
        assert torch.equal(layer.past_mask, torch.stack([mask, newer]))
        assert torch.equal(layer.past_shift[1], shift)
    now = learner.net.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in rest.items())


def test_what_tasks_own_is_counted_in_full():
    first, second = benchmark(2)
    learner = show(apd(), [first, second])
    shared = 64 * 100 + 100 * 100
    own = shared + 200 + 200
    assert learner.num_parameters == shared + 2 * own + 101 * 2 + 101 * 3
    assert learner.stored_samples == 0


@pytest.mark.parametrize("backbone", [lenet_apd, resnet18_s])
def test_other_nets_are_decomposed_too(backbone):
    tasks = [pictures(name, per_class=4, shape=(3, 8, 8)) for name in ("stripes", "dots")]
    learner = show(apd(backbone=backbone, recipe=replace(RECIPE, epochs=1)), tasks)
    assert len(layers(learner)) == (4 if backbone is lenet_apd else 20)
    assert all(len(norm.norms) == 2 for norm in parts(learner.net, TaskNorm))


@pytest.mark.parametrize("setting", [{"sparsity": -1.0}, {"retention": float("inf")}, {"shared_head": True}])
def test_impossible_settings_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        Apd(**setting)
