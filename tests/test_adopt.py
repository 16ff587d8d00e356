"""Adoption and trust: every member speaks for every task, weighed by what it says of rows that it has not seen."""

import json
import math
from dataclasses import asdict

import pytest
import torch

import zoolearn
from toys import TINY, benchmark, blobs, contents, embedded, learner_of, pictures, row_set, same, state
from zoolearn.cli import main
from zoolearn.data.task import Examples
from zoolearn.errors import SettingsError, StoreError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.held_out import is_held_out
from zoolearn.methods.parts.inherit import last
from zoolearn.methods.parts.linear_head import fit_head
from zoolearn.training.fit import drain
from zoolearn.training.predict import feature_rows, probabilities
from zoolearn.zoo.reader import Reader
from zoolearn.zoo.settings import ZooSettings
from zoos import alike, answers, small_zoo, stray_files

TOYS = benchmark(4)
TASKS = benchmark(4, shape=(3, 8, 8)).tasks


def zoo_of(tasks=TOYS.tasks, **settings):
    zoo = learner_of(ModelZoo, **{"tasks_per_episode": 2, "adoption": True, **settings})
    for task in tasks:
        zoo.learn(task)
        zoo.evaluate(tasks[: zoo.episode])
    return zoo


def test_every_member_speaks_for_every_task_and_what_was_trained_is_as_without_adoption():
    plain, zoo = zoo_of(adoption=False, weigh=zoolearn.uniform), zoo_of(weigh=zoolearn.uniform)
    for before, after in zip(plain.members, zoo.members, strict=True):
        assert set(after.share) == {task.name for task in TOYS}
        assert after.adopted == set(after.share) - set(before.share)
        trained = state(before.net)
        assert all(torch.equal(tensor, state(after.net)[name]) for name, tensor in trained.items())


def test_without_replay_old_members_adopt_the_new_task_and_the_new_one_nothing():
    zoo = zoo_of(replay=0.0)
    names = [task.name for task in TOYS]
    assert [sorted(member.share) for member in zoo.members] == [sorted(names[place:]) for place in range(4)]
    assert zoo.stored_samples == 0


def test_an_adopted_head_is_the_closed_form_on_the_members_features():
    zoo = zoo_of(replay=0.5)
    past = next(number for number in range(3) if TOYS[number].name in zoo.members[-1].adopted)
    for member, task, rows, share in (
        (zoo.members[-1], TOYS[past], zoo.kept[TOYS[past].name].train, 0.5),
        (zoo.members[0], TOYS[3], TOYS[3].train, 1.0),
    ):
        head = fit_head(feature_rows(member.net, rows.x, TINY), rows.y, len(task.classes))
        assert torch.equal(member.net.head(task.name).weight, head.weight)
        assert member.share[task.name] == share


def test_training_losses_are_those_of_members_that_were_trained():
    zoo = zoo_of()
    for task in TOYS:
        trained = [member for member in zoo.members if task.name in set(member.share) - member.adopted]
        assert zoo.train_votes[task.name].weight == len(trained)


def test_an_episode_asks_for_no_more_than_it_needs(monkeypatch):
    """The new member about what it was not trained on, the others about the new task; nothing of any test set."""
    zoo = zoo_of(TOYS.tasks[:3])
    with embedded(monkeypatch) as passes:
        zoo.learn(TOYS[3])
    asked = [(net, x) for net, training, x in passes if not training]
    old = [x for net, x in asked if net is not zoo.members[-1].net]
    assert set().union(*map(row_set, old)) == row_set(TOYS[3].train.x)
    assert sum(len(x) for x in old) == 3 * len(TOYS[3].train)
    everything = set().union(*(row_set(x) for _, x in asked))
    assert not everything & set().union(*(row_set(task.test.x) for task in TOYS))


def test_running_sums_are_what_the_zoo_would_answer_from_scratch():
    zoo = zoo_of(replay=0.5, trust=1.0, held_out=0.25, mirror=True)
    for task in TOYS:
        assert torch.allclose(zoo.test_votes[task.name].mean, zoo.predict_proba(task.test.x, task.name), atol=1e-6)


