"""Warm starts: a member begins where the last one ended, refits its heads, and votes on every stored task."""

from dataclasses import asdict, replace
from itertools import pairwise
from statistics import fmean

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import zoolearn
from toys import TINY, benchmark, blobs, contents, embedded, learner_of, pictures, row_set, same, state, with_norm
from zoolearn.beyond import linear_head
from zoolearn.beyond.linear_head import STRENGTHS, fit_head
from zoolearn.beyond.temperature import apply_temperature
from zoolearn.beyond.voting import collect_outputs, member_stats
from zoolearn.beyond.warm_start import WarmStart, open_cross_entropy
from zoolearn.cli import main
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, Diverged, SettingsError
from zoolearn.methods.ensemble import Tally, Vote
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.registry import learner_from, settings_of
from zoolearn.nets.whitening import GAIN, whiten
from zoolearn.runs.run import run
from zoolearn.runs.store import load
from zoolearn.seeds import derive
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch
from zoolearn.training.fit import run_to_end
from zoolearn.training.predict import compute_features, probabilities
from zoolearn.zoo.learning.recall import load_learner as learner_of_zoo
from zoos import alike, answers, index_files, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown

TOYS = benchmark(4)
TASKS = benchmark(4, shape=(3, 8, 8)).tasks
BARE = dict.fromkeys(("refit_heads", "all_tasks", "whiten", "open_softmax", "read_layers", "supersede"), False)
BARE |= {"chains": 1, "other_tasks": 20}


def recorded(grow):
    """A warm start as records have it: how many other tasks get heads is left out at its default."""
    settings = asdict(grow)
    assert settings.pop("other_tasks") == WarmStart().other_tasks
    return {"name": "warm-start", **settings}


def warm(**fields):
    """A bare warm start, with some of its ideas."""
    return WarmStart(**{**BARE, **fields})


def zoo_of(tasks=TOYS.tasks, **settings):
    zoo = learner_of(ModelZoo, **{"tasks_per_episode": 2, "grow": warm(), **settings})
    for task in tasks:
        zoo.learn(task)
        zoo.evaluate(tasks[: zoo.episode])
    return zoo


def trained_on(zoo, member):
    """The tasks that a member was trained on come first among its votes."""
    return list(member.votes)[: zoo.tasks_per_episode]


def test_a_member_is_what_training_makes_of_the_last_ones_backbone_and_fresh_heads():
    zoo = zoo_of(TOYS[:3], tasks_per_episode=1, backbone=with_norm)
    nets = [member.net for member in zoo.members]
    for episode, (last, new) in enumerate(pairwise(nets), start=1):
        seed = derive(zoo.seed, "episode", episode)
        by_hand = zoo.new_net([TOYS[episode]], seed)
        by_hand.backbone.load_state_dict(last.backbone.state_dict())
        fit(by_hand, [TOYS[episode]], TINY, seed=seed)
        assert same(state(by_hand), state(new))
        assert not same(state(last.backbone), state(new.backbone))


def test_a_member_of_several_chains_begins_where_the_last_of_its_own_ended():
    still = replace(TINY, lr=1e-12, weight_decay=0.0)
    zoo = zoo_of(tasks_per_episode=1, grow=warm(chains=2), recipe=still)
    first, second, third, fourth = (dict(member.net.backbone.named_parameters()) for member in zoo.members)
    for before, after in ((first, third), (second, fourth)):
        assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
    assert not all(torch.allclose(first[name], second[name], atol=1e-3) for name in first)


def test_the_first_member_begins_from_scratch():
    warm_one, cold = (zoo_of(TOYS[:1], **grow).members[0] for grow in ({}, {"grow": zoolearn.from_scratch}))
    assert same(state(warm_one.net), state(cold.net))


def test_members_stay_as_they_were_while_others_grow_out_of_them():
    zoo = zoo_of((), grow=WarmStart(), backbone=with_norm)
    states = []
    for task in TOYS:
        zoo.learn(task)
        states.append(state(zoo.members[-1].net))
    assert all(same(state(member.net), before) for member, before in zip(zoo.members, states, strict=True))


def test_heads_for_all_stored_tasks_leave_what_was_trained_as_it_was():
    plain, zoo = (zoo_of(grow=warm(all_tasks=every), weigh=zoolearn.uniform) for every in (False, True))
    for number, (before, after) in enumerate(zip(plain.members, zoo.members, strict=True), start=1):
        assert set(after.votes) == {task.name for task in TOYS.tasks[:number]}
        trained = state(before.net)
        assert all(torch.equal(tensor, state(after.net)[name]) for name, tensor in trained.items())


