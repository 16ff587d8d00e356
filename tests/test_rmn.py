"""RMN: maps of relevant weights, what they freeze, and what pruning leaves."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import TINY, benchmark, pictures, same, show
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.task_net import TaskNorm, begin_task, parts
from zoolearn.methods.rmn import MappedLayer, Rmn, Selection, with_norms
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.nets.published import resnet18_s
from zoolearn.training.recipe import Recipe

HARSH = replace(TINY, epochs=3, momentum=0.9, weight_decay=0.05)
NETS = pytest.mark.parametrize("backbone", [mlp_100, small_conv], ids=["mlp", "conv"])
OPTIMIZERS = pytest.mark.parametrize("optimizer", ["sgd", "adam"])


def logits(learner, task):
    with torch.no_grad():
        return learner.net.eval()(task.test.x, task.name)


def layer_of(*shape, **settings):
    options = {"steepness": 100.0, "least": 0.638, "least_weight": 1e-5, **settings}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = MappedLayer(nn.Linear(*shape), **options)
    layer.begin_task()
    return layer


@NETS
@OPTIMIZERS
def test_weights_that_old_tasks_keep_stay_bit_for_bit(backbone, optimizer):
    tasks = benchmark(3)
    learner = show(Rmn(backbone=backbone, recipe=replace(HARSH, optimizer=optimizer)), tasks[:2])
    layers = parts(learner.net, MappedLayer)
    before = [layer.shared.detach().clone() for layer in layers]
    held = [layer.frozen() for layer in layers]
    assert all(0.05 < place.float().mean() < 0.95 for place in held)
    learner.learn(tasks[2])
    for old, layer, place in zip(before, parts(learner.net, MappedLayer), held, strict=True):
        assert torch.equal(old[place], layer.shared[place])
        assert not torch.equal(old[~place], layer.shared[~place])


@NETS
@OPTIMIZERS
def test_old_answers_stay_bit_for_bit(backbone, optimizer):
    tasks = benchmark(3)
    learner = Rmn(backbone=backbone, recipe=replace(HARSH, optimizer=optimizer))
    answers = {}
    for task in tasks:
        learner.learn(task)
        answers[task.name] = logits(learner, task)
        assert all(torch.equal(logits(learner, old), answers[old.name]) for old in tasks if old.name in answers)


def test_old_maps_norms_and_heads_do_not_move():
    first, second = benchmark(2)
    learner = show(Rmn(backbone=small_conv, recipe=HARSH), [first])
    own = {name: tensor.clone() for name, tensor in learner.net.state_dict().items() if "shared" not in name}
    learner.learn(second)
    now = {
        name: tensor[:1] if "kept" in name else tensor
        for name, tensor in learner.net.state_dict().items()
        if name in own
    }
    assert same(own, now)


def test_a_map_is_soft_while_it_trains_and_yes_or_no_after():
    layer = layer_of(40, 30)
    soft = layer.mapped()
    assert bool(((soft >= 0) & (soft <= 1)).all())
    assert torch.allclose(soft, torch.sigmoid(100 * (layer.relevance - 0.5)))
    layer.end_task()
    assert layer.kept.dtype == torch.bool
    assert torch.equal(layer.weight(), layer.shared * layer.kept[0])


@NETS
def test_weights_start_at_the_scales_of_the_authors_code(backbone):
    learner = Rmn(backbone=backbone, recipe=TINY)
    for layer in parts(learner.grow_net(pictures()), MappedLayer):
        size, wanted = layer.shared.numel(), 0.01 if layer.shared.ndim == 4 else 0.2
        off = float(layer.shared.detach().std()) / wanted - 1
        assert abs(off) < 5 / (2 * size) ** 0.5  # five deviations of the deviation of so many draws


def test_pruning_keeps_relevant_and_large_weights():
    layer = layer_of(100, 100, least_weight=0.05)
    relevant = layer.relevance > 0.638
    large = layer.shared.abs() > 0.05
    layer.prune()
    assert layer.alive.float().mean() == pytest.approx(0.36 * 0.8, abs=0.02)
    agree = (layer.alive == (relevant & large)).float().mean()
    assert agree > 0.999  # but for weights at the edge, whose relevance is a little below 1


@OPTIMIZERS
def test_what_was_pruned_never_comes_back(optimizer, monkeypatch):
    seen = []
    prune = MappedLayer.prune

    def noting(layer):
        before = layer.alive
        prune(layer)
        assert not bool((layer.alive & ~before).any())
        assert bool((layer.weight()[~layer.alive] == 0).all())
        seen.append(int(layer.alive.sum()))

    monkeypatch.setattr(MappedLayer, "prune", noting)
    recipe = replace(HARSH, epochs=5, lr=0.5 if optimizer == "sgd" else 0.05, optimizer=optimizer)
    show(Rmn(backbone=mlp_100, recipe=recipe), [pictures()])
    assert len(seen) == 2 * (3 + 1)  # two layers; before each of the last three epochs, and at the end


@pytest.mark.parametrize(("epochs", "share"), [(10, 0.8), (10, 0.7), (5, 0.6), (3, 0.0), (3, 1.0)])
def test_the_share_of_epochs_that_prune_is_not_rounded_up(epochs, share):
    learner = Rmn(backbone=mlp_100, recipe=replace(HARSH, epochs=epochs), prune_share=share)
    task = pictures()
    assert epochs - Selection(learner, learner.grow_net(task), task).first_pruned == round(share * epochs)


def test_a_layer_whose_weights_are_all_small_does_not_die():
    layer = layer_of(20, 20)
    with torch.no_grad():
        layer.shared.mul_(1e-12)
    layer.end_task()
    assert 0 < int(layer.kept.sum()) < 400


def test_a_layer_without_relevant_weights_keeps_what_is_nearest():
    layer = layer_of(20, 20)
    with torch.no_grad():
        layer.relevance.mul_(0.6)
    layer.end_task()
    assert 0 < int(layer.kept.sum()) < 100


def test_relevant_weights_of_an_old_task_are_there_for_a_new_one():
    first, second = benchmark(2)
    learner = show(Rmn(backbone=mlp_100, recipe=HARSH), [first, second])
    shares = [(layer.kept[0] & layer.kept[1]).float().mean() for layer in parts(learner.net, MappedLayer)]
    assert all(share > 0.05 for share in shares)
    assert 0.4 < learner.frozen < 0.8


def test_a_price_on_relevance_makes_maps_smaller():
    task = pictures()
    recipe = replace(TINY, epochs=6, momentum=0.0, schedule="constant", lr=0.002, optimizer="adam")
    free, priced = (
        show(Rmn(backbone=mlp_100, recipe=recipe, sparsity=price), [task]).frozen for price in (0.0, 1000.0)
    )
    assert priced < 0.95 * free


def test_every_layer_gets_batch_norm_once_and_each_task_its_own():
    body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten())
    kinds = [type(module).__name__ for module in with_norms(nn.Sequential(body, nn.ReLU()))]
    assert kinds == ["Conv2d", "BatchNorm2d", "ReLU", "Conv2d", "BatchNorm2d", "Flatten", "ReLU"]
    learner = show(Rmn(backbone=small_conv, recipe=TINY), benchmark(2))
    assert [len(norm.norms) for norm in parts(learner.net, TaskNorm)] == [2, 2, 2]


def test_a_bit_of_a_map_counts_as_a_bit():
    first, second = benchmark(2)
    learner = show(Rmn(backbone=mlp_100, recipe=TINY), [first, second])
    shared = 64 * 100 + 100 * 100
    own = 2 * 2 * (100 + 100) + 101 * 2 + 101 * 3
    assert learner.num_parameters == shared + own + 2 * shared // 32
    assert learner.stored_samples == 0


def test_residual_nets_have_maps_too():
    tasks = [pictures(name, per_class=4, shape=(3, 8, 8)) for name in ("stripes", "dots")]
    learner = show(Rmn(backbone=resnet18_s, recipe=replace(TINY, epochs=1)), tasks[:1])
    before = logits(learner, tasks[0])
    learner.learn(tasks[1])
    assert len(parts(learner.net, MappedLayer)) == 20
    assert torch.equal(logits(learner, tasks[0]), before)


def test_a_net_asked_about_a_task_in_training_sees_its_soft_map():
    learner = show(Rmn(backbone=mlp_100, recipe=TINY), [pictures()])
    net = learner.grow_net(pictures("dots"))
    begun = parts(net, MappedLayer)[0]
    net.eval()(pictures().test.x, "dots")
    assert torch.equal(begun.weight(), begun.shared * begun.mapped())
    net(pictures().test.x, "stripes")
    assert torch.equal(begun.weight(), begun.shared * begun.kept[0])
    begin_task(learner.net, "dots")  # the same place gives the same map
    assert torch.equal(parts(learner.net, MappedLayer)[0].relevance, begun.relevance)


@pytest.mark.parametrize(
    "setting",
    [{"steepness": 0.0}, {"least_relevance": 1.0}, {"least_weight": -1.0}, {"prune_share": 2.0}, {"sparsity": -1.0}],
)
def test_impossible_settings_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        Rmn(**setting)


def test_settings_that_would_prune_everything_are_refused():
    with pytest.raises(SettingsError, match="cannot be reached with steepness 10"):
        Rmn(steepness=10.0)
    with pytest.raises(SettingsError, match="rmn keeps a head for every task"):
        Rmn(shared_head=True)


def test_one_epoch_is_enough_to_learn_something():
    task = pictures(per_class=60)
    recipe = Recipe(epochs=1, batch_size=8, lr=0.05, device="cpu", augment="no")
    learner = show(Rmn(backbone=mlp_100, recipe=recipe), [task])
    assert learner.evaluate([task])[task.name] > 0.9


def test_adam_trains_in_float32_whatever_the_precision():
    tasks = benchmark(2)
    nets = [
        show(Rmn(backbone=mlp_100, recipe=replace(TINY, precision=precision, optimizer="adam")), tasks).net
        for precision in ("float32", "bfloat16")
    ]
    assert same(*(net.state_dict() for net in nets))


def test_single_rows_are_refused_since_every_backbone_gets_batch_norm():
    with pytest.raises(SettingsError, match=r"batch_size is 1 but the net has batch-norm.*; use more rows$"):
        Rmn(backbone=mlp_100, recipe=replace(TINY, batch_size=1)).learn(pictures())