def test_a_vote_counts_by_the_likelihood_of_rows_that_were_not_trained_on_again():
    zoo = zoo_of(trust=2.0, held_out=0.25)
    newest = zoo.members[-1]
    for task in TOYS[:3]:
        judges = zoo.judges(task)
        if task.name in newest.adopted:
            features = feature_rows(newest.net, task.train.x, TINY)
            likelihood = fit_head(features, task.train.y, len(task.classes), judges).likelihood
        else:
            rows = task.train.select(judges.nonzero()[:, 0])
            said = probabilities(newest.net, rows.x, task.name, TINY)
            likelihood = float(said.gather(1, rows.y[:, None]).log().mean())
        assert newest.share[task.name] == pytest.approx(math.exp(2.0 * likelihood), rel=1e-5)


def test_only_the_judges_are_asked_how_likely_a_head_is_to_be_right():
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(80, 4, generator=rng), torch.arange(80) % 2
    x[:40, 0] += 6.0 * y[:40]  # the features know these rows by heart
    strangers = torch.arange(80) >= 40
    whole, judged = fit_head(x, y, 2), fit_head(x, y, 2, strangers)
    assert judged.likelihood < whole.likelihood - 0.1


@pytest.mark.parametrize(("replay", "fitted"), [(1.0, 2), (0.5, 1)])
def test_heads_of_tasks_that_were_seen_in_full_can_be_fitted_after_training(replay, fitted):
    plain, zoo = (
        zoo_of(adoption=False, replay=replay, fit_heads=when, weigh=zoolearn.uniform) for when in ("no", "after")
    )
    for before, after in zip(plain.members, zoo.members, strict=True):
        assert same(state(before.net.body), state(after.net.body)), "what is trained stays"
        for place, name in enumerate(after.net.tasks):
            rows = zoo.kept[name].train if place else next(task for task in TOYS if task.name == name).train
            head = fit_head(feature_rows(after.net, rows.x, TINY), rows.y, len(after.net.head(name).bias))
            expected = head.weight if place < fitted else before.net.head(name).weight
            assert torch.equal(after.net.head(name).weight, expected)


def test_rows_that_are_held_out_are_trained_on_once_as_new_and_never_again(monkeypatch):
    zoo = zoo_of((), held_out=0.25)
    for number, task in enumerate(TOYS):
        with embedded(monkeypatch) as passes:
            zoo.learn(task)
        trained = set().union(*(row_set(x) for _, training, x in passes if training))
        assert row_set(task.train.x) <= trained
        for past in TOYS.tasks[:number]:
            judges = zoo.judges(past)
            assert bool(judges.any())
            assert not trained & row_set(past.train.x[judges])
            assert past.name not in zoo.latest.tasks or row_set(past.train.x[~judges]) <= trained


def test_where_elders_do_not_adopt_a_member_speaks_for_what_came_before_it():
    zoo = zoo_of(elders=False)
    for number, member in enumerate(zoo.members, start=1):
        assert set(member.share) == {task.name for task in TOYS.tasks[:number]}


@pytest.mark.parametrize("share", [0.1, 0.25, 0.8])
def test_about_the_share_that_was_asked_for_is_held_out(share):
    rows = Examples(torch.arange(4000.0)[:, None], torch.arange(4000) % 2)
    for seed in range(3):
        held = is_held_out(rows, share, seed)
        assert float(held.double().mean()) == pytest.approx(share, abs=0.03)  # four deviations of a fair draw
        assert not torch.equal(held, is_held_out(rows, share, seed + 9)), "another seed holds out others"


def test_a_class_that_would_be_left_without_rows_gives_none_away():
    rows = Examples(torch.arange(40.0)[:, None], torch.tensor([0] * 39 + [1]))
    held = [is_held_out(rows, 0.5, seed=seed) for seed in range(8)]
    assert not any(bool(mask[39]) for mask in held)
    assert all(5 < int(mask.sum()) < 35 for mask in held)


def test_the_mirror_image_is_asked_too():
    task = pictures("stripes", shape=(3, 8, 8))
    zoo, plain = (zoo_of([task], mirror=mirror, adoption=False) for mirror in (True, False))
    x = task.test.x
    both = plain.predict_proba(x, "stripes").log() + plain.predict_proba(x.flip(-1), "stripes").log()
    assert torch.allclose(zoo.predict_proba(x, "stripes"), torch.softmax(both / 2, dim=1), atol=1e-6)


