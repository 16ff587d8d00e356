"""Model Zoo: what it draws, how it weighs, who votes, and that an episode asks the new member only."""

import math
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from toys import TINY, benchmark, embedded, learner_of, net_for, pictures, row_set, same, state, with_norm
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, SettingsError, UnknownTask
from zoolearn.methods.ensemble import Ensemble
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo, boosted
from zoolearn.methods.parts.weighing import Released, uniform
from zoolearn.methods.registry import settings_of
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp, mlp_100
from zoolearn.runs.run import episodes, run
from zoolearn.runs.state import restore
from zoolearn.runs.store import RunFolder, load
from zoolearn.seeds import derive
from zoolearn.training.predict import compute_features, iter_probabilities, probabilities
from zoolearn.training.recipe import Recipe

TOYS = benchmark(5)
HARD = Benchmark("hard", tuple(pictures(name, 3, 4, test_per_class=40) for name in ("stripes", "dots", "rings")))
BRIEF = replace(TINY, epochs=1, lr=0.01)


def zoo_of(tasks=(), **settings):
    zoo = learner_of(ModelZoo, **{"tasks_per_episode": 3, **settings})
    for task in tasks:
        zoo.learn(task)
        zoo.evaluate(tasks[: zoo.episode])
    return zoo


def test_boosted_weights_are_the_exponential_of_the_loss():
    losses = np.array([0.1, 1.4, 0.7])
    total = math.exp(0.1) + math.exp(1.4) + math.exp(0.7)
    assert boosted(losses) == pytest.approx([math.exp(loss) / total for loss in losses])
    assert boosted(np.array([3.0, 1000.0])) == pytest.approx([0.0, 1.0])


def test_released_weights_are_relative_to_the_mean_loss_of_all_tasks_and_clipped():
    below, above = math.exp(-0.5), math.exp(0.5)
    released = Released(stream_tasks=2)
    early = Released(stream_tasks=4, stream_classes=7)(np.array([1.0, 3.0]))
    mean = (1.0 + 3.0 + 2 * math.log(7)) / 4  # two tasks were not met: a guess among 7
    assert early[1] / early[0] == pytest.approx(math.exp(2.0 / mean))
    assert released(np.array([1.0, 3.0])) == pytest.approx([below / (below + above), above / (below + above)])
    lonely = released(np.array([0.0] * 19 + [1.0]))
    assert lonely[-1] / lonely[0] == pytest.approx(1e3 / math.exp(-1))
    assert released(np.zeros(4)) == pytest.approx([0.25] * 4)
    assert released(np.array([-3.0, -1.0])) == pytest.approx([below / (below + above), above / (below + above)])


def test_uniform_weights_are_equal():
    assert uniform(np.array([0.1, 5.0, 2.0, 0.0])).tolist() == [0.25] * 4


@pytest.mark.parametrize(("weigh", "by_hand"), [(boosted, np.exp), (uniform, np.ones_like)])
@pytest.mark.parametrize("replay", [1.0, 0.5])
def test_an_episode_weighs_past_tasks_by_the_loss_of_the_whole_zoo_on_what_it_keeps(weigh, by_hand, replay):
    zoo = zoo_of(TOYS.tasks[:4], weigh=weigh, replay=replay)
    losses = []
    for task in TOYS[:4]:
        kept = zoo.kept[task.name].train
        answers = zoo.predict_proba(kept.x, task.name)
        losses.append(float(-answers[torch.arange(len(kept)), kept.y].double().log().mean()))
    weights = by_hand(np.array(losses))
    zoo.learn(TOYS[4])
    assert list(zoo.latest.weights) == ["stripes", "dots", "rings", "waves"]
    assert list(zoo.latest.weights.values()) == pytest.approx((weights / weights.sum()).tolist(), rel=1e-5)


@pytest.mark.parametrize("b", [1, 2, 3, 9])
def test_an_episode_trains_on_the_new_task_and_on_so_many_different_past_ones(b):
    zoo = zoo_of(tasks_per_episode=b)
    for number, task in enumerate(TOYS, 1):
        zoo.learn(task)
        trained = zoo.latest.tasks
        assert trained[0] == task.name
        assert len(trained) == len(set(trained)) == min(number, b)
        assert set(trained) <= {TOYS[place].name for place in range(number)}
        assert zoo.members[-1].net.tasks == trained
        assert tuple(zoo.members[-1].votes) == trained


