"""Inheritance: whose backbone a member begins with, that it is exactly that, and that folders know who descends from whom."""

from dataclasses import replace
from functools import partial

import pytest
import torch

import zoolearn
from toys import TINY, benchmark, contents, learner_of, same, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.inherit import average, begin_from, best, last, nobody
from zoolearn.methods.parts.linear_head import fit_head
from zoolearn.nets.net import Net
from zoolearn.training.fit import cross_entropy, drain, fit
from zoolearn.training.predict import feature_rows
from zoos import TASKS, alike, answers, small_zoo, stray_files

TOYS = benchmark(4)


def zoo_of(tasks=TOYS[:3], **settings):
    zoo = learner_of(ModelZoo, **{"tasks_per_episode": 2, **settings})
    for task in tasks:
        zoo.learn(task)
    return zoo


def test_without_a_parent_nothing_changes():
    assert all(
        same(state(ours.net), state(theirs.net))
        for ours, theirs in zip(zoo_of().members, zoo_of(inherit=nobody, shrink=0.5).members, strict=True)
    )


@pytest.mark.parametrize(
    ("inherit", "parents"), [(nobody, [(), (), ()]), (last, [(), (0,), (1,)]), (average, [(), (0,), (0, 1)])]
)
def test_members_remember_whom_they_began_with(inherit, parents):
    assert [member.parents for member in zoo_of(inherit=inherit).members] == parents


def test_a_member_is_what_training_makes_of_its_parents_backbone_and_fresh_heads():
    zoo = zoo_of(TOYS[:2], tasks_per_episode=1, inherit=last, backbone=with_norm)
    first, second = (member.net for member in zoo.members)
    by_hand = zoo.new_net([TOYS[1]], seed_of(zoo, 1))
    by_hand.body.load_state_dict(first.body.state_dict())
    fit(by_hand, [TOYS[1]], TINY, seed=seed_of(zoo, 1))
    assert same(state(by_hand), state(second))
    assert not same(state(first.body), state(second.body))


def test_heirs_may_have_a_learning_rate_of_their_own():
    plain, zoo = (zoo_of(TOYS[:2], tasks_per_episode=1, inherit=last, heir_lr=factor) for factor in (1.0, 0.5))
    assert same(state(plain.members[0].net), state(zoo.members[0].net)), "the first member inherits from nobody"
    by_hand = zoo.heir([zoo.members[0].net], [TOYS[1]], seed_of(zoo, 1))
    fit(by_hand, [TOYS[1]], replace(TINY, lr=TINY.lr / 2), seed=seed_of(zoo, 1))
    assert same(state(by_hand), state(zoo.members[1].net))


def test_a_forgotten_task_is_retrained_without_as_members_are_trained(tmp_path):
    settings = {"inherit": last, "heir_lr": 0.5, "smoothing": 0.2, "replay": 1.0}
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], **settings)
    zoo.forget(TASKS[0].name)
    learner = zoo.settings.learner()
    by_hand = learner.new_net([TASKS[1]], zoo.members[0].seed)
    smoothed = partial(cross_entropy, smoothing=0.2)
    fit(by_hand, [TASKS[1]], learner.recipe, seed=zoo.members[0].seed, loss=smoothed)
    assert same(state(by_hand.freeze()), state(zoo.net(zoo.members[0].number))), "its parent is gone: it is no heir"