def test_of_many_stored_tasks_those_that_waited_longest_get_heads():
    tasks = benchmark(6).tasks
    zoo = zoo_of(tasks, grow=warm(all_tasks=True, open_softmax=True, other_tasks=2), tasks_per_episode=1)
    votes = [[tasks.index(task) for task in tasks if task.name in member.votes] for member in zoo.members]
    assert votes == [[0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 2, 4], [1, 3, 5]]
    assert all(len(member.net.tasks) <= 3 for member in zoo.members), "a member is no larger in a longer stream"
    assert zoo.evaluate(tasks).keys() == {task.name for task in tasks}


def test_without_replay_there_is_nothing_to_fit_heads_to():
    zoo = zoo_of(replay=0.0, grow=WarmStart())
    assert [list(member.votes) for member in zoo.members] == [[task.name] for task in TOYS]
    assert zoo.stored_samples == 0


def test_a_fitted_head_is_the_closed_form_on_the_members_features():
    zoo = zoo_of(replay=0.5, grow=warm(all_tasks=True))
    newest = zoo.members[-1]
    task = next(task for task in TOYS[:3] if task.name not in trained_on(zoo, newest))
    rows = zoo.kept[task.name].train
    head = fit_head(compute_features(newest.net, rows.x, TINY), rows.y, len(task.classes))
    assert torch.equal(newest.net.head(task.name).weight, head.weight)
    assert newest.votes[task.name].weight == 0.5


def test_training_losses_are_those_of_members_that_were_trained():
    zoo = zoo_of(grow=warm(all_tasks=True))
    for task in TOYS:
        trained = [member for member in zoo.members if task.name in trained_on(zoo, member)]
        assert zoo.train_votes[task.name].weight == len(trained)


def test_an_episode_asks_the_new_member_alone_and_nothing_of_any_test_set(monkeypatch):
    zoo = zoo_of(TOYS.tasks[:3], grow=WarmStart())
    with embedded(monkeypatch) as passes:
        zoo.learn(TOYS[3])
    asked = [(net, x) for net, training, x in passes if not training]
    assert {id(net) for net, _ in asked} == {id(zoo.members[-1].net)}
    everything = set().union(*(row_set(x) for _, x in asked))
    assert not everything & set().union(*(row_set(task.test.x) for task in TOYS))


def test_running_sums_are_what_the_zoo_would_answer_from_scratch():
    zoo = zoo_of(TASKS, replay=0.5, grow=WarmStart(), recipe=replace(TINY, flip_tta=True))
    for task in TASKS:
        assert torch.allclose(zoo.test_votes[task.name].mean, zoo.predict_proba(task.test.x, task.name), atol=1e-6)


def test_what_a_head_would_say_of_rows_that_it_had_not_seen_is_nearly_that():
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 6, generator=rng), torch.arange(60) % 3
    x[torch.arange(60), y] += 1.0
    whole = fit_head(x, y, 3)
    by_hand = []
    for row in range(len(x)):
        rest = torch.arange(len(x)) != row
        head = fit_head(x[rest], y[rest], 3)
        by_hand.append(float(torch.log_softmax(x[row] @ head.weight.T + head.bias, 0)[y[row]]))
    assert whole.likelihood == pytest.approx(sum(by_hand) / len(by_hand), abs=0.03)
    seen = float(torch.log_softmax(x @ whole.weight.T + whole.bias, 1).gather(1, y[:, None]).mean())
    assert seen > whole.likelihood + 0.05, "rows that were seen look better than they are"


@pytest.mark.parametrize("count", [60, 12], ids=["more rows than features", "fewer"])
def test_a_head_is_the_regularised_logistic_regression_that_left_out_rows_like_best(monkeypatch, count):
    x, y = torch.randn(count, 20, generator=torch.Generator().manual_seed(3)), torch.arange(count) % 3
    x[:, :3] += torch.eye(3)[y]
    monkeypatch.setattr(linear_head, "STEPS", 400)
    head = fit_head(x, y, 3)
    variance = float((x - x.mean(dim=0)).square().sum(dim=0).mean())
    exact = [LogisticRegression(C=1 / (strength * variance), tol=1e-8) for strength in STRENGTHS]
    wrong = [abs(model.fit(x.numpy(), y.numpy()).coef_ - head.weight.numpy()).max() for model in exact]
    assert min(wrong) < 1e-3
    monkeypatch.setattr(linear_head, "STRENGTHS", (STRENGTHS[wrong.index(min(wrong))],))
    assert torch.allclose(fit_head(x, y, 3).weight, head.weight, atol=1e-6), "whatever else was tried beside it"
    monkeypatch.undo()
    together = fit_head(x, y, 3)
    monkeypatch.setattr(linear_head, "AT_ONCE", 1)
    assert torch.allclose(fit_head(x, y, 3).weight, together.weight, atol=1e-6), (
        "strengths take turns among many classes"
    )


