"""FRCL: weights and functions say the same, points explain ever more, and the past stays likely."""

from dataclasses import replace

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from toys import TINY, benchmark, net_for, pictures, row_set, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.frcl import (
    Frcl,
    GaussianHead,
    Inducing,
    features_of,
    iter_exchanges,
    least_unexplained,
    random_points,
    with_one,
)
from zoolearn.methods.parts import gp
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.seeds import generator
from zoolearn.training.batches import Batch


def narrow(shape, dropout=0.0):
    """A backbone of six features."""
    size = 1
    for extent in shape:
        size *= extent
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size, 6), torch.nn.Tanh())


def frcl(**settings):
    return Frcl(**{"backbone": narrow, "recipe": TINY, "points": 10, "proposals": 20, **settings})


def head(features=4, classes=3):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = GaussianHead(torch.nn.Linear(features, classes), scale=0.7)
        torch.nn.init.normal_(made.scale)
    return made


def test_a_head_has_the_moments_and_the_divergence_of_its_gaussians():
    made = head()
    with torch.no_grad():
        x = with_one(torch.randn(6, 4, generator=generator(0)))
        mean, variance = made.moments(x)
        total = torch.zeros(())
        for c in range(3):
            covariance = made.lower[c] @ made.lower[c].T
            assert torch.allclose(mean[:, c], x @ made.mean[c], atol=1e-5)
            assert torch.allclose(variance[:, c], (x @ covariance * x).sum(dim=1), rtol=1e-4)
            ours = MultivariateNormal(made.mean[c].double(), covariance.double())
            total = total + kl_divergence(ours, MultivariateNormal(torch.zeros(5).double(), torch.eye(5).double()))
        assert torch.allclose(made.divergence().double(), total, rtol=1e-4)


def test_a_heads_means_are_its_plain_answer():
    task = pictures()
    learner = frcl()
    net = learner.grow_net(task)
    mean, _ = net.head(task.name).moments(with_one(net.embed(task.test.x)))
    assert torch.allclose(mean, net(task.test.x, task.name), atol=1e-6)


def test_right_after_a_task_function_and_weights_agree_where_points_outnumber_features():
    task = pictures(per_class=20)
    learner = frcl(points=20, jitter=1e-5, select=random_points, recipe=replace(TINY, epochs=5))
    net = learner.grow_net(task)
    work = learner.objective(task)
    batch = Batch(task.train.x, task.train.y, torch.zeros_like(task.train.y), (task.name,))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    with torch.random.fork_rng():
        for _ in range(40):
            optimizer.zero_grad()
            work(net, batch).backward()
            optimizer.step()
    learner.net, learner.inducing = net, {task.name: learner.remember(net, task)}
    with torch.no_grad():
        made = net.head(task.name).double()
        expected = made.moments(features_of(net, task.test.x))
        found = learner.belief(task.test.x, task.name)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=2e-3, rtol=2e-3)


def test_the_search_never_explains_less_and_more_than_a_random_draw():
    x = torch.randn(60, 12, generator=generator(0), dtype=torch.float64) * torch.logspace(0, -2, 12).double()
    values = [value for _, value in iter_exchanges(x, 5, 40, 1e-3, seed=0)]
    assert len(values) == 41
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0]
    chosen = least_unexplained(x, 5, 40, 1e-3, seed=0)
    assert float(gp.unexplained(x[chosen], x.T @ x, 1e-3)) == pytest.approx(values[-1])
    assert len(set(chosen.tolist())) == 5


def test_without_past_tasks_it_is_a_variational_last_layer():
    task = pictures()
    learner = frcl(train_samples=4000)
    net = learner.grow_net(task).eval()
    assert float(learner.past_divergence()(net)) == 0
    batch = Batch(task.train.x[:6], task.train.y[:6], torch.zeros(6, dtype=torch.int64), (task.name,))
    made = net.head(task.name)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        value = learner.objective(task)(net, batch)
        weights = made.mean + torch.einsum("cde,sce->scd", made.lower, torch.randn(4000, 2, 7))
        logits = torch.einsum("scd,rd->src", weights, with_one(net.embed(batch.x)))
        missed = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.y.repeat(4000))
        expected = missed + made.divergence() / len(task.train)
    assert float(value) == pytest.approx(float(expected), abs=5e-3)


