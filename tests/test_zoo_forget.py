"""Forgetting: no byte of a task or of what was trained on it is left, and the rest is as if it had never been replayed."""

from dataclasses import replace

import pytest
import torch
from msgspec.structs import replace as changed

import zoolearn
from toys import TINY, contents, pictures
from zoolearn.beyond.temperature import apply_temperature
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.cli import main
from zoolearn.errors import SettingsError, UnknownTask
from zoolearn.methods.parts.weighing import uniform
from zoolearn.training.at_once import fit
from zoolearn.training.fit import run_to_end
from zoolearn.training.step import Step
from zoolearn.zoo.changes.pruning import delete_silenced
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.learning.recall import StoredVotes
from zoos import HAZY, TASKS, alike, answers, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown


def secrets(zoo, name: str) -> list[bytes]:
    """Bytes that must not survive: each stored row, and the tensors of each member that was trained on the task."""
    task = zoo.task(name)
    rows = [row.numpy().tobytes() for split in (task.train, task.test) for row in split.x]
    weights = [
        tensor.numpy().tobytes()
        for member in zoo.members
        if name in member.tasks
        for tensor in zoo.net(member.number).state_dict().values()
        if tensor.numel() > 8 and float(tensor.abs().sum()) > 0
    ]
    words = [name.encode(), *(label.encode() for label in task.classes)]
    return [secret[:48] for secret in rows + weights] + words


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("replay", [1.0, 0.5])
def test_no_byte_of_a_forgotten_task_or_of_weights_trained_on_it_is_left(tmp_path, drop, replay) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS, replay=replay)
    name = TASKS[3].name if drop else TASKS[1].name
    hidden = secrets(zoo, name)
    everything = b"".join(contents(zoo.path).values())
    assert sum(secret in everything for secret in hidden) == len(hidden), "the search finds them while they are there"
    zoo.forget(name, drop=drop)
    left = b"".join(path.read_bytes() for path in zoo.path.rglob("*") if path.is_file())
    assert [secret for secret in hidden if secret in left] == []
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert not stray_files(zoo)
    with pytest.raises(UnknownTask):
        zoo.predict(TASKS[0].test.x, name)


def test_forgetting_tells_how_many_members_are_trained_again_and_how_many_are_done(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS, weigh=uniform)
    again = len(zoo.cost_of_forgetting(TASKS[1].name).retrained)
    assert again > 1
    steps = [event for event in zoo.iter_forget(TASKS[1].name) if isinstance(event, Step)]
    assert {event.total for event in steps} == {again}
    assert [*dict.fromkeys(event.done for event in steps)] == [*range(again + 1)]


def test_forgetting_makes_the_index_again_as_often_in_a_zoo_of_more_tasks(tmp_path, monkeypatch) -> None:
    counts, made = [], Index.with_entries
    for tasks in (TASKS[:2], TASKS[:5]):
        zoo, calls = small_zoo(tmp_path / str(len(tasks)), tasks), []
        with monkeypatch.context() as patch:
            patch.setattr(Index, "with_entries", lambda index, *a, **k: calls.append(1) or made(index, *a, **k))  # noqa: B023
            zoo.forget(tasks[0].name)
        counts.append(len(calls))
    assert counts[1] <= counts[0]


def test_touched_members_are_retrained_with_their_seeds_on_the_rest(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS, weigh=uniform)
    before = {member.number: member for member in zoo.members}
    name = TASKS[1].name
    cost = zoo.forget(name)
    assert cost.retrained == tuple(number for number, old in before.items() if name in old.tasks and len(old.tasks) > 1)
    for member in zoo.members:
        old = before[member.number]
        assert member.tasks == tuple(task for task in old.tasks if task != name)
        if name not in old.tasks:
            assert member == old
            continue
        tasks = [zoo.task(task) for task in member.tasks]
        net = zoo.settings.learner({"mlp_100": None}).new_net(tasks, old.seed)
        fit(net, tasks, TINY, seed=old.seed)
        state = zoo.net(member.number).state_dict()
        assert all(torch.equal(tensor, state[key]) for key, tensor in net.state_dict().items())


@pytest.mark.parametrize("drop", [False, True])
def test_what_forgetting_cost_the_other_tasks_is_told(tmp_path, capsys, drop) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY, replay=0.5, weigh=uniform, tasks_per_episode=2)
    name = HAZY[0].name
    before = {task: zoo.measure(task).accuracy for task in zoo.tasks}
    remade = {task for member in zoo.members if name in member.tasks for task in member.tasks} - {name}
    assert remade
    main(["forget", str(zoo.path), name, "--yes", *["--drop"] * drop])
    said = capsys.readouterr().out
    assert ("on the 50% of their tasks' rows that are kept" in said) is not drop
    changes = {
        line.split()[0]: float(line.split()[2]) for line in said.partition("difference")[2].splitlines() if line.strip()
    }
    after = {task: zoolearn.open(zoo.path).measure(task).accuracy for task in before if task != name}
    assert changes == {task: round(100 * (after[task] - before[task]), 1) for task in remade}
    assert any(changes.values()), "or this shows nothing"


def test_what_forgetting_cost_is_found_with_the_votes_on_one_task_in_memory(tmp_path, monkeypatch) -> None:
    zoo, held = small_zoo(tmp_path / "zoo", TASKS, weigh=uniform), []

    class Watched(StoredVotes):
        def answer(self, task: str, *when: int) -> torch.Tensor:
            found = super().answer(task, *when)
            held.append({name for _, name in self.files})
            return found

    monkeypatch.setattr("zoolearn.zoo.learning.gate.StoredVotes", Watched)
    changes = zoo.forget(TASKS[1].name).changes
    assert len(changes) > 1
    assert held == [{name} for name in changes for _ in range(2)]


