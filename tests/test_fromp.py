"""FROMP: its kernels, its price and what that price holds."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from test_curvature import by_hand as information
from toys import TINY, benchmark, net_for, pictures, row_set, show, with_norm
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.methods.fromp import Fromp, any_row, certain, covariance, find_highest, uncertain
from zoolearn.methods.parts import gp
from zoolearn.methods.parts.flat import Flat
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.batches import Batch


def tiny(shape, dropout=0.0):
    """A backbone of four features."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 4), nn.Tanh(), nn.Dropout(dropout))


def fromp(**settings):
    return Fromp(**{"backbone": tiny, "recipe": TINY, "memory_size": 6, **settings})


def jacobian(net, task, flat, x, label):
    """One class's probabilities differentiated input by input."""
    with torch.enable_grad():
        rows = [flat.gradient_of(torch.softmax(net(row[None], task), dim=1)[0, label]) for row in x]
    return torch.stack(rows).double()


def after_one(**settings):
    """A learner that has met a task, and the net with which it would begin the next."""
    first, second = benchmark(2)
    learner = fromp(**settings)
    learner.learn(first)
    return learner, learner.grow_net(second).eval(), first, second


def test_the_covariance_is_that_of_jacobians_taken_one_by_one():
    learner, net, first, _ = after_one()
    flat, deviations = learner.deviations(net, first.name)
    x = first.train.x[:7]
    for label in range(2):
        by_hand = jacobian(net, first.name, flat, x, label) * deviations.double()
        for chunk_bytes in (1 << 26, 4 * len(flat) * 3, 1):
            found = covariance(net, first.name, flat, deviations, x, label, chunk_bytes)
            assert torch.allclose(found, by_hand @ by_hand.T, rtol=1e-4, atol=1e-9)
            assert torch.equal(found, found.T)


def test_kernels_are_positive_definite_and_their_inverses_invert_them():
    learner, net, first, _ = after_one()
    flat, deviations = learner.deviations(net, first.name)
    batch = learner.memory.by_task()[0]
    inverses = learner.precisions(net, batch)
    for label in range(2):
        kernel = covariance(net, first.name, flat, deviations, batch.x, label)
        kernel = kernel + learner.jitter * torch.eye(len(batch.y), dtype=torch.float64)
        assert float(torch.linalg.eigvalsh(kernel).min()) > 0
        assert torch.allclose(inverses[label] @ kernel, torch.eye(len(batch.y), dtype=torch.float64), atol=1e-5)


def test_at_the_first_step_the_price_and_its_gradient_are_exactly_nothing():
    learner, net, *_ = after_one(recipe=replace(TINY, dropout=0.5))
    net.train()
    price = learner.hold_functions(net).price(net)
    assert float(price.detach()) == 0
    assert not bool(Flat(net.parameters()).gradient_of(price).any())
    assert net.training


def test_the_prices_gradient_is_the_jacobian_times_precision_times_movement():
    learner, net, first, _ = after_one()
    held = learner.hold_functions(net)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.05 * torch.sin(torch.arange(weight.numel()).float()).view_as(weight))
    flat = Flat(net.trainable([first.name]))
    found = flat.gradient_of(held.price(net))
    (x,), (target,), (precision,) = [held.x], held.targets, held.precisions
    now = torch.softmax(net(x, first.name), dim=1).double().detach()
    by_hand = sum(
        jacobian(net, first.name, flat, x, c).T @ (precision[c] @ (now[:, c] - target[:, c])) for c in range(2)
    )
    assert torch.allclose(found.double(), by_hand, rtol=1e-3, atol=1e-4 * float(by_hand.abs().max()))


def test_an_identity_kernel_holds_probabilities_by_their_squares():
    learner, net, first, _ = after_one(kernel="identity")
    held = learner.hold_functions(net)
    with torch.no_grad():
        net.head(first.name).weight.mul_(1.3)
    now = torch.softmax(net(held.x, first.name), dim=1).double()
    assert torch.allclose(held.price(net), 0.5 * (now - held.targets[0]).square().sum(), rtol=1e-6)


def test_fisher_is_the_sum_of_the_gauss_newton_diagonal_over_examples_and_tasks():
    tasks = benchmark(2)
    learner = fromp()
    found = []
    for task in tasks:
        learner.learn(task)
        net = deepcopy(learner.net).eval()
        flat = Flat(net.trainable([task.name]))
        body = sum(parameter.numel() for parameter in net.backbone.parameters())
        found.append(torch.split(information(net, task.name, flat, task.train.x), [body, len(flat) - body]))
    (body_then, first_head), (body_now, second_head) = found
    for part, expected in (("backbone.1", body_then + body_now), ("heads.0", first_head), ("heads.1", second_head)):
        total = torch.cat([learner.fisher[f"{part}.{kind}"].reshape(-1) for kind in ("weight", "bias")])
        assert torch.allclose(total.double(), expected, rtol=1e-3, atol=1e-8), part
    assert learner.num_parameters == 2 * learner.net.num_parameters


