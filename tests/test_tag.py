"""TAG: RMSProp at first, then smaller steps where past tasks disagree."""

import math
from dataclasses import replace

import pytest
import torch

from by_hand import WHOLE, gradient_on, much_closer, smooth, vague
from toys import TINY, benchmark, learner_of, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.tag import EPSILON, Tag, agreement
from zoolearn.nets.net import Net
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch
from zoolearn.training.fit import cross_entropy

TASKS = benchmark(3).tasks
PLAIN = replace(TINY, lr=1e-3, momentum=0.0, weight_decay=0.0, schedule="constant", dropout=0.0)


def tag_of(recipe=PLAIN, **settings):
    return learner_of(Tag, recipe, **settings)


def noted(net: Net, batch: Batch, batches: list[Batch]):
    batches.append(batch)
    return cross_entropy(net, batch)


def test_the_first_task_is_rmsprop():
    learner = tag_of()
    ours = show(learner, TASKS[:1]).net
    theirs = tag_of().new_net(TASKS[:1], learner.seed)
    optimizer = torch.optim.RMSprop(theirs.parameters(), lr=PLAIN.lr, alpha=0.99, eps=EPSILON)
    batches = []
    fit(
        tag_of().new_net(TASKS[:1], 0),
        TASKS[:1],
        PLAIN,
        seed=learner_of(Tag).episode_seed(),
        loss=lambda net, batch: noted(net, batch, batches),
    )
    for batch in batches:
        optimizer.zero_grad()
        cross_entropy(theirs, batch).backward()
        optimizer.step()
    for name, tensor in state(theirs).items():
        torch.testing.assert_close(state(ours)[name], tensor, atol=1e-6, rtol=1e-4)


def test_agreement_weighs_the_same_direction_least_and_the_opposite_most():
    direction = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 5.0], [-3.0, -4.0, 0.0]]) / 5
    (weights,) = agreement([direction], [torch.tensor([0.03, 0.04, 0.0])], contrast=5.0)
    torch.testing.assert_close(weights, torch.tensor([-5.0, 0.0, 5.0]).exp())
    rng = torch.Generator().manual_seed(0)
    past = torch.nn.functional.normalize(torch.randn(50, 7, generator=rng))
    (weights,) = agreement([past], [torch.randn(7, generator=rng)], contrast=5.0)
    assert weights.min() >= math.exp(-5) * (1 - 1e-5)
    assert weights.max() <= math.exp(5) * (1 + 1e-5)


def test_a_tensor_without_gradient_weighs_the_past_neutrally():
    assert agreement([torch.eye(2)], [torch.zeros(2)], contrast=5.0).tolist() == [[1.0, 1.0]]


def test_agreement_is_computed_without_leaving_the_device():
    # a tensor on "meta" has no values: asking for one is an error
    means = [torch.empty(4, device="meta"), torch.empty(6, device="meta")]
    past = [torch.empty(3, 4, device="meta"), torch.empty(3, 6, device="meta")]
    assert agreement(past, means, contrast=5.0).shape == (2, 3)


def test_the_moments_of_finished_tasks_never_change():
    learner = show(tag_of(), TASKS[:2])
    directions, seconds = learner.directions.clone(), learner.seconds.clone()
    learner.learn(TASKS[2])
    assert learner.directions[:2].equal(directions)
    assert learner.seconds[:2].equal(seconds)


def test_each_direction_has_length_one_in_every_tensor():
    learner = show(tag_of(), TASKS[:2])
    sizes = [parameter.numel() for parameter in learner.net.backbone.parameters()]
    for part in learner.directions.split(sizes, dim=1):
        torch.testing.assert_close(part.norm(dim=1), torch.ones(2))


def steps_of(learner, task, monkeypatch):
    """The gradient, the moments and the divided gradient of every step of learning a task."""
    steps = []
    original = Tag._denominator

    def noting(self, shared, weights):
        denominator = original(self, shared, weights)

        def asked(first, second):
            divisor = denominator(first, second)
            steps.append((first.clone(), second.clone(), divisor.clone()))
            return divisor

        return asked

    monkeypatch.setattr(Tag, "_denominator", noting)
    learner.learn(task)
    return steps


def test_without_contrast_the_second_moments_of_all_tasks_are_summed(monkeypatch):
    learner = show(tag_of(contrast=0.0), TASKS[:2])
    past, shared = learner.seconds.clone(), learner.seconds.shape[1]
    for _, second, divisor in steps_of(learner, TASKS[2], monkeypatch):
        expected = (second[:shared] + past.sum(dim=0)).sqrt() + EPSILON
        torch.testing.assert_close(divisor[:shared], expected)