def test_the_past_is_the_divergence_of_what_is_remembered_from_the_kernel_of_the_features_now():
    first, second = benchmark(2)
    learner = frcl()
    learner.learn(first)
    net = learner.grow_net(second)
    old = learner.inducing[first.name]
    at = features_of(net, old.x)
    prior = MultivariateNormal(torch.zeros(10).double(), gp.kernel_of(at, learner.jitter))
    expected = sum(kl_divergence(MultivariateNormal(old.mean[:, c], scale_tril=old.lower[c]), prior) for c in range(2))
    found = learner.past_divergence()(net)
    assert torch.allclose(found, expected, rtol=1e-6)
    found.backward()
    assert all(bool(weight.grad.any()) for weight in net.backbone.parameters())
    assert all(weight.grad is None for weight in net.heads.parameters())


def test_the_points_are_the_tasks_own_inputs_and_all_is_counted():
    tasks = benchmark(2)
    learner = show(frcl(), tasks)
    for task in tasks:
        assert row_set(learner.inducing[task.name].x) <= row_set(task.train.x)
    assert learner.stored_samples == 20
    assert not learner.net.heads
    assert learner.num_parameters == (64 + 1) * 6 + 10 * 2 * 11 + 10 * 3 * 11


def test_a_task_smaller_than_the_points_is_kept_whole():
    task = pictures(per_class=3)
    learner = show(frcl(points=40), [task])
    assert learner.stored_samples == 6


def test_past_functions_stay_likelier_than_where_that_counts_for_nothing(monkeypatch):
    tasks = [pictures(f"task {number}") for number in range(3)]
    learners = [frcl(recipe=replace(TINY, epochs=6)) for _ in range(2)]
    show(learners[0], tasks)
    with monkeypatch.context() as patch:
        patch.setattr(Frcl, "past_divergence", lambda self: lambda net: torch.zeros(()))
        show(learners[1], tasks)
    with torch.no_grad():
        held, free = (float(learner.past_divergence()(learner.net)) for learner in learners)
    assert held < free


def test_an_answer_is_the_mean_of_probabilities_over_draws_of_the_function_by_hand():
    task = pictures(classes=3)
    learner = show(frcl(answer_samples=10_000), [task])
    old = learner.inducing[task.name]
    learner.inducing[task.name] = Inducing(old.x, 3 * old.mean, 6 * old.lower)
    mean, variance = learner.belief(task.test.x, task.name)
    logits = mean + variance.sqrt() * torch.randn(10_000, *mean.shape, generator=generator(0)).double()
    expected = torch.softmax(logits, dim=2).mean(dim=0)
    assert float((torch.softmax(mean, dim=1) - expected).abs().max()) > 0.1
    found = learner.predict_proba(task.test.x, task.name)
    assert float((found - expected).abs().max()) < 0.035  # five deviations of the mean of so many draws


def test_priors_take_the_place_of_weight_decay():
    task = pictures()
    learners = [show(frcl(recipe=replace(TINY, weight_decay=decay)), [task]) for decay in (0.0, 0.5)]
    assert same(*(state(learner.net) for learner in learners))


def test_adam_is_taken_where_it_is_asked_for():
    task = pictures()
    by_sgd, by_adam = (show(frcl(recipe=replace(TINY, optimizer=kind)), [task]) for kind in ("sgd", "adam"))
    assert not torch.equal(state(by_sgd.net)["backbone.1.weight"], state(by_adam.net)["backbone.1.weight"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"points": 0},
        {"proposals": -1},
        {"jitter": 0.0},
        {"first_scale": 0.0},
        {"max_grad_norm": -1.0},
        {"shared_head": True},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        frcl(**wrong)


def test_batch_norm_is_refused_with_what_is_taken():
    with pytest.raises(SettingsError, match=r"frcl takes backbones without batch-norm.*'with_norm' has some"):
        frcl(backbone=with_norm).learn(pictures())


def test_a_net_as_published_takes_it_too():
    task = pictures()
    learner = show(frcl(backbone=mlp_100, recipe=replace(TINY, epochs=10)), [task])
    assert learner.net.num_parameters == net_for([task], mlp_100).num_parameters - 2 * 101
    assert learner.evaluate([task])[task.name] > 0.9
