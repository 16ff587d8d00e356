"""Tasks that grow: who speaks for a class that came later, how much older members count, and what an episode does then."""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from toys import TINY, embedded, learner_of, row_set, same, state
from zoolearn.beyond.task_inference import EVIDENCE, WhichTask
from zoolearn.beyond.voting import accuracy_by_rule, collect_outputs, member_stats
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.arrivals import join_parts, part_by_class, split_into_arrivals
from zoolearn.data.benchmarks import benchmark as by_name
from zoolearn.data.benchmarks import reload_benchmark
from zoolearn.data.fingerprint import fingerprint, fingerprint_of_data
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.data.toys import blobs, pictures, toy_benchmark
from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.a_gem import AGem
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.ensemble import Tally, Vote, vote_weights
from zoolearn.methods.er import Er
from zoolearn.methods.gem import Gem
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.growth import Statistics, correct_class_priors
from zoolearn.methods.registry import METHODS
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, run
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.store import RunFolder
from zoolearn.testing import Subject, check_growth
from zoolearn.training.batches import Batch
from zoolearn.training.fit import cross_entropy
from zoolearn.training.predict import average, combine, complete, compute_features, probabilities
from zoolearn.zoo.auto_epochs import OwnedZoo
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.disk.lazy import LazyDict, LazyList

OLD, ALL = ("cat", "dog"), ("cat", "dog", "fox")


def votes_of(count, classes, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [torch.softmax(torch.randn(7, classes, generator=rng), dim=1) for _ in range(count)]


def test_where_all_know_all_the_answer_is_the_weighted_mean_bit_for_bit():
    said = votes_of(3, 3)
    for weights in ([1.0, 1.0, 1.0], [1.0, 0.1, 0.3], [0.25]):
        assert torch.equal(
            combine(said[: len(weights)], weights, [ALL] * len(weights), ALL), average(said[: len(weights)], weights)
        )


def test_a_member_decides_among_the_classes_that_it_knows_and_the_others_how_likely_these_are():
    old, new = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.3, 0.6]])
    answer = combine([old, new], [3.0, 1.0], [OLD, ALL], ALL)
    by_hand = (3 * torch.tensor([[0.9 * 0.4, 0.1 * 0.4, 0.6]]) + new) / 4
    assert torch.allclose(answer, by_hand)


def test_a_new_class_keeps_its_mass_whatever_older_members_weigh_where_zeros_would_kill_it():
    (new,), old = votes_of(1, 3), votes_of(9, 2, seed=1)
    said, weights, knows = [*old, new], [100.0] * 9 + [1.0], [OLD] * 9 + [ALL]
    completed = combine(said, weights, knows, ALL)
    zeros = average([torch.nn.functional.pad(vote, (0, 3 - vote.shape[1])) for vote in said], weights)
    assert torch.allclose(completed[:, 2], new[:, 2])
    assert torch.allclose(completed.sum(dim=1), torch.ones(7))
    assert (zeros[:, 2] < 0.002).all()


def test_three_generations_are_completed_by_those_that_know_all():
    first, second, third = votes_of(1, 2)[0], votes_of(1, 3, seed=1)[0], votes_of(1, 4, seed=2)[0]
    wanted = (*ALL, "owl")
    answer = combine([first, second, third], [1.0, 1.0, 2.0], [OLD, ALL, wanted], wanted)
    by_hand = (
        torch.cat([first * third[:, :2].sum(1, keepdim=True), third[:, 2:]], dim=1)
        + torch.cat([second * third[:, :3].sum(1, keepdim=True), third[:, 3:]], dim=1)
        + 2 * third
    ) / 4
    assert torch.allclose(answer, by_hand)


def test_classes_go_by_their_names_and_not_by_their_places():
    (new,), (old,) = votes_of(1, 3), votes_of(1, 2, seed=1)
    straight = combine([old, new], [1.0, 1.0], [OLD, ALL], ALL)
    turned = combine([old.flip(1), new[:, [2, 0, 1]]], [1.0, 1.0], [("dog", "cat"), ("fox", "cat", "dog")], ALL)
    assert torch.allclose(turned, straight)
    assert torch.equal(complete(new, ALL, ("fox", "dog", "cat"), new), new[:, [2, 1, 0]])