def test_grey_pictures_and_features_have_no_mirror_image():
    for task in (pictures("stripes"), blobs("blobs")):
        zoo, plain = (zoo_of([task], mirror=mirror, fit_heads="after") for mirror in (True, False))
        x = task.test.x
        assert torch.equal(zoo.predict_proba(x, task.name), plain.predict_proba(x, task.name))


def test_heads_are_fitted_to_what_they_will_be_asked_about():
    task = pictures("stripes", shape=(3, 8, 8))
    zoo = zoo_of([task], mirror=True, adoption=False, fit_heads="after")
    (member,) = zoo.members
    looks = [feature_rows(member.net, x, zoo.recipe) for x in (task.train.x, task.train.x.flip(-1))]
    assert not torch.allclose(*looks)
    wanted = fit_head((looks[0] + looks[1]) / 2, task.train.y, len(task.classes))
    assert torch.allclose(member.net.head("stripes").weight, wanted.weight, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trust": -1.0}, "trust is -1"),
        ({"held_out": 2.0}, "held_out is 2"),
        ({"held_out": 1.0}, "held_out is 1; leave some rows"),
        ({"shrink": math.nan}, "shrink is nan"),
        ({"perturb": -math.inf}, "perturb is -inf"),
    ],
)
def test_an_impossible_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        ModelZoo(**settings)


@pytest.mark.parametrize("fit_heads", ["no", "after"])
def test_the_strictest_trust_still_lets_somebody_answer(fit_heads):
    zoo = zoo_of(TASKS, trust=1e6, fit_heads=fit_heads)
    for task in TASKS:
        answer = zoo.predict_proba(task.test.x, task.name)
        assert torch.allclose(answer.sum(dim=1), torch.ones(len(answer)))


# zoo folders

FULL = {"inherit": last, "fit_heads": "both", "adoption": True, "trust": 2.0, "held_out": 0.2, "mirror": True}
SETTINGS = [{}, {"replay": 0.5}, {"replay": 0.0}, {"tasks_per_episode": 1}, {"elders": False}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_folder_that_is_reopened_before_every_task_equals_the_learner(tmp_path, settings):
    learner = zoo_of(TASKS, **{"tasks_per_episode": 3, **FULL, **settings})
    zoo = small_zoo(tmp_path / "zoo", TASKS, **{**FULL, **settings})
    for task in TASKS:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), learner.predict_proba(task.test.x, task.name))
        assert zoo.measure(task.name).accuracy == zoolearn.accuracy(
            zoo.predict_proba(task.test.x, task.name), task.test.y
        )
    assert [dict(member.share) for member in zoo.members] == [member.share for member in learner.members]
    assert drain(zoo.verify()) == []
    assert not stray_files(zoo)


def test_the_past_is_exact_and_undo_takes_adopted_heads_along(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], **FULL)
    before, files = answers(zoo, TASKS), {name for name in contents(zoo.path) if name != "zoo.json"}
    zoo.learn(TASKS[2])
    assert alike(answers(zoo, TASKS[:2], at=2), before)
    assert not alike(answers(zoo, TASKS[:2]), before)
    zoo.undo()
    assert alike(answers(zoolearn.open(zoo.path), TASKS), before)
    assert {name for name in contents(zoo.path) if name != "zoo.json"} == files


def test_forgetting_a_task_takes_every_head_that_was_fitted_to_it(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, adoption=True, tasks_per_episode=1)
    name = TASKS[1].name
    heads = [zoo.net(member.number).head(name).weight.numpy().tobytes()[:48] for member in zoo.members]
    everything = b"".join(contents(zoo.path).values())
    assert all(head in everything for head in heads)
    first = state(zoo.net(1))
    zoo.forget(name)
    left = b"".join(path.read_bytes() for path in zoo.path.rglob("*") if path.is_file())
    assert not any(head in left for head in heads)
    assert name.encode() not in left
    assert [member.number for member in zoo.members] == [1, 3, 4]
    assert all(set(member.share) == {"stripes", "rings", "waves"} for member in zoo.members)
    kept = state(zoo.net(1))
    assert same(
        {key: first[key] for key in first if key.startswith("body")}, {k: kept[k] for k in kept if k.startswith("body")}
    )
    assert drain(zoolearn.open(zoo.path).verify()) == []
    assert not stray_files(zoo)


