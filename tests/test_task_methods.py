"""What HAT, Progressive, RMN, APD and FedWeIT have in common: trainings that are taken up, and parts for every task."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import TINY, benchmark, blobs, learner_of, same, show, with_norm
from zoolearn.errors import Diverged, SettingsError, UnknownTask
from zoolearn.methods.apd import Apd
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.bases.task_net import GradientMask, TaskNorm, begin_task, follow, parts, replace_modules, sequence
from zoolearn.methods.fedweit import FedWeit
from zoolearn.methods.hat import Hat
from zoolearn.methods.progressive import Progressive, adapter
from zoolearn.methods.rmn import MappedLayer, Rmn
from zoolearn.nets.net import Net
from zoolearn.runs.state import restore, save
from zoolearn.training import batches
from zoolearn.training.checkpoints import Checkpoints

pytestmark = pytest.mark.slow  # methods are trained many times

TASKS = benchmark(3).tasks
RECIPE = replace(TINY, epochs=3, weight_decay=0.01, lr=0.02)


def tiny_conv(shape, dropout=0.0):
    """A convolutional backbone of a few hundred weights."""
    layers = [nn.Conv2d(shape[0], 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 6, 2), nn.BatchNorm2d(6), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


SETTINGS = [
    (Hat, {"binary": True}),
    (Hat, {"backbone": tiny_conv}),
    (Progressive, {}),
    (Progressive, {"backbone": tiny_conv, "lateral": adapter}),
    (Rmn, {}),
    (Rmn, {"backbone": tiny_conv, "recipe": replace(RECIPE, optimizer="adam"), "sparsity": 0.1}),
    (Apd, {}),
    (FedWeit, {"backbone": tiny_conv, "retroactive": True}),
    (FedWeit, {"knowledge_base": "last"}),
]


@pytest.fixture(params=SETTINGS, ids=lambda setting: f"{setting[0].__name__}-{'-'.join(setting[1]) or 'plain'}")
def make(request):
    method, settings = request.param
    own = {"backbone": with_norm, **settings}
    return lambda: learner_of(method, own.get("recipe", RECIPE), **{k: v for k, v in own.items() if k != "recipe"})


def restored(make, snapshots):
    learner = make()
    restore(learner, snapshots if learner.grows else snapshots[-1:])
    return learner


def learned(make, tasks):
    """A learner and what it saved after each episode."""
    learner, snapshots = make(), []
    for task in tasks:
        learner.learn(task)
        snapshots.append(save(learner))
    return learner, snapshots


def kept(learner):
    """All that a learner would save of its latest episode."""
    return {key: tensor.clone() for tensors in save(learner).files.values() for key, tensor in tensors.items()}


@pytest.mark.parametrize("reports", [4, 8])
def test_a_training_cut_anywhere_is_taken_up_bit_for_bit(make, reports, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)  # word after every batch
    whole = show(make(), TASKS)
    cut, snapshots = learned(make, TASKS[:2])
    cut.checkpoints = Checkpoints(tmp_path, 1)
    work = cut.iter_learn(TASKS[2])
    for _, _ in zip(range(reports), work, strict=False):
        pass
    resumed = restored(make, snapshots)
    resumed.checkpoints = cut.checkpoints
    resumed.learn(TASKS[2])
    assert same(kept(resumed), kept(whole))


def test_what_is_restored_without_data_answers_counts_and_learns_on_the_same(make):
    learner, snapshots = learned(make, TASKS[:2])
    again = restored(make, snapshots)
    for task in TASKS[:2]:
        assert torch.equal(*(each.predict_proba(task.test.x, task.name) for each in (learner, again)))
    assert (again.stored_samples, again.num_parameters) == (learner.stored_samples, learner.num_parameters)
    for each in (learner, again):
        each.learn(TASKS[2])
    assert same(kept(learner), kept(again))


def test_a_training_that_failed_leaves_the_learner_as_it_was(make, monkeypatch):
    def diverge(*_):
        raise Diverged("at once")

    learner = show(make(), TASKS[:2])
    before = kept(learner)
    monkeypatch.setattr("zoolearn.training.fit._mean_or_diverged", diverge)
    with pytest.raises(Diverged):
        learner.learn(TASKS[2])
    assert same(kept(learner), before)
    assert learner.episode == 2


def test_a_guard_stops_gradients_decay_and_with_them_momentum():
    weight = nn.Parameter(torch.tensor([1.0, 1.0, 1.0]))
    guard = GradientMask([(weight, torch.tensor([0.0, 0.5, 1.0]))], weight_decay=0.1)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        weight.grad = torch.ones(3)
        guard()
        assert weight.grad[0] == 0
        optimizer.step()
    assert weight[0] == 1.0
    assert 1 - weight[2] > 1.9 * (1 - weight[1]) > 0


def test_parts_hear_which_task_is_asked_about_and_unknown_ones_are_named():
    net = Net(with_norm, (1, 8, 8))
    replace_modules(net.backbone, nn.BatchNorm1d, TaskNorm)
    follow(net)
    for task in TASKS[:2]:
        net.add_head(task.name, len(task.classes))
        begin_task(net, task.name)
    (norm,) = parts(net, TaskNorm)
    net.train()
    for asked, seen in (("dots", [0, 1]), ("stripes", [1, 1]), ("stripes", [2, 1])):
        net(TASKS[0].train.x, asked)
        assert [int(own.num_batches_tracked) for own in norm.norms] == seen
    assert [own.weight.requires_grad for own in norm.norms] == [False, True]
    with pytest.raises(UnknownTask, match="did you mean 'dots'"):
        net(TASKS[0].train.x, "dot")


def nested(shape, dropout=0.0):
    """Sequences within a sequence, as in the backbone for tables."""
    norm = nn.BatchNorm1d(shape[0], affine=False)
    hidden = nn.Sequential(nn.Linear(shape[0], 12), nn.ReLU(), nn.Sequential(nn.Linear(12, 9), nn.Tanh()))
    return nn.Sequential(nn.Flatten(), norm, hidden)


def level(shape, dropout=0.0):
    """The same layers in one sequence."""
    return nn.Sequential(*sequence(nested(shape, dropout)))


@pytest.mark.parametrize("method", [Hat, Progressive, Rmn, Apd, FedWeit])
def test_a_body_of_sequences_within_sequences_is_one_sequence(method):
    tasks = [blobs("near"), blobs("far", classes=3), blobs("apart")]
    learners = [show(learner_of(method, TINY, backbone=backbone), tasks) for backbone in (nested, level)]
    assert [len(list(backbone((6,)))) for backbone in (nested, level)] == [3, 6]
    assert learners[0].num_parameters == learners[1].num_parameters
    for task in tasks:
        one, other = (learner.predict_proba(task.test.x, task.name) for learner in learners)
        assert torch.equal(one, other)
    plain = show(learner_of(FineTune, TINY, backbone=nested), tasks)  # the method itself has acted on the layers within
    assert not torch.allclose(plain.predict_proba(tasks[2].test.x, "apart"), one, atol=1e-3)


def test_convolutions_that_pad_with_anything_but_zeros_are_refused():
    with pytest.raises(SettingsError, match="pads with 'reflect'"):
        MappedLayer(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), 100.0, 0.6, 0.0)