def draws(weights, b, count=1500):
    task = TOYS[0]
    for seed in range(count):
        zoo = learner_of(ModelZoo, tasks_per_episode=b, seed=seed)
        zoo.kept = dict.fromkeys(weights, task)
        yield zoo.draw(weights)


def test_past_tasks_come_up_as_often_as_they_weigh():
    weights = {"easy": 0.1, "fair": 0.3, "hard": 0.6}
    drawn = Counter(name for (name,) in draws(weights, b=2))
    assert {name: drawn[name] / 1500 for name in weights} == pytest.approx(weights, abs=0.04)


def test_several_past_tasks_are_drawn_without_repeats_by_their_weights():
    weights = {"easy": 0.1, "fair": 0.3, "hard": 0.6}
    drawn = list(draws(weights, b=3))
    assert all(len(set(names)) == 2 for names in drawn)
    first = Counter(names[0] for names in drawn)
    second = Counter(names[1] for names in drawn if names[0] == "hard")
    assert first["hard"] / 1500 == pytest.approx(0.6, abs=0.05)
    assert second["fair"] / first["hard"] == pytest.approx(0.75, abs=0.05)


def test_each_episode_draws_anew():
    draws_of_episodes = set()
    for episode in range(6):
        zoo = zoo_of(tasks_per_episode=2)
        zoo.episode = episode
        zoo.kept = {"a": TOYS[0], "b": TOYS[1], "c": TOYS[2]}
        draws_of_episodes.update(zoo.draw({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}))
    assert len(draws_of_episodes) > 1


@pytest.mark.parametrize("replay", [1.0, 0.25])
def test_an_episode_asks_only_the_new_member_and_only_about_the_tasks_it_was_trained_on(monkeypatch, replay):
    zoo = zoo_of(replay=replay)
    for number, task in enumerate(TOYS, 1):
        with embedded(monkeypatch) as passes:
            zoo.learn(task)
            zoo.evaluate(TOYS.tasks[:number])
        asked = [(net, len(x)) for net, training, x in passes if not training]
        assert {id(net) for net, _ in asked} == {id(zoo.members[-1].net)}
        by_name = {task.name: task for task in TOYS}
        expected = sum(len(zoo.kept[name].train) + len(by_name[name].test) for name in zoo.latest.tasks)
        assert sum(rows for _, rows in asked) == expected


def test_an_isolated_episode_asks_about_test_data_alone(monkeypatch):
    isolated = learner_of(Isolated)
    isolated.learn(TOYS[0])
    isolated.evaluate(TOYS.tasks[:1])
    with embedded(monkeypatch) as passes:
        isolated.learn(TOYS[1])
        isolated.evaluate(TOYS.tasks[:2])
    assert sum(len(x) for _, training, x in passes if not training) == len(TOYS[1].test)


@pytest.mark.parametrize("replay", [1.0, 0.25])
def test_the_running_sums_are_what_the_zoo_would_answer_from_scratch(replay):
    zoo = zoo_of(TOYS.tasks, replay=replay)
    for task in TOYS:
        assert torch.equal(zoo.test_votes[task.name].mean, zoo.predict_proba(task.test.x, task.name))
        kept = zoo.kept[task.name].train
        fresh = zoo.predict_proba(kept.x, task.name).gather(1, kept.y[:, None])[:, 0]
        assert torch.allclose(zoo.train_votes[task.name].mean, fresh, atol=1e-6)
        (total,) = zoo.test_votes[task.name].sums
        assert total.weight == sum(
            member.votes[task.name].weight for member in zoo.members if task.name in member.votes
        )


def test_the_zoo_answers_with_the_average_of_the_members_that_know_the_task_by_their_share():
    zoo = zoo_of(TOYS.tasks, replay=0.25)
    task = TOYS[0]
    total, weight, voters = 0, 0.0, 0
    for member in zoo.members:
        if task.name in member.net.tasks:
            vote = 1.0 if member is zoo.members[0] else 0.25
            total = total + vote * torch.softmax(member.net(task.test.x, task.name), 1).double()
            weight += vote
            voters += 1
    assert voters > 1
    assert torch.allclose(zoo.predict_proba(task.test.x, task.name).double(), total / weight, atol=1e-6)