def test_the_divisor_is_that_of_the_paper_and_a_new_head_has_no_past(monkeypatch):
    learner = show(tag_of(contrast=2.0), TASKS[:2])
    past, directions, shared = learner.seconds.clone(), learner.directions.clone(), learner.seconds.shape[1]
    sizes = [parameter.numel() for parameter in learner.net.backbone.parameters()]
    for first, second, divisor in steps_of(learner, TASKS[2], monkeypatch):
        torch.testing.assert_close(divisor[shared:], (math.exp(-2.0) * second[shared:]).sqrt() + EPSILON)
        done = 0
        for size in sizes:
            here = slice(done, done + size)
            done += size
            total = math.exp(-2.0) * second[here]
            for task in range(2):
                cosine = torch.cosine_similarity(directions[task, here], first[here], dim=0)
                total = total + torch.exp(-2.0 * cosine) * past[task, here]
            torch.testing.assert_close(divisor[here], total.sqrt() + EPSILON, atol=1e-6, rtol=1e-4)


def lengths_one(vector, sizes):
    """A vector whose parts each have length 1."""
    return torch.cat([part / part.norm() for part in vector.split(sizes)])


def test_the_moments_and_steps_of_a_later_task_are_those_of_the_paper_by_hand():
    first, second = vague("one"), vague("two", classes=3)
    recipe = replace(WHOLE, epochs=6, lr=0.01)
    learner = show(tag_of(recipe, backbone=smooth, contrast=2.0), [first])
    past_direction, past_second = learner.directions[0].clone(), learner.seconds[0].clone()
    net = learner.grow_net(second)
    flat, body = Flat(net.trainable([second.name])), sum(p.numel() for p in net.backbone.parameters())
    sizes = [parameter.numel() for parameter in net.backbone.parameters()]
    mean, square = torch.zeros(len(flat)), torch.zeros(len(flat))
    forgetful = mean.clone()  # a mean that keeps a tenth where the paper keeps nine
    for _ in range(6):
        gradient = gradient_on(net, second, flat)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        forgetful = 0.1 * forgetful + 0.9 * gradient
        total = math.exp(-2.0) * square
        parts = zip(past_direction.split(sizes), mean[:body].split(sizes), past_second.split(sizes), strict=True)
        total[:body] += torch.cat([torch.exp(-2.0 * (was @ now) / now.norm()) * old for was, now, old in parts])
        flat.write_data(flat.data() - 0.01 * gradient / (total.sqrt() + EPSILON))
    learner.learn(second)
    found = Flat(learner.net.trainable([second.name])).data()
    torch.testing.assert_close(found, flat.data(), atol=1e-5, rtol=0)
    torch.testing.assert_close(learner.seconds[1], square[:body], atol=1e-6, rtol=1e-3)
    wanted, other = (lengths_one(each[:body], sizes) for each in (mean, forgetful))
    assert much_closer(learner.directions[1], wanted, [other])


def test_a_tensor_that_never_had_a_gradient_takes_rmsprop_steps_later(monkeypatch):
    learner = show(tag_of(), TASKS[:1])
    size = learner.net.backbone[1].weight.numel()
    learner.directions[:, :size] = 0
    learner.seconds[:, :size] = 0
    for _, second, divisor in steps_of(learner, TASKS[1], monkeypatch):
        torch.testing.assert_close(divisor[:size], second[:size].sqrt() + EPSILON)
    assert torch.isfinite(learner.directions).all()


def test_old_heads_do_not_move_under_momentum_and_weight_decay():
    learner = show(tag_of(replace(PLAIN, momentum=0.9, weight_decay=0.1)), TASKS[:1])
    before = state(learner.net.head("stripes"))
    learner.learn(TASKS[1])
    assert same(state(learner.net.head("stripes")), before)


def test_batch_norm_statistics_follow_the_newest_task():
    learner = show(tag_of(backbone=with_norm), TASKS[:1])
    before = learner.net.backbone[2].running_mean.clone()
    learner.learn(TASKS[1])
    assert not learner.net.backbone[2].running_mean.equal(before)


def test_a_shared_head_has_its_past_like_the_rest():
    learner = show(tag_of(shared_head=True), TASKS[::2])
    assert learner.seconds.shape == (2, learner.net.num_parameters)


def test_directions_and_second_moments_count_as_weights():
    learner = show(tag_of(), TASKS[:2])
    body = sum(parameter.numel() for parameter in learner.net.backbone.parameters())
    assert learner.num_parameters == learner.net.num_parameters + 2 * 2 * body
    assert learner.stored_samples == 0


@pytest.mark.parametrize(("name", "value"), [("contrast", -1.0), ("first_decay", 1.0), ("second_decay", -0.1)])
def test_impossible_settings_are_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        Tag(**{name: value})