@pytest.mark.parametrize(("replay", "fitted"), [(1.0, 2), (0.5, 1)])
def test_heads_of_tasks_that_were_seen_in_full_are_fitted_after_training(replay, fitted):
    plain, zoo = (
        zoo_of(replay=replay, grow=warm(refit_heads=refit), weigh=zoolearn.uniform) for refit in (False, True)
    )
    for before, after in zip(plain.members, zoo.members, strict=True):
        assert same(state(before.net.backbone), state(after.net.backbone)), "what is trained stays"
        for place, name in enumerate(after.net.tasks):
            rows = zoo.kept[name].train if place else next(task for task in TOYS if task.name == name).train
            head = fit_head(compute_features(after.net, rows.x, TINY), rows.y, len(after.net.head(name).bias))
            expected = head.weight if place < fitted else before.net.head(name).weight
            assert torch.equal(after.net.head(name).weight, expected)


def test_features_come_from_the_body_in_evaluation_mode():
    net = zoo_of(TOYS[:1], backbone=with_norm).members[0].net
    assert torch.equal(compute_features(net, TOYS[0].test.x, TINY), net.embed(TOYS[0].test.x))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chains": 0}, "chains is 0; it must be 1 or more"),
        ({"other_tasks": 0.5}, "other_tasks is 0.5; it must be a whole number"),
        ({"refit_heads": 1}, "refit_heads is 1; it must be True or False"),
    ],
)
def test_an_impossible_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        WarmStart(**settings)


def test_a_way_to_grow_is_given_as_a_value_and_only_to_a_zoo():
    with pytest.raises(SettingsError, match=r"grow is .*WarmStart.*; it must be a function"):
        ModelZoo(grow=WarmStart)
    with pytest.raises(SettingsError, match="unknown setting of Isolated 'grow'"):
        Isolated(grow=WarmStart())


def test_settings_are_plain_data_and_come_back(tmp_path):
    grow = WarmStart(all_tasks=False, chains=2)
    settings = settings_of(zoo_of((), grow=grow))
    assert settings["grow"] == recorded(grow)
    assert learner_from(ModelZoo, settings).grow == grow
    assert learner_from(ModelZoo, {"grow": "warm-start"}).grow == WarmStart()
    assert "grow" not in settings_of(learner_of(ModelZoo)), "only what differs from the paper is recorded"
    with pytest.raises(SettingsError, match="unknown setting of WarmStart 'chain'; did you mean 'chains'"):
        learner_from(ModelZoo, {"grow": {"name": "warm-start", "chain": 2}})
    with pytest.raises(SettingsError, match="unknown grow 'warm-starts'; did you mean 'warm-start'"):
        learner_from(ModelZoo, {"grow": "warm-starts"})
    run(zoo_of((), grow=grow), TOYS[:2], tmp_path)
    assert load(tmp_path).grow == grow


def test_a_way_to_grow_of_ones_own_is_a_function_by_its_name(tmp_path):
    def twice(zoo, tasks, seed):
        return zoolearn.from_scratch(zoo, tasks, seed + 1)

    run(zoo_of((), grow=twice), TOYS[:2], tmp_path)
    with pytest.raises(SettingsError, match=r"unknown grow 'twice'.*pass your own"):
        load(tmp_path)
    assert load(tmp_path, names={"twice": twice}).grow is twice


def test_a_loaded_zoo_without_its_data_can_answer_but_not_grow_out_of_its_members(tmp_path):
    run(zoo_of((), tasks_per_episode=1, grow=WarmStart()), TOYS[:2], tmp_path)
    with pytest.raises(DataError, match="the data of task 'stripes' is not at hand"):
        load(tmp_path).learn(TOYS[2])


# how members begin, what they train, and who answers