def test_with_full_replay_every_vote_counts_the_same():
    zoo = zoo_of(TOYS.tasks)
    task = TOYS[0]
    votes = [
        probabilities(member.net, task.test.x, task.name, TINY) for member in zoo.members if task.name in member.votes
    ]
    assert len(votes) > 1
    assert torch.allclose(zoo.predict_proba(task.test.x, task.name), torch.stack(votes).mean(0), atol=1e-6)


def test_limited_replay_keeps_a_fixed_share_and_the_first_member_sees_all():
    zoo = zoo_of(TOYS.tasks, replay=0.25)
    assert [len(zoo.kept[task.name].train) for task in TOYS] == [6, 9, 6, 9, 6]
    assert zoo.stored_samples == 36
    for member, task in zip(zoo.members, TOYS, strict=True):
        weights = {name: vote.weight for name, vote in member.votes.items()}
        assert weights == {name: 1.0 if name == task.name else 0.25 for name in member.net.tasks}
        assert all(vote.classes == zoo.classes[name] for name, vote in member.votes.items())


@pytest.mark.parametrize("replay", [1.0, 0.25])
def test_only_training_images_are_trained_on_and_of_past_tasks_only_those_kept(monkeypatch, replay):
    zoo = zoo_of(replay=replay)
    by_name = {task.name: task for task in TOYS}
    for number, task in enumerate(TOYS, 1):
        with embedded(monkeypatch) as passes:
            zoo.learn(task)
            zoo.evaluate(TOYS.tasks[:number])
        trained = set().union(*(row_set(x) for _, training, x in passes if training))
        allowed = row_set(task.train.x).union(*(row_set(zoo.kept[name].train.x) for name in zoo.latest.tasks[1:]))
        assert trained == allowed
        assert not trained & set().union(*(row_set(by_name[name].test.x) for name in zoo.classes))


def test_half_of_each_batch_of_limited_replay_is_of_the_new_task(monkeypatch):
    zoo = zoo_of(TOYS.tasks[:2], replay=0.25)
    new = row_set(TOYS[2].train.x)
    with embedded(monkeypatch) as passes:
        zoo.learn(TOYS[2])
    batches = [row_set(x) for _, training, x in passes if training]
    assert len(batches) == 2 * 2 * 24 // 8
    assert all(len(batch & new) == 4 for batch in batches)


def test_no_replay_is_one_task_an_episode():
    zoo = zoo_of(TOYS.tasks[:3], replay=0.0)
    assert [list(member.votes) for member in zoo.members] == [["stripes"], ["dots"], ["rings"]]
    assert zoo.stored_samples == 0


def test_isolated_is_a_zoo_with_one_task_an_episode_bit_for_bit():
    zoo, isolated = zoo_of(TOYS.tasks[:3], tasks_per_episode=1), learner_of(Isolated)
    for task in TOYS[:3]:
        isolated.learn(task)
        isolated.evaluate([task])
    assert len(zoo.members) == len(isolated.members) == 3
    for ours, theirs in zip(zoo.members, isolated.members, strict=True):
        assert same(state(ours.net), state(theirs.net))
        assert ours.votes == theirs.votes
    for task in TOYS[:3]:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), isolated.predict_proba(task.test.x, task.name))
    assert isolated.stored_samples == 0


def beginnings(monkeypatch, zoo, tasks):
    """The weights that each member begins with, and all rows in the order that it is trained on them."""
    weights = []
    fit = Ensemble.fit

    def noting(zoo, net, *arguments, **options):
        weights.append(state(net))
        return fit(zoo, net, *arguments, **options)

    with monkeypatch.context() as patch, embedded(patch) as passes:
        patch.setattr(Ensemble, "fit", noting)
        for task in tasks:
            zoo.learn(task)
    orders = [torch.cat([x for net, training, x in passes if training and net is m.net]) for m in zoo.members]
    return weights, orders


TWINS = [replace(TOYS[0], name=name) for name in ("once", "again")]


@pytest.mark.parametrize(
    ("method", "settings", "tasks"),
    [
        (ModelZoo, {"tasks_per_episode": 1}, TWINS),
        (Isolated, {}, TWINS),
        (Isolated, {"networks": 2}, TWINS[:1]),
    ],
)
def test_every_member_begins_with_weights_and_an_order_of_its_own_also_on_the_same_rows(
    monkeypatch, method, settings, tasks
):
    (first, second), (order, other) = beginnings(monkeypatch, learner_of(method, **settings), tasks)
    assert not torch.equal(first["backbone.1.weight"], second["backbone.1.weight"])
    assert not torch.equal(first["heads.0.weight"], second["heads.0.weight"])
    assert row_set(order) == row_set(other)
    assert not torch.equal(order, other)