def test_heads_of_retrained_members_are_fitted_again(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS, **FULL)
    zoo.forget(TASKS[0].name)
    for member in zoo.members:
        assert set(member.share) == {task.name for task in TASKS[1:]}
        for head in member.adopted:
            task = zoo.task(head.task)
            net = zoo.net(member.number)
            fitted = fit_head(feature_rows(net, task.train.x, TINY, mirror=True), task.train.y, len(task.classes))
            assert torch.equal(net.head(head.task).weight, fitted.weight)
    assert drain(zoolearn.open(zoo.path).verify()) == []
    zoo.learn(TASKS[0])
    assert zoo.measure(TASKS[0].name).accuracy > 0.5


def test_without_rows_heirs_cannot_be_retrained_and_the_way_out_is_named(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], inherit=last, replay=0.0)
    before = contents(zoo.path)
    with pytest.raises(SettingsError, match="forget 'rings', then 'dots' first"):
        zoo.forget("stripes")
    assert contents(zoo.path) == before
    for name in ("rings", "dots", "stripes"):
        zoo.forget(name)
    assert not zoo.members


def test_pruning_silences_adopted_heads_too_and_removes_them_for_good(tmp_path):
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
    assert drain(zoolearn.open(zoo.path).verify()) == []


def test_an_export_answers_as_the_zoo_with_adopted_heads_and_mirror_images(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], **FULL)
    made = zoo.export(TASKS[0].name, tmp_path / "task.pt2", to="torch")
    assert made.members == 2
    assert made.difference < 1e-5


def test_a_run_becomes_a_folder_with_its_lineage_and_its_adopted_heads(tmp_path, capsys):
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "3", "--tasks-per-episode", "2"]
    flags = ["--inherit", "last", "--adoption", "--trust", "2", "--fit-heads", "after"]
    main(["run", "model-zoo", *words, *flags, "--out", str(tmp_path / "run")])
    main(["new", str(tmp_path / "zoo"), "--adopt", str(tmp_path / "run")])
    main(["show", str(tmp_path / "zoo")])
    shown = capsys.readouterr().out
    assert "1 → 2 → 3" in shown
    assert "∘" in shown
    learner, zoo = zoolearn.load(tmp_path / "run"), zoolearn.open(tmp_path / "zoo")
    for task in zoolearn.benchmark("split-digits")[:3]:
        assert torch.equal(zoo.predict_proba(task.test.x, task.name), learner.predict_proba(task.test.x, task.name))
    assert zoo.settings.beyond == {"inherit": "last", "fit_heads": "after", "adoption": True, "trust": 2.0}
    zoo.undo()
    assert [len(member.share) for member in zoo.members] == [2, 2]
    zoo.learn(zoolearn.benchmark("split-digits")[2])
    assert [len(member.share) for member in zoo.members] == [3, 3, 3]


def test_a_preset_sets_a_new_zoo_up_and_flags_have_their_say(tmp_path):
    main(["new", str(tmp_path / "zoo"), "--preset", "beyond", "--trust", "3"])
    settings = zoolearn.open(tmp_path / "zoo").settings.beyond
    assert (settings["inherit"], settings["adoption"], settings["trust"]) == ("last", True, 3.0)
    main(["new", str(tmp_path / "plain"), "--preset", "paper"])
    assert zoolearn.open(tmp_path / "plain").settings.beyond == {}
    with pytest.raises(SystemExit):
        main(["new", str(tmp_path / "other"), "--preset", "beyonds"])


def test_zoos_of_earlier_versions_lack_settings_that_came_later_and_open_all_the_same():
    plain = json.loads(json.dumps(asdict(ZooSettings.chosen(epochs=3))))
    del plain["beyond"], plain["columns"], plain["recipe"]["warm_up"]
    settings = ZooSettings.read(Reader(plain, "zoo.json"))
    assert (settings.columns, settings.recipe["warm_up"]) == ((), 0.0)
    del plain["recipe"]["lr"]
    with pytest.raises(StoreError, match="lacks 'lr'"):
        ZooSettings.read(Reader(plain, "zoo.json"))
