"""VCL: its objective, the posterior as the next prior, coresets, and where it is plain training."""

import math
from dataclasses import replace

import pytest
import torch

from by_hand import smooth, vague
from toys import TINY, benchmark, net_for, pictures, row_set, same, show, state
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.gaussian import divergence, gaussian_layers
from zoolearn.methods.vcl import Vcl, beliefs, centres, random_points, split_off
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.seeds import generator
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch
from zoolearn.training.fit import cross_entropy, run_to_end


def vcl(**settings):
    return Vcl(**{"backbone": mlp_100, "recipe": TINY, "train_samples": 2, "answer_samples": 10, **settings})


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_without_divergence_and_variance_it_is_training_a_plain_net(optimizer):
    task, recipe = pictures(), replace(TINY, lr=0.003, weight_decay=0.0, dropout=0.0, optimizer=optimizer)
    settings = {"strength": 0.0, "first_log_variance": -80.0, "likelihood_first": False, "recipe": recipe}
    learner = vcl(**settings)
    learner.learn(task)
    plain = net_for([task], mlp_100)
    fit(plain, [task], recipe, seed=vcl().episode_seed())
    for name, weight in plain.state_dict().items():
        assert torch.allclose(learner.net.state_dict()[name], weight, atol=2e-5), name


def test_means_of_all_new_weights_and_biases_may_start_at_a_cut_normal_distribution():
    first, second = benchmark(2)
    learner = vcl(first_std=0.1, backbone=mlp_100)
    layers = gaussian_layers(learner.grow_net(first), first.name)
    for layer in layers:
        assert bool((layer.weight.abs() <= 0.2).all())
        assert bool(layer.bias.any())
    means = torch.cat([layer.weight.detach().flatten() for layer in layers])
    assert float(means.std()) == pytest.approx(0.1 * 0.8796, rel=0.03)  # the deviation that is left at 2 sigma
    learner.learn(first)
    again = gaussian_layers(learner.grow_net(second), second.name)
    known = gaussian_layers(learner.net, first.name)
    assert torch.equal(again[0].weight, known[0].weight)  # what was learned stays
    assert bool(again[-1].bias.any())  # and the new head is drawn


def test_the_likelihood_sees_the_coreset_too_and_the_posterior_does_not(monkeypatch):
    task, seen = pictures(per_class=20), []
    fitted = Vcl.fit_net

    def noting(self, net, task, *arguments):
        seen.append(len(task.train))
        return fitted(self, net, task, *arguments)

    monkeypatch.setattr(Vcl, "fit_net", noting)
    vcl(coreset_size=8).learn(task)
    assert seen == [40, 32]


def test_the_prior_of_a_task_is_the_posterior_of_the_last_bit_for_bit():
    first, second = benchmark(2)
    learner = vcl(prior_variance=0.5)
    learner.learn(first)
    priors = learner.prior_of(second, learner.grow_net(second))
    posterior = [beliefs(layer) for layer in gaussian_layers(learner.net, first.name)]
    for prior, known in zip(priors[:-1], posterior[:-1], strict=True):
        assert all(torch.equal(*pair) for pair in zip(prior, known, strict=True))
    assert float(priors[-1][0]) == 0
    assert float(priors[-1][1].exp()) == pytest.approx(0.5)


def test_a_shared_heads_prior_is_its_posterior_too():
    tasks = [pictures("one"), pictures("two")]
    learner = vcl(shared_head=True)
    learner.learn(tasks[0])
    priors = learner.prior_of(tasks[1], learner.grow_net(tasks[1]))
    known = [beliefs(layer) for layer in gaussian_layers(learner.net, "one")]
    assert len(priors) == len(known) == 3
    assert all(
        torch.equal(*pair) for prior, own in zip(priors, known, strict=True) for pair in zip(prior, own, strict=True)
    )
    learner.learn(tasks[1])
    assert len(learner.net.heads) == 1


def test_the_loss_is_the_expected_loss_and_the_divergence_over_the_number_of_examples():
    task = pictures()
    learner = vcl(strength=3.0, first_log_variance=-60.0)
    net = learner.grow_net(task).eval()
    prior = learner.prior_of(task, net)
    batch = Batch(task.train.x[:6], task.train.y[:6], torch.zeros(6, dtype=torch.int64), (task.name,))
    with torch.random.fork_rng():
        value = learner.objective(task, prior)(net, batch)
    pairs = zip(gaussian_layers(net, task.name), prior, strict=True)
    apart_from = sum(divergence(layer.distribution(), before) for layer, before in pairs)
    assert torch.allclose(value, cross_entropy(net, batch) + 3.0 * apart_from / len(task.train), rtol=1e-5)


def test_old_heads_stay_as_they_are():
    first, second = benchmark(2)
    learner = vcl(recipe=replace(TINY, weight_decay=0.1))
    learner.learn(first)
    before = {name: tensor.clone() for name, tensor in learner.net.head(first.name).state_dict().items()}
    learner.learn(second)
    assert same(before, learner.net.head(first.name).state_dict())


def test_the_prior_takes_the_place_of_weight_decay():
    task = pictures()
    learners = [show(vcl(recipe=replace(TINY, weight_decay=decay)), [task]) for decay in (0.0, 0.5)]
    assert same(*(state(learner.net) for learner in learners))


def test_the_likelihood_alone_moves_means_and_no_variance():
    task = pictures()
    learner = vcl()
    net = learner.grow_net(task)
    run_to_end(learner.fit_net(net, task, cross_entropy, seed=0))
    for layer in gaussian_layers(net, task.name):
        assert bool((layer.log_variance == -6).all())
        assert bool((layer.bias_log_variance == -6).all())