def test_without_a_member_that_knows_all_and_with_a_class_that_is_not_wanted_nothing_is_answered():
    (old,), (new,) = votes_of(1, 2), votes_of(1, 3)
    with pytest.raises(DataError, match="no voter knows all of the classes cat, dog, fox"):
        combine([old], [1.0], [OLD], ALL)
    with pytest.raises(DataError, match="a vote is about class 'fox', which is not among cat, dog"):
        combine([old, new], [1.0, 1.0], [OLD, ALL], OLD)


def test_votes_count_by_the_rows_that_were_seen_of_those_that_have_arrived():
    few, many = (50, 50), (50, 50, 300)
    votes = [Vote(1.0, OLD, arrived=few), Vote(0.1, OLD, arrived=few), Vote(0.5, ALL, arrived=many)]
    assert vote_weights(votes) == pytest.approx([0.25, 0.025, 0.5])
    assert vote_weights([Vote(0.1, OLD, arrived=few), Vote(1.0, OLD, arrived=few)]) == [0.1, 1.0]
    assert vote_weights([]) == []


def test_a_member_that_saw_few_rows_of_a_class_counts_for_no_more_once_many_have_come():
    few, grown = Vote(1.0, ALL, arrived=(100, 100, 5)), Vote(1.0, ALL, arrived=(100, 100, 100))
    assert vote_weights([Vote(1.0, OLD, arrived=(100, 100)), few, grown]) == pytest.approx([2 / 3, 0.05, 1.0])
    said = votes_of(2, 3)
    tally = Tally("", ALL).add(said[0], few, 1).add(said[1], grown, 2)
    assert torch.allclose(tally.mean, (0.05 * said[0] + said[1]) / 1.05)


def test_a_class_without_any_row_silences_nobody_in_runs_and_in_zoos():
    wanted = pytest.approx([50 / 80, 0.0, 1.0])
    seen, now = [(50, 50, 0), (50, 0, 0), (80, 50, 0)], (80, 50, 0)
    assert vote_weights([Vote(1.0, ALL, arrived=rows) for rows in seen]) == wanted
    for then, share in zip(seen, (50 / 80, 0.0, 1.0), strict=True):
        more = {name: late - early for name, early, late in zip(ALL, then, now, strict=True) if late > early}
        first = Arrival("pets", 1, ALL, (), dict(zip(ALL, then, strict=True)), None, None)
        later = [Arrival("pets", 2, (), (), more, None, None)] if more else []
        assert TaskEntry("pets", (first, *later)).share_seen(1) == pytest.approx(share)


def test_a_tally_of_votes_is_what_the_voters_say_together():
    said = [*votes_of(2, 2), *votes_of(2, 3, seed=1), *votes_of(1, 3, seed=2)]
    old, grown = (5, 5), (5, 5, 5)
    votes = [
        Vote(1.0, OLD, arrived=old),
        Vote(0.5, OLD, arrived=old),
        *(Vote(w, ALL, arrived=grown) for w in (0.8, 1.0)),
    ]
    votes.append(Vote(1.0, ALL, arrived=(10, 10, 10)))  # more rows, and no new class
    tally = Tally("rows", ALL)
    for number, (vote, answers) in enumerate(zip(votes, said, strict=True), 1):
        tally = tally.add(answers, vote, number)
    together = combine(said, vote_weights(votes), [vote.classes for vote in votes], ALL)
    assert torch.allclose(tally.mean, together, atol=1e-6)
    assert (tally.members, len(tally.sums)) == (5, 3)


STRIPES, DOTS, WAVES = (pictures(name, 3, 8, test_per_class=10) for name in ("stripes", "dots", "waves"))
FIRST, THEN = part_by_class(STRIPES, [[0, 1], [2]])
LONGER = replace(TINY, epochs=8)


def interrupt(*_):
    raise KeyboardInterrupt


def zoo_of(*tasks, kind=ModelZoo, **settings):
    own = {"tasks_per_episode": 2, "recipe": LONGER} if issubclass(kind, ModelZoo) else {}
    zoo = learner_of(kind, **{**own, **settings})
    for task in tasks:
        zoo.learn(task)
    return zoo


def recalls(learner, task):
    """The share of the test rows of each class that is told rightly, as the task is now."""
    said = learner.predict_proba(task.test.x, task.name).argmax(dim=1)
    return [float((said[task.test.y == label] == label).float().mean()) for label in range(len(task.classes))]