def small(shape, dropout=0.0):
    """Two convolutions of six channels."""
    layers = [nn.Conv2d(shape[0], 8, 3, bias=False), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def test_the_first_member_begins_with_filters_that_whiten_its_pictures_whatever_their_labels():
    task = pictures("stripes", shape=(1, 8, 8), per_class=40)
    turned = replace(task, train=Examples(task.train.x, 1 - task.train.y))
    nets = []
    for each in (task, turned):
        net = learner_of(ModelZoo, backbone=small).new_net([each], seed=3)
        whiten(net, each.train.x, seed=3)
        nets.append(net)
    assert same(state(nets[0]), state(nets[1]))
    said = nets[0].backbone[0](nets[0].normalize(task.train.x)).transpose(0, 1).flatten(1)[:4].detach()
    assert torch.allclose(torch.cov(said), GAIN**2 * torch.eye(4), atol=0.1)
    assert torch.equal(nets[0].backbone[0].weight[:4], -nets[0].backbone[0].weight[4:])


def test_members_after_the_first_begin_with_its_filters_and_not_with_new_ones():
    recipe = replace(TINY, lr=1e-12, weight_decay=0.0)
    first, second = zoo_of(TOYS[:2], backbone=small, recipe=recipe, grow=warm(whiten=True)).members
    assert torch.allclose(first.net.backbone[0].weight, second.net.backbone[0].weight, atol=1e-6)
    plain = zoo_of(TOYS[:1], backbone=small, recipe=recipe).members[0]
    assert not torch.allclose(first.net.backbone[0].weight, plain.net.backbone[0].weight, atol=0.1)


def test_a_net_without_convolutions_begins_as_ever():
    plain, whitened = (zoo_of(TOYS[:1], grow=warm(whiten=white)).members[0].net for white in (False, True))
    assert same(state(plain), state(whitened))


def test_an_open_softmax_tells_a_class_from_those_of_other_tasks():
    zoo = zoo_of(TOYS[:3], grow=warm(open_softmax=True, all_tasks=True), tasks_per_episode=1)
    net = zoo.members[-1].net
    assert net.tasks == (TOYS[2].name, TOYS[0].name, TOYS[1].name)
    batch = Batch(TOYS[0].train.x[:4], TOYS[0].train.y[:4], torch.zeros(4, dtype=torch.int64), (TOYS[0].name,))
    logits = torch.cat([net(batch.x, name) for name in net.tasks], dim=1)
    wanted = torch.nn.functional.cross_entropy(logits, batch.y + len(TOYS[2].classes))
    assert torch.allclose(open_cross_entropy(net, batch), wanted)


def test_heads_are_inherited_where_one_softmax_is_trained_over_all_of_them():
    tasks, grow = TOYS[:2], warm(open_softmax=True, all_tasks=True)
    still = replace(TINY, lr=1e-12, weight_decay=0.0)
    first, second = zoo_of(tasks, grow=grow, recipe=still).members
    assert torch.allclose(first.net.head(tasks[0].name).weight, second.net.head(tasks[0].name).weight, atol=1e-6)
    first, second = zoo_of(tasks, grow=grow, tasks_per_episode=1, replay=0.5).members
    before, after = (member.net.head(tasks[0].name).weight for member in (first, second))
    assert not torch.equal(before, after)


def test_the_newest_member_answers_alone_for_tasks_whose_data_it_has_in_full():
    zoo = zoo_of(TASKS, grow=warm(supersede=True, all_tasks=True, refit_heads=True))
    for task in TASKS:
        newest = probabilities(zoo.members[-1].net, task.test.x, task.name, TINY)
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), newest)
        assert torch.equal(zoo.test_answers(task), newest)
        assert zoo.evaluate([task])[task.name] == zoolearn.accuracy(newest, task.test.y)


def test_the_newest_member_of_each_chain_answers_and_is_asked_once(monkeypatch):
    zoo = zoo_of((), grow=warm(supersede=True, all_tasks=True, chains=2))
    for number, task in enumerate(TOYS, start=1):
        zoo.learn(task)
        with embedded(monkeypatch) as passes:
            zoo.evaluate(TOYS[:number])
        assert {id(net) for net, _, _ in passes} == {id(zoo.members[-1].net)}, "older answers are known"
        for place, known in enumerate(TOYS[:number]):
            newest = zoo.members[-min(2, number - place) :]
            assert [net for net, _ in zoo.voters(known.name)] == [member.net for member in newest]
            mean = torch.stack([probabilities(m.net, known.test.x, known.name, TINY) for m in newest]).mean(dim=0)
            assert torch.allclose(zoo.predict_proba(known.test.x, known.name), mean, atol=1e-6)
            assert torch.allclose(zoo.test_answers(known), mean, atol=1e-6)


def test_votes_that_were_added_up_are_counted_again_when_some_of_them_no_longer_count():
    output = torch.full((3, 2), 0.5)
    summed = Tally("rows", ("a", "b")).add(output, Vote(1.0, ("a", "b")), 1).add(output, Vote(1.0, ("a", "b")), 2)
    assert summed.since(1) is None
    apart = summed.since(0).add(output, Vote(1.0, ("a", "b"), newest=1), 3)
    assert apart.since(2) is None, "the sum of the others is still in it"
    alone = Tally("rows", ("a", "b"), 2).add(output, Vote(1.0, ("a", "b"), newest=1), 3)
    assert alone.since(2).sums == alone.sums
    assert alone.since(3) is None, "the member that counts was not asked yet"