def test_a_restart_forgets_the_start_but_not_the_prior():
    first, second = benchmark(2)
    learner = vcl(restart=True)
    learner.learn(first)
    net = learner.grow_net(second)
    before, after = (gaussian_layers(found, first.name)[0] for found in (learner.net, net))
    assert not torch.equal(before.weight, after.weight)
    assert bool((after.log_variance == -6).all())
    assert torch.equal(learner.prior_of(second, net)[0][0], beliefs(before)[0])


def test_centres_are_those_of_a_greedy_search_by_hand():
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    distances = torch.cdist(points, points)
    chosen = [0]
    while len(chosen) < 12:
        chosen.append(max(range(50), key=lambda row: min(float(distances[row, other]) for other in chosen)))
    assert centres(points, 12, seed=0).tolist() == chosen


@pytest.mark.parametrize("coreset", [random_points, centres])
def test_a_coreset_is_apart_from_what_is_trained_on_and_both_hold_every_class(coreset):
    task = pictures(classes=3)
    kept, rest = split_off(task, coreset, 6, seed=0)
    assert row_set(kept.x) | row_set(rest.train.x) == row_set(task.train.x)
    assert not row_set(kept.x) & row_set(rest.train.x)
    assert set(kept.y.tolist()) == set(rest.train.y.tolist()) == {0, 1, 2}


def test_a_class_of_one_example_is_in_both_and_no_class_goes_empty():
    x = torch.arange(6, dtype=torch.float32)[:, None]
    task = Task(
        "few", Examples(x, torch.tensor([0, 0, 0, 0, 1, 2])), Examples(x[:1], torch.tensor([0])), ("a", "b", "c")
    )
    kept, rest = split_off(task, lambda x, size, seed: torch.tensor([0, 1, 2]), 40, seed=0)
    assert set(kept.y.tolist()) == set(rest.train.y.tolist()) == {0, 1, 2}
    assert rest.train.x[:, 0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("shared", [False, True])
def test_coresets_are_learned_by_a_copy_when_asked_and_counted(shared):
    tasks = [pictures("one", per_class=20), pictures("two", per_class=20)]
    learner = show(vcl(coreset_size=8, shared_head=shared), tasks)
    posterior = state(learner.net)
    answers = learner.predict_proba(tasks[0].test.x, "one")
    assert learner.stored_samples == 16
    assert same(state(learner.net), posterior)
    assert not same(state(learner.refresh("one")), posterior)
    assert len(learner.refreshed) == 1
    learner.refreshed.clear()
    assert torch.equal(learner.predict_proba(tasks[0].test.x, "one"), answers)


def test_a_coreset_may_be_learned_for_longer_than_a_task():
    task = pictures(per_class=20)
    learners = [show(vcl(coreset_size=8, coreset_epochs=epochs), [task]) for epochs in (0, 2, 5)]
    same_as_task, two, five = (state(learner.refresh(task.name)) for learner in learners)
    assert same(same_as_task, two)
    assert not same(two, five)


def test_more_draws_hardly_change_an_answer_and_weights_have_a_variance_each():
    task = pictures()
    learner = show(vcl(answer_samples=500, first_log_variance=-3.0), [task])
    more = show(vcl(answer_samples=1000, first_log_variance=-3.0), [task])
    pair = [found.predict_proba(task.test.x, task.name) for found in (learner, more)]
    assert torch.allclose(*pair, atol=0.05)
    assert learner.num_parameters == 2 * net_for([task], mlp_100).num_parameters


def test_an_answer_is_the_mean_of_probabilities_over_draws_of_all_weights_by_hand():
    task = vague("one", classes=3)
    learner = show(vcl(backbone=smooth, answer_samples=10_000), [task])
    layers = gaussian_layers(learner.net, task.name)
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(3.0)
            layer.log_variance.fill_(1.0)
            layer.bias_log_variance.fill_(-1.0)
    rng, logits = generator(0), task.test.x
    for layer in layers:
        weight = layer.weight + math.exp(0.5) * torch.randn(10_000, *layer.weight.shape, generator=rng)
        bias = layer.bias + math.exp(-0.5) * torch.randn(10_000, 1, len(layer.bias), generator=rng)
        inputs = logits if layer is layers[0] else torch.tanh(logits)
        logits = (inputs @ weight.mT + bias).detach()
    expected = torch.softmax(logits, dim=2).mean(dim=0)
    assert float((torch.softmax(logits.mean(dim=0), dim=1) - expected).abs().max()) > 0.1
    found = learner.predict_proba(task.test.x, task.name)
    assert float((found - expected).abs().max()) < 0.035  # five deviations of the mean of so many draws


def test_it_remembers_what_a_restart_without_prior_forgets():
    tasks = [pictures(f"task {number}", per_class=30) for number in range(4)]
    recipe = replace(TINY, epochs=10, lr=0.1)
    kept = show(vcl(recipe=recipe), tasks).evaluate(tasks[:-1])
    lost = show(vcl(recipe=recipe, strength=0.0, restart=True), tasks).evaluate(tasks[:-1])
    assert sum(kept.values()) > sum(lost.values()) + 0.2


@pytest.mark.parametrize(
    "wrong",
    [{"coreset_size": -1}, {"coreset_epochs": -1}, {"train_samples": 0}, {"strength": -1.0}, {"prior_variance": 0.0}],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        vcl(**wrong)


def test_convolutions_are_refused_and_nothing_is_learned():
    learner = vcl(backbone=small_conv)
    with pytest.raises(SettingsError, match="vcl takes backbones"):
        learner.learn(pictures(shape=(1, 28, 28)))
    assert learner.episode == 0
