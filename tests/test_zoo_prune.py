"""Pruning: the fewest members that keep a task's accuracy, within a limit, reversible until it is committed."""

from dataclasses import replace

import pytest
import torch
from msgspec.structs import replace as changed

import zoolearn
from toys import contents
from zoolearn.cli.prune import list_costly
from zoolearn.errors import DataError, SettingsError, UnknownTask
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.changes.pruning import (
    Pruning,
    TaskPruning,
    TaskVotes,
    choose_by_budget,
    choose_by_count,
    choose_by_loss,
)
from zoolearn.zoo.distilling import iter_distil_zoo
from zoolearn.zoo.learning.episode import measure, now
from zoolearn.zoo.learning.recall import load_learner
from zoos import HAZY, TASKS, alike, answers, index_files, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown


@pytest.fixture
def zoo(tmp_path):
    return small_zoo(tmp_path / "zoo", TASKS)


def test_pruning_is_reversible_until_it_is_committed(zoo) -> None:
    before, files = answers(zoo), set(contents(zoo.path)) - index_files(zoo)
    report = zoo.prune(loss=0.2)
    assert report.members_after < report.members_before == 4
    assert not alike(answers(zoo), before)
    assert set(contents(zoo.path)) - index_files(zoo) == files
    assert alike(answers(zoo, at=4), before), "the past is asked as it was"
    zoo.unprune()
    assert alike(answers(zoolearn.open(zoo.path)), before)
    zoo.prune(loss=0.2)
    pruned = answers(zoo)
    assert zoo.commit_pruning() == report.members_before - report.members_after
    assert alike(answers(zoolearn.open(zoo.path)), pruned)
    assert sum(member.bytes for member in zoo.members) == report.bytes_after
    assert not stray_files(zoo)
    assert run_to_end(zoo.verify()) == []


@pytest.mark.parametrize(("loss", "replay"), [(0.0, 1.0), (0.3, 1.0), (0.05, 0.5)])
def test_members_are_chosen_by_one_half_of_the_rows_and_the_report_tells_the_accuracy_on_the_other(
    tmp_path, loss, replay
) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY, replay=replay)
    before = answers(zoo, HAZY)
    report = zoo.prune(loss=loss)
    after = answers(zoolearn.open(zoo.path), HAZY)
    assert sum(task.after for task in report.tasks.values()) < sum(task.before for task in report.tasks.values())
    halves = []
    for task in HAZY:
        told, y = report.tasks[task.name], task.test.y
        assert told.after == len(zoo.index.voters(task.name))
        chosen, unseen = (
            [zoolearn.accuracy(said[task.name][half], y[half]) for said in (before, after)]
            for half in (slice(0, None, 2), slice(1, None, 2))
        )
        assert (told.unseen_before, told.unseen_after) == tuple(unseen)
        assert chosen[1] >= chosen[0] - loss - 1e-9, "the half that chooses loses no more than was allowed"
        whole = [zoolearn.accuracy(said[task.name], y) for said in (before, after)]
        assert [told.accuracy_before, told.accuracy_after] == whole
        assert zoo.measure(task.name).accuracy == whole[1]
        halves.append((chosen, unseen))
    assert any(chosen[1] != unseen[1] for chosen, unseen in halves), "the halves can be told apart"
    assert any(max(unseen) < 1 for _, unseen in halves)


def mean(votes) -> torch.Tensor:
    return torch.stack(list(votes.values())).mean(dim=0)


def test_who_is_silent_has_no_say_in_what_the_zoo_teaches_or_learns(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY)
    loud = load_learner(zoo.folder, zoo.index, lambda member: zoo.net(member.number), zoo.names)
    zoo.prune(loss=0.3)
    assert any(member.silent for member in zoo.members)
    learner = load_learner(zoo.folder, zoo.index, lambda member: zoo.net(member.number), zoo.names)
    for task in HAZY:
        votes = zoo.votes(task.test.x, task.name)
        assert torch.allclose(learner.predict_proba(task.test.x, task.name), mean(votes), atol=1e-6)
        kept = learner.kept[task.name].train
        labels = mean(zoo.votes(kept.x, task.name)).gather(1, kept.y[:, None])
        assert learner.train_votes[task.name].loss == pytest.approx(-float(labels.double().log().mean()), rel=1e-4)
    assert any(learner.train_votes[task.name].loss != loud.train_votes[task.name].loss for task in HAZY)


def test_a_zoo_with_silent_members_is_distilled_as_one_from_which_they_are_gone(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY)
    zoo.prune(loss=0.3)
    silent = run_to_end(iter_distil_zoo(zoo, tmp_path / "from silent"))
    assert zoo.commit_pruning() > 0
    gone = run_to_end(iter_distil_zoo(zoo, tmp_path / "from gone"))
    assert all(
        torch.allclose(said, answers(gone, HAZY)[name], atol=1e-5) for name, said in answers(silent, HAZY).items()
    )


def test_learning_undoing_and_forgetting_go_on_after_pruning(zoo, tmp_path) -> None:
    zoo.undo()
    zoo.prune(loss=0.2)
    zoo.learn(TASKS[3])
    assert zoo.members[-1].silent == ()
    zoo.commit_pruning()
    zoo.forget(TASKS[1].name)
    assert not any(TASKS[1].name in member.tasks for member in zoo.members), "also those that no longer spoke for it"
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_who_is_silent_stays_so_when_it_is_trained_again_without_a_forgotten_task(zoo) -> None:
    last = zoo.members[-1]
    _, quiet, forgotten = last.tasks
    with zoo.folder.begin_change() as index:
        members = [changed(each, silent=(quiet,)) if each == last else each for each in index.members]
        zoo.folder.commit(index.with_entries(members=members).with_log("pruned", now()))
    zoo.forget(forgotten)
    again = zoo.index.member(last.number)
    assert (again.tasks, again.silent) == (tuple(name for name in last.tasks if name != forgotten), (quiet,))