def test_who_is_superseded_counts_for_nothing_when_members_are_judged():
    zoo = zoo_of(TASKS, grow=warm(supersede=True, all_tasks=True))
    outputs = list(collect_outputs(zoo, TASKS))
    assert len(outputs[0].weights) > 1
    assert all(weight == 0 for each in outputs for weight in each.weights[:-1])
    found = member_stats(outputs, flips=False)
    assert found.zoo == found.newest == pytest.approx(fmean(zoo.evaluate(TASKS).values()))


def test_members_that_had_a_share_of_a_tasks_data_leave_its_answers_to_the_one_that_had_all_of_it():
    zoo = zoo_of(grow=warm(supersede=True, all_tasks=True, open_softmax=True), replay=0.5)
    for task, member in zip(TOYS, zoo.members, strict=True):
        assert [net for net, _ in zoo.voters(task.name)] == [member.net]
        own = probabilities(member.net, task.test.x, task.name, TINY)
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), own)
        assert torch.equal(zoo.test_answers(task), own)
    assert set(zoo.members[-1].net.tasks) == {task.name for task in TOYS}, "heads are inherited all the same"


def test_only_members_whose_votes_count_are_asked(monkeypatch):
    zoo = zoo_of((), grow=warm(supersede=True, all_tasks=True))
    for task in TOYS:
        zoo.learn(task)
    with embedded(monkeypatch) as passes:
        zoo.evaluate(TOYS)
    assert {id(net) for net, _, _ in passes} == {id(zoo.members[-1].net)}


def test_heads_that_read_layers_are_fitted_to_all_of_them_and_trained_on_the_last_alone():
    task = pictures("stripes", shape=(3, 8, 8))
    plain, zoo = (
        zoo_of([task], backbone=small, grow=warm(refit_heads=refit, read_layers=True)) for refit in (False, True)
    )
    trained, fitted = (each.members[0].net for each in (plain, zoo))
    assert fitted.blocks == (24, 32, 32, 8)
    assert same(state(trained.backbone), state(fitted.backbone))
    assert not bool(trained.head("stripes").weight[:, 24:].any())
    features = compute_features(fitted, task.train.x, TINY)
    head = fit_head(features, task.train.y, len(task.classes), blocks=fitted.blocks)
    assert torch.equal(fitted.head("stripes").weight, head.weight)
    maps = fitted.backbone[1](fitted.backbone[0](fitted.normalize(task.train.x)))
    by_hand = [
        maps[:, :, rows, columns].mean(dim=(2, 3))
        for rows in (slice(3), slice(3, 6))
        for columns in (slice(3), slice(3, 6))
    ]
    assert torch.allclose(features[:, 24:56], torch.stack(by_hand, dim=2).flatten(1), atol=1e-5)
    assert torch.allclose(features[:, 88:], maps.flatten(2).std(dim=2, correction=0), atol=1e-5)


def test_what_was_fitted_to_layers_inside_is_not_inherited():
    grow = warm(open_softmax=True, all_tasks=True, read_layers=True, refit_heads=True)
    first, second = zoo_of(TASKS[:2], backbone=small, grow=grow, replay=0.5).members
    heads = [member.net.head(TASKS[0].name).weight for member in (first, second)]
    assert bool(heads[0][:, 24:].any()), "fitted to all of its task"
    assert not bool(heads[1][:, 24:].any()), "trained on a part of it"


def test_blocks_of_features_are_pulled_alike_whatever_their_scale():
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(80, 6, generator=rng), torch.arange(80) % 2
    x[torch.arange(80), y] += 1.0
    scale = torch.tensor([1.0, 1.0, 1.0, 1.0, 50.0, 50.0])
    head, scaled = fit_head(x, y, 2, blocks=(4, 2)), fit_head(scale * x, y, 2, blocks=(4, 2))
    assert torch.allclose(scaled.weight * scale, head.weight, atol=1e-5)
    assert not torch.allclose(fit_head(scale * x, y, 2).weight * scale, fit_head(x, y, 2).weight, atol=1e-3)


# mirror images

FLIPS = replace(TINY, flip_tta=True)


def test_the_mirror_image_is_asked_too():
    task = pictures("stripes", shape=(3, 8, 8))
    zoo, plain = (zoo_of([task], recipe=recipe) for recipe in (FLIPS, TINY))
    x = task.test.x
    both = plain.predict_proba(x, "stripes").log() + plain.predict_proba(x.flip(-1), "stripes").log()
    assert torch.allclose(zoo.predict_proba(x, "stripes"), torch.softmax(both / 2, dim=1), atol=1e-6)
    assert same(state(zoo.members[0].net), state(plain.members[0].net)), "training sees each picture as it is"


