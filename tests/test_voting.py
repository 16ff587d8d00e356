"""Other ways to make one answer of the members' votes, and what each member is worth alone."""

from dataclasses import replace

import pytest
import torch

from toys import benchmark, learner_of, pictures
from zoolearn.beyond.temperature import fit_inverse_temperature
from zoolearn.beyond.voting import TaskOutputs, accuracy_by_rule, collect_outputs, member_stats
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.training.recipe import Recipe

TOYS = benchmark(3, per_class=16)
LEARNING = Recipe(epochs=4, batch_size=8, lr=0.05, device="cpu", augment="no")


def zoo_of(tasks=TOYS, **settings):
    zoo = learner_of(ModelZoo, **{"recipe": LEARNING, "tasks_per_episode": 2, **settings})
    for task in tasks:
        zoo.learn(task)
    return zoo


def heard_of(zoo, tasks):
    return list(collect_outputs(zoo, tasks))


def heard(answers, labels, weights=None):
    """What members say of the same rows."""
    task = TOYS[0]
    task = type(task)(
        task.name, task.train, type(task.test)(task.test.x[: len(labels)], torch.tensor(labels)), ("a", "b")
    )
    return TaskOutputs(task, torch.tensor(weights or [1.0] * len(answers)), torch.tensor(answers))


def test_the_mean_is_what_the_zoo_answers():
    toys = benchmark(3, per_class=16, contrast=15)
    zoo = zoo_of(toys, grow=WarmStart(), replay=0.5)
    wanted = sum(accuracy(zoo.predict_proba(task.test.x, task.name), task.test.y) for task in toys) / len(toys)
    assert wanted < 0.9, "there is something to get wrong"
    heard = heard_of(zoo, toys.tasks)
    assert [accuracy_by_rule(heard)["mean"], member_stats(heard, flips=False).zoo] == pytest.approx([wanted, wanted])


def test_pictures_are_also_asked_mirrored():
    task = pictures("stripes", shape=(3, 8, 8))
    zoo = zoo_of([task], recipe=replace(LEARNING, flip_tta=True))
    said = accuracy_by_rule(heard_of(zoo, [task]))
    assert said["mean, mirrored"] == pytest.approx(accuracy(zoo.predict_proba(task.test.x, task.name), task.test.y))
    assert "mean" in said


def test_one_sure_member_can_veto_in_a_product_and_not_in_a_mean():
    said = accuracy_by_rule([heard([[[0.8, 0.2]], [[0.8, 0.2]], [[0.0001, 0.9999]]], [0])])
    assert (said["mean"], said["product"]) == (1.0, 0.0)


def test_weights_count_unless_all_are_alike():
    said = accuracy_by_rule([heard([[[0.8, 0.2]], [[0.3, 0.7]]], [1], weights=[0.1, 1.0])])
    assert (said["mean"], said["mean, all alike"]) == (1.0, 0.0)


def test_each_member_alone_and_how_far_they_differ():
    found = member_stats([heard([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.4, 0.6]]], [0, 1])], flips=False)
    assert (found.newest, found.best, found.average, found.disagreement) == (1.0, 1.0, 0.75, 0.5)


def test_the_sharpness_found_is_the_one_of_highest_likelihood():
    rng = torch.Generator().manual_seed(0)
    logits = [torch.randn(400, classes, generator=rng) for classes in (3, 5)]
    labels = [torch.multinomial(torch.softmax(2.5 * block, dim=1), 1, generator=rng)[:, 0] for block in logits]

    def likelihood(factor):
        pairs = zip(logits, labels, strict=True)
        return sum(float(torch.log_softmax(factor * b, dim=1).gather(1, y[:, None]).sum()) for b, y in pairs)

    found = fit_inverse_temperature(logits, labels)
    assert found == pytest.approx(2.5, rel=0.15)
    assert likelihood(found) > max(likelihood(found * 0.9), likelihood(found * 1.1))