def test_a_task_and_its_parts_are_joined_by_the_names_of_classes():
    later = Task("stripes", THEN.train, THEN.test, ("stripes 2",), part=True)
    more = replace(part_by_class(STRIPES, [[1, 0], [2]])[0], part=True)
    joined = FIRST.join_part(later).join_part(more)
    assert joined.classes == ("stripes 0", "stripes 1", "stripes 2")
    names = [joined.classes[label] for label in joined.train.y]
    parts = [part.classes[label] for part in (FIRST, later, more) for label in part.train.y]
    assert names == parts
    assert torch.equal(joined.test.x, torch.cat([part.test.x for part in (FIRST, later, more)]))
    assert join_parts([DOTS, FIRST, later])["dots"] is DOTS


def test_one_class_alone_is_a_part_and_no_task():
    with pytest.raises(DataError, match="has one class, 'stripes 2'; there is nothing to tell apart"):
        replace(THEN, part=False)
    with pytest.raises(DataError, match="nothing to tell apart"):
        zoo_of(THEN)
    with pytest.raises(DataError, match="begins task 'stripes' with a part"):
        Benchmark("wrong", (THEN, FIRST))
    with pytest.raises(DataError, match="has two tasks named 'stripes'"):
        Benchmark("wrong", (FIRST, FIRST))


def test_a_growth_is_one_episode_on_all_rows_of_the_task_and_others_that_are_drawn(monkeypatch):
    zoo = zoo_of(FIRST, DOTS, WAVES, tasks_per_episode=3)
    with embedded(monkeypatch) as passes:
        zoo.learn(THEN)
    trained = set().union(*(row_set(x) for _, training, x in passes if training))
    assert zoo.latest.tasks[0] == "stripes"
    assert {*zoo.latest.tasks[1:]} == {*zoo.latest.weights} == {"dots", "waves"}
    assert trained == row_set(torch.cat([task.train.x for task in (STRIPES, DOTS, WAVES)]))
    assert (len(zoo.members), zoo.episode) == (4, 4)
    assert zoo.members[-1].votes["stripes"] == Vote(1.0, STRIPES.classes, arrived=(8, 8, 8))
    assert zoo.stored_samples == 3 * 24


def test_no_older_member_changes_and_a_task_that_is_not_drawn_is_answered_bit_for_bit_as_before():
    zoo = zoo_of(FIRST, DOTS, WAVES)
    before = [state(member.net) for member in zoo.members]
    said = {task.name: zoo.predict_proba(task.test.x, task.name) for task in (DOTS, WAVES)}
    zoo.learn(THEN)
    assert all(map(same, before, [state(member.net) for member in zoo.members]))
    (left,) = {"dots", "waves"} - {*zoo.latest.tasks}
    assert torch.equal(zoo.predict_proba((DOTS if left == "dots" else WAVES).test.x, left), said[left])


@pytest.mark.parametrize("replay", [1.0, 0.25, 0.0])
@pytest.mark.parametrize("grow", [None, WarmStart()])
def test_a_class_that_came_alone_is_told_and_the_older_ones_are_not_forgotten(replay, grow):
    zoo = zoo_of(FIRST, DOTS, THEN, replay=replay, **{"grow": grow} if grow else {})
    assert zoo.classes["stripes"] == STRIPES.classes
    assert min(recalls(zoo, STRIPES)) >= 0.7
    assert zoo.evaluate([STRIPES, DOTS])["stripes"] == accuracy(
        zoo.predict_proba(STRIPES.test.x, "stripes"), STRIPES.test.y
    )


def test_accuracies_after_a_growth_count_the_votes_that_come_later_too():
    zoo = zoo_of(FIRST, DOTS, tasks_per_episode=3)
    zoo.evaluate([FIRST, DOTS])
    for task in (THEN, WAVES, replace(DOTS, part=True)):
        zoo.learn(task)
        zoo.evaluate([STRIPES])
    said = zoo.predict_proba(STRIPES.test.x, "stripes")
    assert torch.allclose(zoo.test_votes["stripes"].mean, said, atol=1e-6)
    assert len(zoo.test_votes["stripes"].sums) == 2


def test_a_growth_that_is_abandoned_leaves_no_trace():
    zoo, again = zoo_of(FIRST, DOTS), zoo_of(FIRST, DOTS)
    work = again.iter_learn(THEN)
    list(islice(work, 2))
    work.close()
    assert (again.arrived, again.classes, again.episode) == (zoo.arrived, zoo.classes, 2)
    for learner in (zoo, again):
        learner.learn(THEN)
    assert torch.equal(*(learner.predict_proba(STRIPES.test.x, "stripes") for learner in (zoo, again)))