def test_grey_pictures_and_features_have_no_mirror_image():
    for task in (pictures("stripes"), blobs("blobs")):
        zoo, plain = (zoo_of([task], recipe=recipe, grow=WarmStart()) for recipe in (FLIPS, TINY))
        x = task.test.x
        assert torch.equal(zoo.predict_proba(x, task.name), plain.predict_proba(x, task.name))


def test_heads_are_fitted_to_what_they_will_be_asked_about():
    task = pictures("stripes", shape=(3, 8, 8))
    zoo = zoo_of([task], recipe=FLIPS, grow=warm(refit_heads=True))
    net = zoo.members[0].net.with_flips(flips=False)
    looks = [compute_features(net, x, zoo.recipe) for x in (task.train.x, task.train.x.flip(-1))]
    assert not torch.allclose(*looks)
    wanted = fit_head((looks[0] + looks[1]) / 2, task.train.y, len(task.classes))
    assert torch.allclose(net.head("stripes").weight, wanted.weight, atol=1e-5)


def test_a_net_that_is_saved_still_looks_at_mirror_images(tmp_path):
    zoo = zoo_of((), recipe=FLIPS)
    run(zoo, zoolearn.Benchmark("colours", TASKS[:2]), tmp_path)
    x = TASKS[0].test.x
    assert torch.equal(load(tmp_path).predict_proba(x, TASKS[0].name), zoo.predict_proba(x, TASKS[0].name))


# zoo folders

IDEAS = dict.fromkeys(("whiten", "open_softmax", "read_layers", "supersede"), True)
EVERYTHING = WarmStart(**IDEAS)
FULL = {"grow": EVERYTHING, "flip_tta": True}
SETTINGS = [{}, {"replay": 0.5}, {"replay": 0.0}, {"tasks_per_episode": 1}]


def as_folders_answer(learner, task, zoo):
    """What a learner answers, at the temperature that a folder has fitted to held-out rows."""
    return apply_temperature(learner.predict_proba(task.test.x, task.name), zoo.temperature(task.name))


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_folder_that_is_reopened_before_every_task_equals_the_learner(tmp_path, settings):
    learner = zoo_of(TASKS, **{"tasks_per_episode": 3, "grow": FULL["grow"], "recipe": FLIPS, **settings})
    zoo = small_zoo(tmp_path / "zoo", TASKS, **{**FULL, "balance": 0.0, **settings})
    for task in TASKS:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), as_folders_answer(learner, task, zoo))
        assert zoo.measure(task.name).accuracy == zoolearn.accuracy(
            zoo.predict_proba(task.test.x, task.name), task.test.y
        )
    weights = [{name: vote.weight for name, vote in member.votes.items()} for member in learner.members]
    assert [dict(member.share) for member in zoo.members] == weights
    assert run_to_end(zoo.verify()) == []
    assert not stray_files(zoo)


def test_the_past_is_exact_and_undo_leads_back_to_it(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], **FULL)
    before, files = answers(zoo, TASKS), set(contents(zoo.path)) - index_files(zoo)
    zoo.learn(TASKS[2])
    after = answers(zoo, TASKS)
    assert alike(answers(zoo, TASKS[:2], at=2), before)
    assert not alike(answers(zoo, TASKS[:2]), before)
    zoo.undo()
    assert alike(answers(zoolearn.open(zoo.path), TASKS), before)
    assert set(contents(zoo.path)) - index_files(zoo) == files
    zoo.learn(TASKS[2])
    assert alike(answers(zoo, TASKS), after), "learned again, it is the same member"


def test_a_superseded_member_answers_again_as_of_its_episode_and_after_an_undo(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], **FULL)
    name = TASKS[0].name
    assert [[member.number for member in zoo.index.voters(name, at)] for at in (1, 2, None)] == [[1], [2], [2]]
    zoo.rename(name, "lines")
    assert [member.number for member in zoo.index.voters("lines")] == [2]
    zoo.undo()
    assert [member.number for member in zoo.index.voters("lines")] == [1]


def test_chains_in_a_folder_answer_as_of_every_episode_and_after_an_undo(tmp_path):
    chains = replace(EVERYTHING, chains=2)
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], **{**FULL, "grow": chains})
    learner = zoo_of(TASKS[:3], tasks_per_episode=3, grow=chains, recipe=FLIPS)
    name = TASKS[0].name
    assert [[member.number for member in zoo.index.voters(name, at)] for at in (1, 2, 3)] == [[1], [1, 2], [2, 3]]
    before = answers(zoo, TASKS[:3])
    zoo.learn(TASKS[3])
    learner.learn(TASKS[3])
    assert [member.number for member in zoo.index.voters(name)] == [3, 4]
    assert same(state(learner.members[3].net.backbone), state(zoo.net(4).backbone)), "it began with member 2"
    zoo.undo()
    assert alike(answers(zoolearn.open(zoo.path), TASKS[:3]), before)