def test_the_loss_is_cross_entropy_over_tau_and_the_price_of_all_past_tasks_by_hand():
    *past, new = benchmark(3)
    learner = show(fromp(tau=4.0, delta=0.01, jitter=0.05), past)
    net = learner.grow_net(new).eval()
    then, loss = deepcopy(net), learner.objective(learner.hold_functions(net))
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.3 * torch.sin(torch.arange(weight.numel()).float()).view_as(weight))
    names = {id(parameter): name for name, parameter in then.named_parameters()}
    price = 0.0
    for memory in learner.memory.by_task():
        task = memory.tasks[0]
        flat = Flat(then.trainable([task]))
        known = torch.cat([learner.fisher[names[id(parameter)]].reshape(-1) for parameter in flat.parameters])
        before, after = (torch.softmax(each(memory.x, task), dim=1).double().detach() for each in (then, net))
        for label in range(before.shape[1]):
            slopes = jacobian(then, task, flat, memory.x, label)
            kernel = (slopes / (known.double() + 0.01)) @ slopes.T + 0.05 * torch.eye(len(slopes)).double()
            moved = after[:, label] - before[:, label]
            price += 0.5 * float(moved @ torch.linalg.solve(kernel, moved))
    batch = Batch(new.train.x[:9], new.train.y[:9], torch.zeros(9, dtype=torch.int64), (new.name,))
    missed = float(F.cross_entropy(net(batch.x, new.name), batch.y).detach())
    assert missed > 0.1
    assert price > 0.1
    assert float(loss(net, batch).detach()) == pytest.approx(missed / 4.0 + price, rel=1e-4)


def test_kept_are_the_highest_scores_of_each_class():
    scores = torch.rand(30, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 3
    chosen = find_highest(scores, labels, each=4)
    for label in range(3):
        own = scores[labels == label].sort(descending=True).values[:4]
        assert torch.equal(scores[chosen][labels[chosen] == label].sort(descending=True).values, own)


def test_memorable_inputs_are_those_of_doubt():
    task = pictures()
    learner = show(fromp(memory_size=4), [task])
    answers = learner.predict_proba(task.train.x, task.name)
    doubt = uncertain(answers, 0)
    kept = task.train.select(find_highest(doubt, task.train.y, 2))
    assert row_set(learner.memory.x) == row_set(kept.x)
    assert torch.equal(certain(answers, 0), -doubt)
    assert torch.equal(any_row(answers, 3), any_row(answers, 3))
    assert float(doubt[0]) == pytest.approx(float(2 * answers[0, 0] * answers[0, 1]), rel=1e-4)


def drift(learner, first, *later):
    """How far the answers for the memorable inputs of a task move, at most, while others are learned."""
    learner.learn(first)
    x = highest_doubt(learner, first)
    before = learner.predict_proba(x, first.name)
    show(learner, later)
    return float((learner.predict_proba(x, first.name) - before).abs().max())


def highest_doubt(learner, task):
    doubt = uncertain(learner.predict_proba(task.train.x, task.name), 0)
    return task.train.x[find_highest(doubt, task.train.y, each=3)]


def test_a_large_tau_keeps_old_probabilities_where_a_small_one_lets_them_go():
    tasks = [pictures("one"), pictures("two")]
    recipe = replace(TINY, lr=1e-4, momentum=0.0)
    constant, moving = (drift(fromp(tau=tau, max_grad_norm=0.0, recipe=recipe), *tasks) for tau in (1e9, 1.0))
    assert constant < 1e-6
    assert moving > 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_task_that_says_the_opposite_moves_old_answers_less_than_without_memory(optimizer):
    first = pictures("right")
    opposite = Task("wrong", Examples(first.train.x, 1 - first.train.y), first.test, first.classes)
    recipe = replace(TINY, epochs=6, lr={"sgd": 0.2, "adam": 0.02}[optimizer], weight_decay=0.0, optimizer=optimizer)
    settings = {"recipe": recipe, "shared_head": True, "max_grad_norm": 1.0}
    free, held = (drift(fromp(memory_size=size, **settings), first, opposite) for size in (0, 6))
    assert held < 0.5 * free


def test_old_heads_move_with_the_price_only():
    learner, _, first, second = after_one(memory_size=0, recipe=replace(TINY, weight_decay=0.0))
    before = learner.net.head(first.name).weight.clone()
    learner.learn(second)
    assert torch.equal(learner.net.head(first.name).weight, before)


def test_tasks_that_share_a_head_and_nets_with_batch_norm_are_taken():
    tasks = [pictures("one"), pictures("two"), pictures("three")]
    learner = show(fromp(shared_head=True, backbone=with_norm, recipe=replace(TINY, epochs=5)), tasks)
    assert len(learner.net.heads) == 1
    assert learner.stored_samples == 18
    assert len(learner.fisher) == len(list(learner.net.parameters()))


def test_a_kernel_that_cannot_be_inverted_is_refused_with_the_way_out(monkeypatch):
    learner, _, _, second = after_one()
    monkeypatch.setattr(gp, "inverse", lambda kernel: kernel * torch.nan)
    with pytest.raises(SettingsError, match=r"kernel of task 'stripes' cannot be inverted with jitter 1e-06"):
        learner.learn(second)
    assert learner.episode == 1


@pytest.mark.parametrize(
    "wrong", [{"memory_size": -1}, {"tau": 0.0}, {"delta": 0.0}, {"jitter": -1.0}, {"max_grad_norm": -1.0}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        fromp(**wrong)


def test_a_net_as_published_takes_it_too():
    tasks = benchmark(2)
    learner = show(fromp(backbone=mlp_100, recipe=replace(TINY, epochs=10), tau=1.0, max_grad_norm=1.0), tasks)
    assert learner.net.num_parameters == net_for(tasks, mlp_100).num_parameters
    assert all(value > 0.9 for value in learner.evaluate(tasks).values())
