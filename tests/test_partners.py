"""Choosing partners: what each measure of a past task sees, and that a draw goes by it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from toys import TINY, benchmark, learner_of, same, state
from zoolearn.beyond.partners import MEASURES, Partner, agreement, disagreement, kinship, loss, separability
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.weighing import boosted
from zoolearn.task import Examples

TOYS = benchmark(4)


def zoo_of(tasks=TOYS.tasks[:3], **settings):
    zoo = learner_of(ModelZoo, **{"tasks_per_episode": 2, **settings})
    for task in tasks:
        zoo.learn(task)
    return zoo


def partner(zoo, name, new, **changes):
    members = [member.net for member in zoo.members if name in member.share]
    known = {"loss": zoo.training_loss(name), "kept": zoo.kept[name], "members": members}
    return Partner(**{**known, "newest": zoo.members[-1].net, "new": new, "recipe": TINY, "seed": 0, **changes})


@pytest.mark.parametrize("name", MEASURES)
def test_a_draw_weighs_past_tasks_by_the_measure(name):
    zoo = zoo_of(partners=MEASURES[name])
    seed = zoo.episode_seed("partners")
    measured = [MEASURES[name](partner(zoo, task.name, TOYS[3], seed=seed)) for task in TOYS[:3]]
    zoo.learn(TOYS[3])
    assert list(zoo.latest.weights.values()) == pytest.approx(boosted(np.array(measured)).tolist(), rel=1e-5)


def test_measuring_leaves_the_members_as_they_are():
    zoo = zoo_of()
    before = [state(member.net) for member in zoo.members]
    for measure in MEASURES.values():
        measure(partner(zoo, "stripes", TOYS[3]))
    assert all(same(state(member.net), old) for member, old in zip(zoo.members, before, strict=True))
    assert not any(weight.requires_grad for member in zoo.members for weight in member.net.parameters())


def test_the_papers_measure_is_the_loss():
    zoo = zoo_of()
    assert loss(partner(zoo, "stripes", TOYS[3])) == zoo.training_loss("stripes")


def test_what_the_newest_features_cannot_tell_apart_is_wanted_most():
    zoo = zoo_of()
    easy = zoo.kept["rings"]
    hard = replace(easy, train=Examples(easy.train.x, easy.train.y.roll(1) ^ (easy.train.y.cumsum(0) % 2)))
    by_task = [separability(partner(zoo, "stripes", TOYS[3], kept=task)) for task in (easy, hard)]
    assert by_task[1] > by_task[0]


def test_the_same_task_again_agrees_with_itself_and_another_less():
    zoo = zoo_of()
    assert agreement(partner(zoo, "stripes", TOYS[0])) == pytest.approx(1.0, abs=1e-5)
    assert agreement(partner(zoo, "dots", TOYS[0])) < 0.99


def test_kin_is_the_task_whose_first_member_fits_the_new_one():
    zoo = zoo_of()
    net = zoo.members[0].net
    assert kinship(partner(zoo, "stripes", TOYS[3])) == pytest.approx(
        kinship(partner(zoo, "dots", TOYS[3], members=[net]))
    )


def test_members_that_say_the_same_do_not_disagree():
    zoo = zoo_of(tasks_per_episode=3)
    known = partner(zoo, "stripes", TOYS[3])
    assert len(known.members) == 3, "every later episode drew it"
    alone = partner(zoo, "stripes", TOYS[3], members=[known.members[0]] * 2)
    assert disagreement(alone) == pytest.approx(0.0, abs=1e-6)
    x = zoo.kept["stripes"].train.x
    said = torch.stack([torch.softmax(net(x, "stripes"), dim=1) for net in known.members]).double()
    spread = Categorical(said.mean(dim=0)).entropy() - Categorical(said).entropy().mean(dim=0)
    assert disagreement(known) == pytest.approx(float(spread.mean()), rel=1e-3)
    assert disagreement(known) > 1e-4