def test_a_zoo_of_the_same_seed_begins_alike_and_one_of_another_seed_does_not(monkeypatch):
    (once, again, other), orders = zip(
        *(beginnings(monkeypatch, zoo_of(seed=seed), TOYS[:1]) for seed in (3, 3, 4)), strict=True
    )
    assert same(once[0], again[0])
    assert torch.equal(orders[0][0], orders[1][0])
    assert not torch.equal(once[0]["backbone.1.weight"], other[0]["backbone.1.weight"])
    assert not torch.equal(orders[0][0], orders[2][0])


def test_members_are_frozen_and_never_change_again():
    zoo = zoo_of(backbone=with_norm)
    states = []
    for number, task in enumerate(TOYS, 1):
        zoo.learn(task)
        zoo.evaluate(TOYS.tasks[:number])
        states.append(state(zoo.members[-1].net))
    for member, before in zip(zoo.members, states, strict=True):
        assert same(state(member.net), before)
        assert not member.net.training
        assert not any(parameter.requires_grad for parameter in member.net.parameters())
    assert len(zoo.members) == 5


def test_what_a_zoo_keeps_is_counted():
    zoo = zoo_of(TOYS.tasks[:3])
    assert zoo.stored_samples == 24 + 36 + 24
    assert zoo.num_parameters == sum(
        parameter.numel() for member in zoo.members for parameter in member.net.parameters()
    )


def test_a_member_cannot_be_changed():
    member = zoo_of(TOYS.tasks[:1]).members[0]
    for name in ("net", "votes", "loss", "episode"):
        with pytest.raises(FrozenInstanceError):
            setattr(member, name, None)
    with pytest.raises(FrozenInstanceError):
        member.votes["stripes"].weight = 2.0


def right(zoo, task):
    return accuracy(zoo.predict_proba(task.test.x, task.name), task.test.y)


def with_rows(task, order):
    return replace(task, test=task.test.select(order))


def test_a_second_evaluation_says_the_same_and_asks_nobody(monkeypatch):
    zoo = zoo_of(HARD.tasks, recipe=BRIEF)
    first = zoo.evaluate(HARD)
    with embedded(monkeypatch) as passes:
        second = zoo.evaluate(HARD)
    assert second == first == {task.name: right(zoo, task) for task in HARD}
    assert min(first.values()) < 1.0, "a toy that is answered without a mistake would hide a wrong order"
    assert passes == []


def test_rows_in_another_order_and_other_rows_are_evaluated_as_they_are():
    zoo = zoo_of(HARD.tasks, recipe=BRIEF)
    task = next(task for task in HARD if right(zoo, task) < 1.0)
    backwards = with_rows(task, torch.arange(len(task.test)).flip(0))
    half = with_rows(task, torch.arange(0, len(task.test), 2))
    for shown in (backwards, half, task, backwards):
        assert zoo.evaluate([shown]) == {task.name: right(zoo, shown)}


def test_votes_on_other_rows_are_not_mixed_with_those_of_members_that_come_later():
    zoo = zoo_of(HARD.tasks[:2], recipe=BRIEF)
    half = with_rows(HARD[0], torch.arange(0, len(HARD[0].test), 2))
    zoo.evaluate([half])
    zoo.learn(HARD[2])
    assert zoo.evaluate(HARD) == {task.name: right(zoo, task) for task in HARD}


def test_a_resumed_run_goes_on_with_the_votes_that_were_counted_on_the_same_rows(tmp_path, monkeypatch):
    work = episodes(zoo_of(), TOYS, tmp_path)
    next(work), next(work)
    work.close()
    again = zoo_of()
    copies = [replace(task, test=Examples(task.test.x.clone(), task.test.y.clone())) for task in TOYS]
    restore(again, RunFolder(tmp_path).snapshots(RunFolder(tmp_path).episodes(), grows=True), copies[:2])
    with embedded(monkeypatch) as passes:
        assert again.evaluate(copies[:2]) == {task.name: right(again, task) for task in copies[:2]}
    asked = [len(task.test) for task in copies[:2] for _ in members_of(again, task)]
    assert [len(x) for _, training, x in passes if not training] == asked