def test_with_limited_replay_a_retrained_member_votes_by_the_share_that_it_saw(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY, replay=0.5, weigh=uniform)
    name = HAZY[0].name
    before = {member.number: member for member in zoo.members}
    retrained = zoo.forget(name).retrained
    assert retrained
    for member in zoo.members:
        if member.number in retrained:
            assert member.share == dict.fromkeys(member.tasks, 0.5), "half of a task's rows are kept, the new one's too"
        else:
            assert member.share == before[member.number].share
    for task in HAZY[1:]:
        voters = zoo.index.voters(task.name)
        shares = [member.share[task.name] for member in voters]
        votes = [torch.softmax(zoo.net(member.number)(task.test.x, task.name), dim=1) for member in voters]
        mean = sum(share * said for share, said in zip(shares, votes, strict=True)) / sum(shares)
        said = apply_temperature(mean, zoo.temperature(task.name))
        assert torch.allclose(zoo.predict_proba(task.test.x, task.name), said, atol=1e-5)


def test_a_member_that_knew_nothing_else_is_removed_and_learning_goes_on(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], tasks_per_episode=1)
    cost = zoo.cost_of_forgetting(TASKS[1].name)
    assert (cost.removed, cost.retrained, cost.seconds) == ((2,), (), 0)
    before = answers(zoo)
    zoo.forget(TASKS[1].name)
    assert [member.number for member in zoo.members] == [1, 3]
    del before[TASKS[1].name]
    assert alike(answers(zoo), before), "what never saw the task is untouched"
    seeds = {member.seed for member in zoo.members}
    zoo.learn(TASKS[3])
    assert zoo.members[-1].seed not in seeds, "a seed is never used for two episodes"
    assert zoo.tasks[TASKS[3].name].episode == 4


def test_what_another_task_holds_too_stays_as_that_tasks(tmp_path) -> None:
    task = TASKS[0]
    zoo = small_zoo(tmp_path / "zoo", [task, replace(task, name="again"), TASKS[1]])
    assert zoo.cost_of_forgetting("again").kept_for_others == task.train.x.numel() + task.test.x.numel()
    zoo.forget("again")
    assert torch.equal(zoo.task(task.name).train.x, task.train.x)


def test_dropping_members_is_refused_where_it_would_silence_another_task(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    before = contents(zoo.path)
    with pytest.raises(SettingsError, match=f"no member answers for task '{TASKS[1].name}'; leave out --drop"):
        zoo.forget(TASKS[0].name, drop=True)
    assert contents(zoo.path) == before


def test_the_last_task_can_be_forgotten_and_the_zoo_begins_anew(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    zoo.forget(TASKS[0].name)
    assert not zoo.members
    zoo.learn(pictures("fresh"))
    assert list(zoo.tasks) == ["fresh"]
    assert zoo.undo() == "fresh"


def test_a_member_that_is_asked_for_fitted_heads_alone_is_retrained(tmp_path) -> None:
    grow = WarmStart(refit_heads=False)
    zoo = small_zoo(tmp_path / "zoo", TASKS, grow=grow, tasks_per_episode=2)
    third = zoo.members[2]
    (fitted,) = third.fitted
    other = next(name for name in third.tasks if name != "rings")
    with zoo.folder.begin_change() as index:
        members = [changed(member, silent=tuple(member.share)) for member in index.members]
        members[2] = changed(members[2], silent=third.tasks)
        members[3] = changed(members[3], silent=(fitted,))
        pruned = delete_silenced(index.with_entries(members=members))
        zoo.folder.commit(replace(pruned, generation=pruned.generation + 1))
    zoo = zoolearn.open(zoo.path)
    assert [(member.number, set(member.share)) for member in zoo.members] == [
        (3, {fitted}),
        (4, {"rings", "waves", other}),
    ]
    assert zoo.cost_of_forgetting(other).retrained == (3, 4)
    with pytest.raises(SettingsError, match=r"no member answers for task '.*'; leave out --drop"):
        zoo.cost_of_forgetting(other, drop=True)
    zoo.forget(other)
    assert [(member.number, set(member.share)) for member in zoo.members] == [(3, {fitted}), (4, {"rings", "waves"})]
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_undo_after_forgetting_takes_back_the_newest_task_that_is_left(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3])
    zoo.forget(TASKS[2].name)
    assert zoo.undo() == TASKS[1].name
    assert list(zoo.tasks) == [TASKS[0].name]
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_the_log_keeps_that_something_was_done_and_nothing_of_the_forgotten_task(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3])
    name, before = TASKS[1].name, zoo.index.log
    assert any(line.task == name and "rows kept" in line.detail for line in before)
    zoo.forget(name)
    *rest, last = zoo.index.log
    assert [(line.when, line.did) for line in rest] == [(line.when, line.did) for line in before]
    assert [(line.task, line.detail) for line in rest] == [
        (None, "") if line.task == name else (line.task, line.detail) for line in before
    ]
    assert (last.did, last.task, last.detail) == ("forgot a task", None, "")


def test_history_is_measured_again_where_members_changed(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY)
    before = [episode.measures for episode in zoo.index.episodes]
    zoo.forget(HAZY[1].name)
    rest = [{name: measure for name, measure in known.items() if name != HAZY[1].name} for known in before]
    assert [episode.measures for episode in zoo.index.episodes] != rest, "what the others say is no longer the same"
    for episode in zoo.index.episodes:
        for name, measure in episode.measures.items():
            task = zoo.task(name)
            said = zoo.predict_proba(task.test.x, name, at=episode.number)
            assert measure.accuracy == zoolearn.accuracy(said, task.test.y)