@pytest.mark.parametrize(("name", "value"), [("heir_lr", 0.0), ("heir_lr", -1.0), ("smoothing", 1.5)])
def test_impossible_settings_of_training_are_named(name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        learner_of(ModelZoo, **{name: value})


def test_parents_may_be_on_different_devices():
    net, *parents = (learner_of(ModelZoo).new_net([TOYS[0]], seed) for seed in range(3))
    begin_from(net.to("meta"), [parents[0], parents[1].to("meta")], 0.9, 0.1)
    assert {parent.device.type for parent in parents} == {"cpu", "meta"}
    assert {tensor.device.type for tensor in net.state_dict().values()} == {"meta"}


def seed_of(zoo, episode):
    fresh = learner_of(ModelZoo, seed=zoo.seed)
    fresh.classes = {str(number): () for number in range(episode)}
    return fresh.episode_seed()


def test_the_best_parent_is_the_one_whose_features_fit_the_new_task():
    """A member that learned the very same pictures fits them better than one that learned others."""
    zoo = zoo_of([TOYS[1], TOYS[0]], tasks_per_episode=1)
    again = TOYS[1]
    assert zoo.probe(0, again) > zoo.probe(1, again)
    assert best(2, lambda place: zoo.probe(place, again)) == (0,)


def test_weights_of_several_parents_are_averaged_then_shrunk_and_perturbed():
    nets = [Net(with_norm, (4,), seed=seed) for seed in range(3)]
    nets[0].body[2].running_mean.fill_(3.0)
    own = state(nets[2])
    begin_from(nets[2], nets[:2], shrink=0.5, perturb=0.25)
    for name, weight in nets[2].body.named_parameters():
        mean = (nets[0].body.get_parameter(name) + nets[1].body.get_parameter(name)) / 2
        assert torch.allclose(weight, 0.5 * mean + 0.25 * own[f"body.{name}"])
    assert float(nets[2].body[2].running_mean[0]) == 1.5, "statistics are neither shrunk nor perturbed"


def test_fitted_heads_know_the_tasks_before_any_training():
    zoo = zoo_of(TOYS[:2], inherit=last)
    tasks = [TOYS[2], TOYS[0]]
    parent = zoo.members[-1].net
    plain, fitted = (learner_of(ModelZoo, fit_heads=when).heir([parent], tasks, 1) for when in ("no", "before"))
    for task in tasks:
        right = [
            float((net.eval()(task.test.x, task.name).argmax(dim=1) == task.test.y).float().mean())
            for net in (plain, fitted)
        ]
        assert right[1] > max(right[0], 0.9)


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


def test_features_come_from_the_body_in_evaluation_mode():
    net = zoo_of(TOYS[:1], backbone=with_norm).members[0].net
    assert torch.equal(feature_rows(net, TOYS[0].test.x, TINY), net.embed(TOYS[0].test.x))


def test_isolated_inherits_nothing_and_a_zoo_of_one_task_an_episode_may():
    with pytest.raises(TypeError):
        Isolated(inherit=last)
    zoo = zoo_of(tasks_per_episode=1, replay=0.0, inherit=last)
    assert [member.parents for member in zoo.members] == [(), (0,), (1,)]
    assert zoo.stored_samples == 0


def test_only_settings_that_differ_are_recorded():
    assert not {"inherit", "shrink"} & zoo_of(()).settings().keys()
    assert zoo_of((), inherit=best, shrink=0.5).settings()["inherit"] == "best"


# zoo folders


@pytest.mark.parametrize(
    "settings",
    [
        {"inherit": last, "fit_heads": "before"},
        {"inherit": best, "tasks_per_episode": 1, "replay": 0.0},
        {"inherit": average, "shrink": 0.8, "perturb": 0.1, "replay": 0.5},
    ],
)
def test_a_folder_grows_as_the_learner_does_and_records_the_lineage(tmp_path, settings):
    learner = zoo_of(TASKS, **{"tasks_per_episode": 3, **settings})
    zoo = small_zoo(tmp_path / "zoo", TASKS, **settings)
    for task in TASKS:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), learner.predict_proba(task.test.x, task.name))
    for entry, member in zip(zoo.members, learner.members, strict=True):
        assert entry.parents == tuple(place + 1 for place in member.parents)
        ancestors = [zoo.members[number - 1] for number in entry.parents]
        assert set(entry.heritage) == {name for other in ancestors for name in (*other.tasks, *other.heritage)}


def test_undo_and_learning_again_lead_to_the_same_heir(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, inherit=last)
    before, files = answers(zoo), {name for name in contents(zoo.path) if name != "zoo.json"}
    zoo.undo()
    zoo.learn(TASKS[3])
    assert alike(answers(zoo), before)
    assert {name for name in contents(zoo.path) if name != "zoo.json"} == files


def test_forgetting_retrains_every_descendant_of_a_member_that_saw_the_task(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, inherit=last, tasks_per_episode=1)
    cost = zoo.cost_of_forgetting(TASKS[1].name)
    assert (cost.removed, cost.retrained) == ((2,), (3, 4))
    untouched = state(zoo.net(1))
    zoo.forget(TASKS[1].name)
    assert same(state(zoo.net(1)), untouched)
    assert [(member.number, member.parents) for member in zoo.members] == [(1, ()), (3, (1,)), (4, (3,))]
    assert [member.heritage for member in zoo.members] == [(), ("stripes",), ("stripes", "rings")]
    without = zoo_of((), tasks_per_episode=1)
    parent = zoo.net(1)
    for number, task in ((3, TASKS[2]), (4, TASKS[3])):
        seed = next(member.seed for member in zoo.members if member.number == number)
        net = without.heir([parent], [task], seed)
        fit(net, [task], TINY, seed=seed)
        assert same(state(net), state(zoo.net(number))), "as if the task had never been there"
        parent = net.freeze()
    assert drain(zoolearn.open(zoo.path).verify()) == []
    assert not stray_files(zoo)


def test_an_heir_of_a_member_that_was_pruned_for_good_is_still_touched(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], inherit=last, tasks_per_episode=2)
    zoo.prune(budget=2.2 * zoo.members[0].bytes / 1e6)
    assert zoo.commit_pruning() == 1
    left = zoolearn.open(zoo.path)
    first, second = left.members
    assert (first.parents, second.parents) == ((), (first.number,))
    assert second.touched_by("stripes")
    assert second.number in left.cost_of_forgetting("stripes").retrained
    left.forget("stripes")
    assert all("stripes" not in member.heritage for member in left.members)
    assert drain(zoolearn.open(zoo.path).verify()) == []


def test_an_index_from_before_there_was_inheritance_can_be_read(tmp_path):
    from zoolearn.files import load_json, save_json

    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    index = load_json(zoo.path / "zoo.json")
    for member in index["members"]:
        del member["parents"], member["heritage"]
    for settings in (index["chosen"], index["settings"]):
        del settings["beyond"]
    save_json(zoo.path / "zoo.json", index)
    assert alike(answers(zoolearn.open(zoo.path)), answers(zoo))
    zoolearn.open(zoo.path).learn(TASKS[2])


def test_a_setting_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="unknown setting 'inherits'; did you mean 'inherit'"):
        zoolearn.new(tmp_path / "zoo", inherits=last)