def test_past_tasks_are_drawn_again_when_the_members_trained_on_them_are_gone(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], tasks_per_episode=2, **FULL)
    zoo.prune()
    assert zoo.commit_pruning() == 2
    assert {name for name, measure in zoo.index.measures.items() if measure.loss is None}, "one was fitted only"
    learner = learner_of_zoo(zoo.folder, zoo.index, lambda member: zoo.net(member.number), None)
    weights = learner.past_weights()
    assert set(weights) == {task.name for task in TASKS[:3]}
    assert all(0 < weight < 1 for weight in weights.values())


def test_who_is_trained_again_on_a_share_of_its_task_still_answers_for_it(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], replay=0.5, **FULL)
    zoo.forget(TASKS[0].name)
    assert run_to_end(zoo.verify()) == []
    for task, number in zip(TASKS[1:3], (2, 3), strict=True):
        assert [member.number for member in zoo.index.voters(task.name)] == [number]
        assert zoo.predict_proba(task.test.x, task.name).isfinite().all()


def test_forgetting_retrains_every_member_that_came_later(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, grow=warm(), tasks_per_episode=1)
    cost = zoo.cost_of_forgetting(TASKS[1].name)
    assert (cost.removed, cost.retrained) == ((2,), (3, 4))
    untouched = state(zoo.net(1))
    zoo.forget(TASKS[1].name)
    assert same(state(zoo.net(1)), untouched)
    assert [member.number for member in zoo.members] == [1, 3, 4]
    without = zoo_of((), tasks_per_episode=1)
    last = zoo.net(1)
    for number, task in ((3, TASKS[2]), (4, TASKS[3])):
        seed = next(member.seed for member in zoo.members if member.number == number)
        net = without.new_net([task], seed)
        net.backbone.load_state_dict(last.backbone.state_dict())
        fit(net, [task], TINY, seed=seed)
        assert same(state(net), state(zoo.net(number))), "as if the task had never been there"
        last = net.freeze()
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert not stray_files(zoo)


def test_a_forgotten_task_is_retrained_without_as_members_are_trained(tmp_path):
    recipe = replace(TINY, label_smoothing=0.2)
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], grow=warm(), recipe=recipe)
    zoo.forget(TASKS[0].name)
    learner = zoo.settings.learner()
    by_hand = learner.new_net([TASKS[1]], zoo.members[0].seed)
    fit(by_hand, [TASKS[1]], recipe, seed=zoo.members[0].seed)
    assert same(state(by_hand.freeze()), state(zoo.net(zoo.members[0].number))), "nobody is left to begin with"


def test_forgetting_a_task_takes_every_head_that_was_fitted_to_it(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, grow=warm(all_tasks=True), tasks_per_episode=1)
    name = TASKS[1].name
    knowing = [member for member in zoo.members if name in member.heads]
    assert [member.number for member in knowing] == [2, 3, 4]
    heads = [zoo.net(member.number).head(name).weight.numpy().tobytes()[:48] for member in knowing]
    everything = b"".join(contents(zoo.path).values())
    assert all(head in everything for head in heads)
    zoo.forget(name)
    left = b"".join(path.read_bytes() for path in zoo.path.rglob("*") if path.is_file())
    assert not any(head in left for head in heads)
    assert name.encode() not in left
    shares = {member.number: set(member.share) for member in zoo.members}
    assert shares == {1: {"stripes"}, 3: {"stripes", "rings"}, 4: {"stripes", "rings", "waves"}}
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert not stray_files(zoo)


def test_heads_of_retrained_members_are_fitted_again(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, grow=warm(all_tasks=True), tasks_per_episode=2)
    zoo.forget(TASKS[0].name)
    names = [task.name for task in TASKS]
    assert [set(member.share) for member in zoo.members] == [set(names[1:2]), set(names[1:3]), set(names[1:4])]
    fitted = [(member, name) for member in zoo.members for name in member.fitted]
    assert fitted
    for member, name in fitted:
        task, net = zoo.task(name), zoo.net(member.number)
        head = fit_head(compute_features(net, task.train.x, TINY), task.train.y, len(task.classes))
        assert torch.equal(net.head(name).weight, head.weight)
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    zoo.learn(TASKS[0])
    assert zoo.measure(TASKS[0].name).accuracy > 0.5