def members_of(zoo, task):
    """One pass for each member that answers; `evaluate` itself asked none, the comparison did."""
    return [member for member in zoo.members if task.name in member.votes]


def test_a_task_that_was_never_met_cannot_be_evaluated():
    with pytest.raises(UnknownTask, match="unknown task 'grids'"):
        zoo_of(TOYS.tasks[:1]).evaluate([TOYS[4]])


def test_an_episode_is_counted_and_its_number_never_comes_again():
    zoo = zoo_of(TOYS.tasks[:3])
    seeds = {derive(zoo.seed, "episode", number) for number in range(3)}
    del zoo.classes["rings"]  # a task that is taken out of a zoo
    assert zoo.episode == 3
    assert zoo.episode_seed() not in seeds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks_per_episode": 0}, "tasks_per_episode is 0"),
        ({"replay": 1.5}, r"replay is 1\.5"),
        ({"replay": -0.1}, r"replay is -0\.1"),
        ({"replay": float("nan")}, "replay is nan"),
    ],
)
def test_an_impossible_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        ModelZoo(**settings)


def test_a_loaded_zoo_says_that_it_cannot_learn_on_without_its_data(tmp_path):
    run(zoo_of(), TOYS[:2], tmp_path)
    with pytest.raises(
        DataError, match="the data of task 'stripes' is not at hand, so the zoo can answer but not learn"
    ):
        load(tmp_path).learn(TOYS[2])


@pytest.mark.parametrize("learner", [zoo_of(tasks_per_episode=1), learner_of(Isolated, replay=1.0)])
def test_a_loaded_learner_says_that_a_task_cannot_grow_without_what_was_kept_of_it(learner, tmp_path):
    run(learner, TOYS[:1], tmp_path)
    with pytest.raises(DataError, match="the data of task 'stripes' is not at hand"):
        load(tmp_path).learn(replace(TOYS[0], part=True))


def test_functions_of_ones_own_are_settings_by_their_names(tmp_path):
    def lately(losses):
        return np.arange(1.0, len(losses) + 1)

    run(zoo_of(weigh=lately, backbone=with_norm), TOYS[:2], tmp_path)
    with pytest.raises(SettingsError, match="pass your own"):
        load(tmp_path)
    again = load(tmp_path, names={"lately": lately, "with_norm": with_norm})
    assert (again.weigh, again.backbone) == (lately, with_norm)
    assert settings_of(zoo_of(weigh=uniform, backbone=mlp_100))["weigh"] == "uniform"


def test_inputs_are_scaled_once_for_all_members_that_scale_alike(monkeypatch):
    nets = []
    for seed, mean in enumerate((0.5, 0.5, 0.3)):
        net = Net(mlp, (1, 8, 8), pixel_mean=mean, seed=seed)
        net.add_head("task", 3)
        nets.append(net.freeze())
    x = torch.randint(0, 256, (150, 1, 8, 8), dtype=torch.uint8)
    alone = [probabilities(net, x, "task", Recipe()) for net in nets]
    scaled = []
    whole = Net.normalize
    monkeypatch.setattr(Net, "normalize", lambda net, x: (scaled.append(x.dtype), whole(net, x))[1])
    pieces = list(iter_probabilities(nets, x, "task", Recipe()))
    together = [torch.cat(said) for said in zip(*pieces, strict=True)]
    assert all(torch.equal(*pair) for pair in zip(together, alone, strict=True))
    assert scaled.count(torch.uint8) == 2 * len(pieces)  # once for the first two, once for the third


def test_a_net_of_which_a_part_is_still_in_training_answers_as_one_that_is_not():
    task = TOYS[0]
    net = net_for([task], dropout=0.5)
    with torch.no_grad():
        net.train()(task.train.x, task.name)  # gives its norm some statistics
        net.eval()
        answers, features = torch.softmax(net(task.test.x, task.name), dim=1), net.embed(task.test.x)
    net.backbone.train()
    assert not net.training
    assert torch.allclose(probabilities(net, task.test.x, task.name, TINY), answers, atol=1e-6)
    net.backbone.train()
    assert torch.allclose(compute_features(net, task.test.x, TINY), features, atol=1e-6)