def test_undo_after_pruning_measures_what_is_left(zoo) -> None:
    with zoo.folder.begin_change() as index:
        first, *rest = index.members
        pruned = index.with_entries(members=[changed(first, silent=tuple(first.share)), *rest])
        zoo.folder.commit(pruned.with_measures(measure(zoo.folder, pruned, [*pruned.tasks])).with_log("pruned", now()))
    before = zoo.index.truncate(len(zoo.index.episodes) - 1).measures
    zoo.undo()
    assert zoo.index.measures == measure(zoo.folder, zoo.index, [*zoo.tasks])
    assert zoo.index.measures != before, "or this shows nothing"


def test_an_episode_whose_elders_were_pruned_for_good_cannot_be_undone(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    size = zoo.members[0].bytes
    zoo.prune(budget=size * 1.5 / 1e6)
    zoo.commit_pruning()
    assert [member.number for member in zoo.members] == [2]
    with pytest.raises(DataError, match="pruned permanently"):
        zoo.undo()


def test_an_episode_whose_elders_are_silent_can_be_undone_once_they_speak_again(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    zoo.prune(budget=zoo.members[0].bytes * 1.5 / 1e6)
    with pytest.raises(DataError, match=r"zoo prune .*zoo --restore"):
        zoo.undo()
    zoo.unprune()
    assert zoo.undo() == TASKS[1].name


def test_a_past_whose_members_are_all_gone_is_told(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    zoo.prune(budget=zoo.members[0].bytes * 1.5 / 1e6)
    zoo.commit_pruning()
    task = TASKS[0]
    with pytest.raises(
        UnknownTask, match="no member that answered for task 'stripes' as of episode 1 is left; ask as of 2"
    ):
        zoo.predict_proba(task.test.x, task.name, at=1)
    assert alike(answers(zoo, TASKS[:1], at=2), answers(zoo, TASKS[:1]))


def test_a_zoo_that_has_grown_meanwhile_is_pruned_as_it_is_now(tmp_path) -> None:
    early = small_zoo(tmp_path / "zoo", [])
    for task in TASKS[:2]:
        zoolearn.open(early.path).learn(task)
    report = early.prune()
    assert report.members_before == 2
    assert report.milliseconds_per_member > 0


def test_limits_are_kept_or_refused_with_what_is_possible(zoo) -> None:
    sizes = [member.bytes for member in zoo.members]
    report = zoo.prune(budget=sum(sizes[:3]) / 1e6 * 1.05)
    assert report.bytes_after <= sum(sizes[:3]) * 1.05
    with pytest.raises(SettingsError, match="answering every task takes"):
        zoo.prune(budget=min(sizes) / 2e6)
    with pytest.raises(SettingsError, match="a single member takes"):
        zoo.prune(latency=1e-9)
    report = zoo.prune(latency=report.milliseconds_per_member * 1000)
    assert all(task.after <= task.before for task in report.tasks.values())
    with pytest.raises(SettingsError, match="prune by one of them"):
        zoo.prune(loss=0.1, budget=3)
    with pytest.raises(SettingsError, match="loss is 50; it is a share"):
        zoo.prune(loss=50)


def votes(*members: list[int], labels: list[int]) -> TaskVotes:
    said = {number: torch.eye(3)[torch.tensor(row)] for number, row in enumerate(members, start=1)}
    return TaskVotes(said, dict.fromkeys(said, 1.0), torch.tensor(labels), ("one", "two", "three"))


def test_greedy_selection_takes_the_best_and_those_that_others_need() -> None:
    labels = [0, 1, 2, 0, 1, 2, 0, 1]
    right, wrong = labels, [2, 2, 0, 1, 0, 0, 1, 0]
    only = {"a": votes(wrong, right, wrong, labels=labels)}
    assert choose_by_loss(only, 0.0) == {"a": {2}}
    both = {"a": votes(right, right, right, labels=labels), "b": votes(wrong, wrong, right, labels=labels)}
    one = {"b": replace(both["b"], votes={3: both["b"].votes[3]}), "a": both["a"]}
    assert choose_by_loss(one, 0.0) == {"a": {3}, "b": {3}}
    assert [len(found) for found in choose_by_count(both, 3, 1.0, 0.1).values()] == [1, 1], "more than one adds nothing"


def test_a_budget_costs_the_least_accuracy() -> None:
    labels = [0, 1, 2, 0, 1, 2, 0, 1]
    tasks = {"a": votes(labels, [2] * 8, [1] * 8, labels=labels)}
    assert choose_by_budget({1: 10, 2: 10, 3: 10}, tasks, 10) == {"a": {1}}
    nearly = [*labels[:-2], 1, 1]
    both = {"a": votes(labels, [2] * 8, labels=labels), "b": votes(nearly, labels, labels=labels)}
    assert choose_by_budget({1: 10, 2: 10}, both, 10) == {"a": {1}, "b": {1}}, "the losses of all tasks count together"


def test_a_task_that_lost_more_than_it_may_on_rows_that_did_not_choose_is_named():
    kept, lost = (TaskPruning(3, 1, 0.9, 0.9, 0.88, after) for after in (0.876, 0.5))
    pruning = Pruning({"kept": kept, "lost": lost}, 3, 1, 3000, 1000, 0.1)
    (told,) = list_costly(pruning, 0.005)
    assert told == "! lost lost 38.0 points on the rows that did not choose, more than the 0.5 allowed"
    assert list_costly(pruning, 0.4) == []