@pytest.mark.parametrize("moment", ["feature_statistics", "label_probabilities"])
def test_an_episode_that_is_abandoned_after_its_rows_were_kept_keeps_none_of_them(monkeypatch, moment):
    zoo, again = (zoo_of(FIRST, keep_statistics=True, replay=0.5) for _ in range(2))
    monkeypatch.setattr(f"zoolearn.methods.model_zoo.{moment}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        again.learn(DOTS)
    monkeypatch.setattr("zoolearn.methods.model_zoo.label_probabilities", interrupt)
    with pytest.raises(KeyboardInterrupt):
        again.learn(THEN)
    monkeypatch.undo()
    assert {name: len(task.train) for name, task in again.kept.items()} == {"stripes": len(zoo.kept["stripes"].train)}
    for learner in (zoo, again):
        for task in (DOTS, THEN):
            learner.learn(task)
    assert again.stored_samples == zoo.stored_samples
    assert again.members[1].votes == zoo.members[1].votes
    assert torch.equal(*(learner.predict_proba(STRIPES.test.x, "stripes") for learner in (zoo, again)))


def test_an_owned_zoo_takes_an_abandoned_fit_of_a_head_back(monkeypatch):
    zoo = zoo_of(FIRST, kind=OwnedZoo)
    (first,), rows = zoo.members, zoo.stored_samples
    zoo.kept, zoo.members = LazyDict(zoo.kept, zoo.kept.__getitem__), LazyList([lambda: first])
    monkeypatch.setattr("zoolearn.methods.model_zoo.label_probabilities", interrupt)
    with pytest.raises(KeyboardInterrupt):
        zoo.refit(THEN.relabel(STRIPES.classes), first)
    assert (zoo.stored_samples, len(zoo.members)) == (rows, 1)
    assert zoo.kept["stripes"].classes == FIRST.classes


def test_more_rows_without_a_new_class_count_by_how_many_they_are():
    few, many = (pictures("stripes", 3, count, test_per_class=10, seed=0) for count in (2, 8))
    zoo = zoo_of(few, replace(many, part=True), tasks_per_episode=1)
    assert [weight for _, weight in zoo.voters("stripes")] == pytest.approx([6 / 30, 1.0])


def test_a_head_that_saw_uneven_rows_counts_classes_as_they_arrived():
    net = Net(mlp_100, STRIPES.shape)
    net.add_head("stripes", 3)
    at_hand = replace(STRIPES, train=STRIPES.train.select(torch.tensor([0, 1, 3, 2, 5, 8])))  # 2, 1 and 3 rows
    before = probabilities(net, STRIPES.test.x, "stripes", TINY).double()
    correct_class_priors(net, at_hand, (20, 20, 3))
    by_hand = before * torch.tensor([20 / 2, 20 / 1, 3 / 3])
    after = probabilities(net, STRIPES.test.x, "stripes", TINY).double()
    assert torch.allclose(after, by_hand / by_hand.sum(dim=1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("grow", [None, WarmStart(all_tasks=False)])
def test_limited_replay_corrects_only_the_head_of_the_task_that_grows_in_its_episode(monkeypatch, grow):
    corrected = []
    monkeypatch.setattr(
        "zoolearn.methods.bases.keeps_rows.correct_class_priors",
        lambda net, task, arrived, _: corrected.append((task.name, torch.bincount(task.train.y).tolist(), arrived)),
    )
    zoo = zoo_of(FIRST, DOTS, replay=0.25, **{"grow": grow} if grow else {})
    assert corrected == []
    zoo.learn(THEN)
    assert {*map(str, corrected)} == {str(("stripes", [2, 2, 8], (8, 8, 8)))}
    corrected.clear()
    zoo.learn(WAVES)
    assert corrected == []
    assert zoo.share_at_hand(zoo.kept["stripes"]) == 0.25


@pytest.mark.parametrize("grow", [None, WarmStart()])
def test_every_head_of_a_balanced_zoo_answers_as_if_classes_were_equally_frequent(grow):
    few = (STRIPES.train.y < 2) | (torch.arange(24) < 6)
    rare = replace(STRIPES, train=STRIPES.train.select(few.nonzero()[:, 0]))
    counts = torch.tensor([8.0, 8.0, 2.0]).double()
    plain, half, whole = (
        zoo_of(rare, DOTS, balance=balance, **{"grow": grow} if grow else {}) for balance in (0.0, 0.5, 1.0)
    )
    for before, some, after in zip(plain.members, half.members, whole.members, strict=True):
        for name in before.votes:
            told = probabilities(before.net, STRIPES.test.x, name, TINY).double()
            for member, balance in ((some, 0.5), (after, 1.0)):
                by_hand = told / counts**balance if name == "stripes" else told
                said = probabilities(member.net, STRIPES.test.x, name, TINY).double()
                assert torch.allclose(said, by_hand / by_hand.sum(dim=1, keepdim=True), atol=1e-5), (name, balance)
    with pytest.raises(SettingsError, match=r"balance is 1\.5"):
        zoo_of(balance=1.5)


def test_statistics_of_parts_add_up_to_those_of_all_rows():
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 5, generator=rng), torch.arange(40) % 4
    is_first = (y < 3) & (torch.arange(40) < 28)  # later a new class, and more rows of older ones
    first, later = Statistics.of(x[is_first], y[is_first], 3), Statistics.of(x[~is_first], y[~is_first], 4)
    whole, joined = Statistics.of(x, y, 4), first.merge(later)
    for name in ("counts", "means", "scatter"):
        assert torch.allclose(getattr(joined, name), getattr(whole, name), atol=1e-9), name


def test_the_discriminant_is_bayes_rule_for_bells_of_one_shape():
    rng = torch.Generator().manual_seed(0)
    mix, centres = torch.randn(4, 4, generator=rng).double(), 3 * torch.randn(3, 4, generator=rng).double()
    y = torch.tensor([0] * 20000 + [1] * 10000 + [2] * 2000)
    x = centres[y] + torch.randn(len(y), 4, generator=rng).double() @ mix
    weight, bias = Statistics.of(x, y, 3).discriminant()
    said = torch.softmax(x[::16] @ weight.T + bias, dim=1)
    bells = [torch.distributions.MultivariateNormal(centre, mix.T @ mix) for centre in centres]
    by_hand = torch.stack([bell.log_prob(x[::16]) for bell in bells], dim=1) + torch.bincount(y).log()
    assert float((said - torch.softmax(by_hand, dim=1)).abs().max()) < 0.05


def test_a_discriminant_of_few_rows_does_not_mind_the_scale_of_a_feature_nor_one_that_never_varies():
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 12, generator=rng).double(), torch.arange(30) % 3
    scale = torch.linspace(0.5, 2.0, 12).double()
    (weight, bias), (scaled, same) = (Statistics.of(rows, y, 3).discriminant() for rows in (x, x * scale))
    assert torch.allclose(scaled * scale, weight)
    assert torch.allclose(same, bias)
    still = Statistics.of(torch.cat([x, torch.ones(30, 1).double()], dim=1), y, 3).discriminant()[0]
    assert bool(still.isfinite().all())


def test_without_replay_the_first_member_answers_for_all_classes_by_statistics_of_its_features():
    zoo = zoo_of(FIRST, DOTS, THEN, replay=0.0)
    first, _, grown = zoo.members
    features = compute_features(first.net, STRIPES.train.x, zoo.recipe)
    weight, _ = Statistics.of(features, STRIPES.train.y, 3).discriminant()
    assert torch.allclose(grown.net.head("stripes").weight.double(), weight, rtol=1e-3, atol=1e-4)
    assert same(state(first.net.backbone), state(grown.net.backbone))
    assert [net for net, _ in zoo.voters("stripes")] == [grown.net]
    assert (zoo.stored_samples, grown.trained) == (0, False)
    zoo.learn(replace(STRIPES, part=True))  # and again
    assert zoo.statistics["stripes"].counts.tolist() == [16.0, 16.0, 16.0]


@pytest.mark.parametrize("replay", [0.0, 1.0])
def test_a_class_that_is_named_but_has_no_row_is_refused_whether_rows_are_kept_or_their_statistics(replay):
    zoo = zoo_of(FIRST, replay=replay)
    empty = replace(THEN, classes=(*THEN.classes, "a class without rows"))
    with pytest.raises(DataError, match="'stripes' has no training example of class 'a class without rows'; add some"):
        zoo.learn(empty)
    zoo.learn(THEN)
    assert zoo.classes["stripes"] == STRIPES.classes
    assert bool(zoo.predict_proba(STRIPES.test.x, "stripes").isfinite().all())


def test_with_few_rows_kept_statistics_of_all_rows_vote_beside_the_new_member():
    plain, zoo = (zoo_of(FIRST, DOTS, THEN, replay=0.25, keep_statistics=keeps) for keeps in (False, True))
    first, _, by_statistics, trained = zoo.members
    assert (by_statistics.trained, trained.trained, len(plain.members)) == (False, True, 3)
    assert same(state(first.net.backbone), state(by_statistics.net.backbone))
    assert same(state(plain.members[-1].net), state(trained.net)), "it is trained as ever"
    assert zoo.statistics["stripes"].counts.tolist() == [8.0, 8.0, 8.0]
    assert [weight for _, weight in zoo.voters("stripes")] == pytest.approx([16 / 24, 16 / 24 / 4, 1.0, 12 / 24])
    zoo.learn(replace(STRIPES, part=True))
    assert zoo.statistics["stripes"].counts.tolist() == [16.0, 16.0, 16.0]


def test_without_replay_a_warm_start_goes_on_from_the_last_member_that_was_trained(monkeypatch):
    zoo = zoo_of(FIRST, DOTS, THEN, replay=0.0, grow=WarmStart())
    begun, fit = [], ModelZoo.fit
    monkeypatch.setattr(
        ModelZoo, "fit", lambda zoo, net, *a, **o: begun.append(state(net.backbone)) or fit(zoo, net, *a, **o)
    )
    zoo.learn(WAVES)
    assert same(begun[0], state(zoo.members[1].net.backbone))


def test_features_in_tables_grow_too():
    first, then = part_by_class(blobs("near", 3), [[0, 2], [1]])
    whole = first.join_part(then)
    for replay in (1.0, 0.0):
        zoo = zoo_of(first, then, replay=replay)
        assert accuracy(zoo.predict_proba(whole.test.x, "near"), whole.test.y) > 0.8


def test_isolated_nets_keep_rows_for_their_own_task_if_told_to_and_are_trained_again_on_all_of_it(monkeypatch):
    with pytest.raises(DataError, match=r"isolated nets keep none of its rows.*--replay 1 keeps all"):
        zoo_of(FIRST, THEN, kind=Isolated)
    isolated = zoo_of(FIRST, DOTS, kind=Isolated, replay=1.0, networks=2)
    with embedded(monkeypatch) as passes:
        isolated.learn(THEN)
    trained = set().union(*(row_set(x) for _, training, x in passes if training))
    assert trained == row_set(STRIPES.train.x)
    assert [net for net, _ in isolated.voters("stripes")] == [member.net for member in isolated.members[-2:]]
    assert len(isolated.members) == 6
    assert isolated.num_parameters == sum(member.net.num_parameters for member in isolated.members[2:]), "that vote"
    assert isolated.stored_samples == 48


def test_one_net_for_all_tasks_widens_the_head_and_begins_with_what_it_knew():
    tuned = zoo_of(FIRST, DOTS, kind=FineTune, recipe=LONGER)
    before = tuned.net
    grown = tuned.grow_net(THEN.relabel(STRIPES.classes))
    assert torch.equal(grown.head("stripes").weight[:2], before.head("stripes").weight)
    assert grown.head("stripes").out_features == 3
    tuned.learn(THEN)
    assert recalls(tuned, STRIPES) == [0.0, 0.0, 1.0], "fine-tuning on a new class alone forgets the others"


def test_a_widened_head_is_seen_by_batches_of_several_tasks_too():
    net = Net(mlp_100, STRIPES.shape)
    for task in (FIRST, DOTS):
        net.add_head(task.name, len(task.classes))
    both = ("stripes", "dots")
    rows = torch.tensor([0, 1])
    net.forward_mixed(STRIPES.test.x[:2], both, rows)
    net.widen_head("stripes", 3)
    logits, first = net.forward_mixed(STRIPES.test.x[:2], both, rows)
    assert (logits.shape, first.tolist()) == ((2, 6), [0, 3])
    assert cross_entropy(net, Batch(STRIPES.test.x[:2], torch.tensor([2, 2]), rows, both)).isfinite()


def test_one_head_for_all_tasks_takes_more_rows_and_no_new_class():
    shared = zoo_of(FIRST, kind=FineTune, shared_head=True)
    shared.learn(replace(FIRST, part=True))
    with pytest.raises(DataError, match="brings the new class 'stripes 2', but all tasks share one head"):
        shared.learn(THEN)


def test_a_memory_of_rows_knows_the_task_of_rows_that_came_later():
    er = zoo_of(FIRST, DOTS, THEN, kind=Er)
    rows, owners = er.memory.columns["x"][: er.memory.filled], er.memory.columns["task"][: er.memory.filled]
    stripes = row_set(STRIPES.train.x)
    assert [int(owner) for owner in owners] == [0 if row_set(row[None]) <= stripes else 1 for row in rows]


@pytest.mark.parametrize(("kind", "most"), [(Gem, [4, 4]), (AGem, [12, 12])])
def test_a_memory_holds_no_more_of_a_task_that_grew_also_after_a_restart(kind, most, tmp_path):
    stream = Benchmark("toys", (FIRST, DOTS, THEN, replace(STRIPES, part=True), replace(DOTS, part=True)))
    settings = {"memory_size": 4, "memory_per": "task" if kind is Gem else "class"}
    whole, stopped, resumed = (learner_of(kind, **settings) for _ in range(3))
    run(whole, stream)
    list(islice(episodes(stopped, stream, tmp_path), 3))
    run(resumed, stream, tmp_path)
    assert sorted(len(batch.y) for batch in whole.memory.by_task()) == most
    assert (resumed.memory.x.equal(whole.memory.x), resumed.memory.y.equal(whole.memory.y)) == (True, True)
    assert resumed.arrived == whole.arrived


def test_an_open_softmax_inherits_what_a_head_knew_before_its_task_grew(monkeypatch):
    zoo = zoo_of(FIRST, DOTS, grow=WarmStart(open_softmax=True), tasks_per_episode=2)
    last, begun = zoo.members[-1].net, []
    fit = ModelZoo.fit
    monkeypatch.setattr(
        ModelZoo,
        "fit",
        lambda zoo, net, *a, **o: begun.append(net.head("stripes").weight.clone()) or fit(zoo, net, *a, **o),
    )
    zoo.learn(THEN)
    assert torch.equal(begun[0][:2], last.head("stripes").weight)


def test_a_newest_member_that_answers_alone_does_so_for_a_task_that_grew():
    zoo = zoo_of(FIRST, THEN, grow=WarmStart(supersede=True))
    assert [net for net, _ in zoo.voters("stripes")] == [zoo.members[-1].net]


def test_members_that_know_fewer_classes_are_heard_and_judged_among_all():
    zoo = zoo_of(FIRST, DOTS, THEN, WAVES, tasks_per_episode=3, recipe=TINY)
    heard = list(collect_outputs(zoo, [STRIPES, DOTS]))
    together = zoo.evaluate([STRIPES, DOTS])
    assert accuracy_by_rule(heard)["mean"] == pytest.approx(sum(together.values()) / 2)
    assert member_stats(heard, flips=False).zoo == pytest.approx(sum(together.values()) / 2)
    assert heard[0].plain.shape == (4, len(STRIPES.test), 3)


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_task_of_an_input_is_inferred_where_tasks_grew(evidence):
    zoo = zoo_of(FIRST, DOTS, THEN)
    guesses = WhichTask(zoo, EVIDENCE[evidence]).guess(STRIPES.test.x)
    assert guesses.count("stripes") > 15


def test_a_benchmark_comes_in_parts_that_a_seed_deals():
    whole = toy_benchmark(3, per_class=2, test_per_class=2)
    three = Benchmark("toys", tuple(pictures(task.name, 3, 2, test_per_class=2) for task in whole))
    stream, other = split_into_arrivals(three, (2, 1), seed=0), split_into_arrivals(three, (2, 1), seed=1)
    assert [len(task.classes) for name in ("stripes", "dots", "rings") for task in stream if task.name == name] == [
        2,
        1,
    ] * 3
    assert stream.options == {"arrivals": [2, 1], "arrivals_seed": 0}
    assert [task.name for task in stream] != [task.name for task in other]
    for task in join_parts(stream).values():
        original = next(each for each in three if each.name == task.name)
        assert {*task.classes} == {*original.classes}
        for split in ("train", "test"):
            rows, origin = getattr(task, split), getattr(original, split)
            named = {(row.numpy().tobytes(), task.classes[label]) for row, label in zip(rows.x, rows.y, strict=True)}
            assert named == {
                (row.numpy().tobytes(), original.classes[label]) for row, label in zip(origin.x, origin.y, strict=True)
            }


@pytest.mark.parametrize(
    ("sizes", "words"), [((1, 2), "2 or more"), ((3,), "as 3\\+1\\+1"), ((2, 2), "4 classes, but task 'stripes' has 3")]
)
def test_arrivals_that_are_none_are_refused(sizes, words):
    with pytest.raises(SettingsError, match=words):
        split_into_arrivals(Benchmark("toys", (STRIPES,)), sizes)


DEALT = {"classes_per_task": 5, "arrivals": (3, 1, 1), "samples_per_class": 4}


def test_a_benchmark_in_parts_is_described_named_found_again_and_told_apart():
    stream = by_name("split-digits", **DEALT, arrivals_seed=3)
    spec = RunSpec("er", "split-digits", {"epochs": 1}, {**DEALT, "arrivals_seed": 3})
    assert spec.options == stream.options == options_of(stream)
    assert fingerprint(spec.tasks()) == fingerprint(stream)
    assert (
        spec.name
        == "er-split-digits-epochs1-classespertask5-samplesperclass4-samplesseed0-arrivals3+1+1-arrivalsseed3-s0"
    )
    assert spec.command.endswith("--arrivals 3 1 1 --arrivals-seed 3")
    other = RunSpec("er", "split-digits", {"epochs": 1}, {**DEALT, "arrivals_seed": 4})
    assert spec.identity != other.identity
    assert spec.family == other.family != RunSpec("er", "split-digits", {"epochs": 1}, {"classes_per_task": 5}).family
    assert fingerprint_of_data(stream) == fingerprint_of_data(other.tasks())
    header = {"benchmark": "split-digits", "settings": {"benchmark": stream.options}, "data": fingerprint(stream)}
    assert fingerprint(reload_benchmark(header, None, "a run")) == fingerprint(stream)
    with pytest.raises(DataError, match="comes in parts"):
        _ = stream[:2]


def options_of(stream):
    return {**stream.options, "arrivals": [3, 1, 1], "samples_per_class": 4}


def test_a_run_tells_the_accuracy_of_tasks_as_they_are_after_each_arrival_and_old_classes_apart(tmp_path):
    stream = Benchmark("growing", (FIRST, DOTS, THEN, WAVES))
    zoo = zoo_of(replay=0.5)
    results = run(zoo, stream, tmp_path)
    assert (results.tasks, results.arrivals) == (["stripes", "dots", "waves"], ["stripes", "dots", "stripes", "waves"])
    assert [len(row) for row in results.accuracy] == [1, 2, 2, 3]
    assert results.train_samples == [24, 24, 24]
    assert results.accuracy[-1] == [
        accuracy(zoo.predict_proba(t.test.x, t.name), t.test.y) for t in (STRIPES, DOTS, WAVES)
    ]
    said = zoo.predict_proba(STRIPES.test.x, "stripes").argmax(dim=1)
    old = STRIPES.test.y < 2
    apart = [float((said[rows] == STRIPES.test.y[rows]).double().mean()) for rows in (old, ~old)]
    assert results.episodes[-1].by_arrival == {"stripes": tuple(apart)}
    assert [{*episode.by_arrival} for episode in results.episodes] == [set(), set(), {"stripes"}, {"stripes"}]
    assert results.learned == [results.accuracy[2][0], results.accuracy[1][1], results.accuracy[3][2]]
    assert Results.load(tmp_path).summary() == results.summary()
    assert RunFolder(tmp_path).header()["arrivals"] == results.arrivals


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ModelZoo, {"replay": 0.5, "tasks_per_episode": 2}),
        (ModelZoo, {"replay": 0.0}),
        (ModelZoo, {"grow": WarmStart(), "replay": 0.5, "tasks_per_episode": 2}),
        (Isolated, {"replay": 0.5}),
    ],
)
def test_a_method_grows_and_a_run_that_is_cut_on_the_way_ends_as_one_that_was_not(kind, settings):
    check_growth(Subject(kind, settings))


def test_nets_of_parts_are_not_trained_ahead_of_what_they_need():
    stream = Benchmark("growing", (FIRST, DOTS, THEN))
    with pytest.raises(DataError, match="isolated nets keep none of its rows"):
        run(learner_of(Isolated), stream)  # before any work
    alone, together = (run(learner_of(Isolated, replay=1.0), stream, workers=workers) for workers in (1, 2))
    assert alone.accuracy == together.accuracy


def test_the_page_about_growing_says_what_runs_and_names_the_methods_that_can():
    page = (Path(__file__).parents[1] / "docs" / "growing.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, {})
    (sentence,) = re.findall(r"^The tasks of .*? grow,", page, re.MULTILINE | re.DOTALL)
    able = {name for name, kind in METHODS.items() if kind.tasks_grow}
    assert {*re.findall(r"`([a-z-]+)`", sentence)} | {"isolated"} == able