def test_a_member_that_came_after_one_that_was_pruned_for_good_is_still_retrained(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], grow=warm(), tasks_per_episode=2)
    zoo.prune(budget=2.2 * zoo.members[0].bytes / 1e6)
    assert zoo.commit_pruning() == 1
    left = zoolearn.open(zoo.path)
    later = [member.number for member in left.members if set(member.tasks) != {"stripes"}]
    assert set(later) <= set(left.cost_of_forgetting("stripes").retrained)
    left.forget("stripes")
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_without_rows_later_members_cannot_be_retrained_and_the_way_out_is_named(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], grow=warm(), replay=0.0)
    before = contents(zoo.path)
    with pytest.raises(SettingsError, match="forget 'rings', then 'dots' first"):
        zoo.forget("stripes")
    assert contents(zoo.path) == before
    for name in ("rings", "dots", "stripes"):
        zoo.forget(name)
    assert not zoo.members


def test_pruning_silences_fitted_heads_too(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, **FULL)
    before = answers(zoo, TASKS)
    report = zoo.prune(loss=1.0)
    assert all(task.after == 1 for task in report.tasks.values())
    zoo.unprune()
    assert alike(answers(zoo, TASKS), before)
    zoo.prune(loss=1.0)
    pruned = answers(zoo, TASKS)
    zoo.commit_pruning()
    assert alike(answers(zoolearn.open(zoo.path), TASKS), pruned)
    assert not stray_files(zoo)
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_a_folder_and_its_export_answer_as_the_learner_by_all_layers_and_mirror_images(tmp_path):
    zoolearn.new(tmp_path / "zoo", backbone=small, recipe=TINY, **FULL)
    for task in TASKS[:2]:
        zoo = zoolearn.open(tmp_path / "zoo", names={"small": small})
        zoo.learn(task)
    learner = zoo_of(TASKS[:2], backbone=small, recipe=FLIPS, grow=FULL["grow"])
    for task in TASKS[:2]:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), as_folders_answer(learner, task, zoo))
    made = zoo.export(TASKS[0].name, tmp_path / "task.pt2", to="torch")
    assert made.members == 1, "the newest answers alone"
    assert made.difference < 1e-5


def test_a_run_becomes_a_folder_with_its_settings_and_its_fitted_heads(tmp_path, capsys):
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "3", "--tasks-per-episode", "2"]
    flags = ["--grow", "warm-start", "--whiten", "--flip-tta"]
    main(["run", "model-zoo", *words, *flags, "--out", str(tmp_path / "run")])
    main(["new", str(tmp_path / "zoo"), "--adopt", str(tmp_path / "run")])
    main(["show", str(tmp_path / "zoo")])
    shown = capsys.readouterr().out
    assert "∘" in shown
    assert "grow warm-start" in shown
    learner, zoo = zoolearn.load(tmp_path / "run"), zoolearn.open(tmp_path / "zoo")
    for task in zoolearn.benchmark("split-digits")[:3]:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), as_folders_answer(learner, task, zoo))
    grow = recorded(WarmStart(whiten=True))
    assert (zoo.settings.grow, zoo.settings.recipe["flip_tta"]) == (grow, True)
    zoo.undo()
    assert [len(member.share) for member in zoo.members] == [1, 2]
    zoo.learn(zoolearn.benchmark("split-digits")[2])
    assert [len(member.share) for member in zoo.members] == [1, 2, 3]


def test_a_preset_sets_a_new_zoo_up_and_flags_have_their_say(tmp_path, capsys):
    main(["new", str(tmp_path / "zoo"), "--preset", "beyond", "--chains", "2"])
    settings = zoolearn.open(tmp_path / "zoo").settings
    assert settings.grow == recorded(WarmStart(chains=2, **IDEAS))
    assert settings.recipe["flip_tta"] is True
    main(["new", str(tmp_path / "plain"), "--preset", "paper"])
    plain = zoolearn.open(tmp_path / "plain").settings
    assert (plain.grow, plain.recipe["flip_tta"]) == ("from-scratch", False)
    for wrong in (["--preset", "beyonds"], ["--chains", "3"]):
        with pytest.raises(SystemExit):
            main(["new", str(tmp_path / "other"), *wrong])
    assert "chains is 3, but it counts with --grow warm-start only" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("rows", [5, 50])
@pytest.mark.parametrize("size", [1e30, float("nan"), float("inf")])
def test_features_of_a_net_that_diverged_are_told_as_such(rows, size):
    features = size * torch.randn(rows, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(Diverged, match="a smaller learning rate may help"):
        fit_head(features, torch.arange(rows) % 2, classes=2)
