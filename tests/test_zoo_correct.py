"""Rows of a zoo are corrected or deleted, heads are fitted again to more rows, and both can be undone."""

import re
from dataclasses import replace
from hashlib import sha256

import pytest
import torch

import zoolearn
from test_zoo_cli import said
from test_zoo_grow import EGRET, FIRST, OTHERS, garden, saved
from toys import contents, pictures
from zoolearn import cli
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.errors import DataError
from zoolearn.training.fit import run_to_end
from zoolearn.zoo.changes import corrections, forgetting_rows
from zoolearn.zoo.changes.corrections import Correction, StoredRow
from zoolearn.zoo.disk.arrivals import Arrival, TaskEntry
from zoolearn.zoo.intake.intake import Reading
from zoolearn.zoo.learning.episode import find_features, iter_episode
from zoos import alike, answers, stray_files

pytestmark = pytest.mark.slow  # zoos are grown

MORE = replace(pictures("garden", seed=5, per_class=3), classes=("heron", "stork"))
GRID = [{}, {"replay": 0.5}, {"grow": WarmStart()}]


@pytest.mark.parametrize("settings", GRID, ids=["paper", "replay", "warm"])
def test_heads_alone_are_fitted_to_more_rows_on_features_that_stay_and_undone(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    old, before = answers(zoo, [*OTHERS, FIRST]), zoo.members
    learned = zoo.learn_from("garden", saved(tmp_path, "more.npz", MORE), heads_only=True)
    assert learned.trained_on == ("garden",)
    member = zoo.members[-1]
    source = zoo.index.member(member.refits)
    assert source in before
    assert (member.heads, {*member.saw}) == (("garden",), {*source.tasks} - {"garden"})
    first, second = (zoo.net(number).backbone.state_dict() for number in (source.number, member.number))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert alike({"dots": answers(zoo, OTHERS)["dots"]}, {"dots": old["dots"]}), "other tasks are as they were"
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    zoo.learn(pictures("rings"))
    zoo.undo()
    zoo.undo()
    assert alike(answers(zoo, [*OTHERS, FIRST]), old)
    assert zoo.members == before


def test_a_second_head_is_fitted_on_the_features_of_a_member_that_was_trained(tmp_path):
    zoo = garden(tmp_path / "zoo")
    again = replace(pictures("garden", seed=6, per_class=3), classes=MORE.classes)
    for name, rows in (("more.npz", MORE), ("again.npz", again)):
        zoo.learn_from("garden", saved(tmp_path, name, rows), heads_only=True)
    first, second = zoo.members[-2:]
    assert second.refits == first.refits < first.number
    assert find_features(zoo.index, "garden").number == first.refits


def test_a_refitted_head_goes_with_the_features_that_a_forgotten_task_has_shaped(tmp_path):
    zoo = garden(tmp_path / "zoo", tasks_per_episode=3)
    zoo.learn_from("garden", saved(tmp_path, "more.npz", MORE), heads_only=True)
    member = zoo.members[-1]
    shaped = member.saw[0]
    zoo.rename(shaped, "under another name")
    zoo.forget("under another name")
    again = zoo.index.member(member.number)
    assert {shaped, "under another name"}.isdisjoint(again.saw)
    first, second = (zoo.net(number).backbone.state_dict() for number in (again.refits, again.number))
    assert all(torch.equal(first[name], second[name]) for name in first), "of the member as it is now"
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


@pytest.mark.parametrize("replay", [1.0, 0.5, 0.0])
def test_a_dry_run_of_heads_alone_says_what_would_be_fitted_and_changes_nothing(tmp_path, capsys, replay):
    zoo = garden(tmp_path / "zoo", replay=replay)
    before = contents(zoo.path)
    line = ["learn", str(zoo.path), "garden", saved(tmp_path, "more.npz", MORE), "--heads-only", "--dry-run"]
    told = " ".join(said(capsys, *line).split())
    how = "fitting a head to" if replay else "making a head of the statistics of"
    assert how in told
    assert "nothing was learned (--dry-run)" in told
    assert contents(zoo.path) == before


def test_a_dry_run_that_meets_no_plan_stops_before_anything_is_written(tmp_path, monkeypatch):
    def without_plan(*arguments, **options):
        yield from ()
        return run_to_end(iter_episode(*arguments, **options))

    zoo = garden(tmp_path / "zoo")
    before = contents(zoo.path)
    monkeypatch.setattr("zoolearn.zoo.zoo.iter_episode", without_plan)
    with pytest.raises(RuntimeError, match="came to its end without a plan, where --dry-run stops"):
        cli.main(["learn", str(zoo.path), "garden", saved(tmp_path, "more.npz", MORE), "--heads-only", "--dry-run"])
    assert contents(zoolearn.open(zoo.path).path) == before


def test_epochs_are_refused_where_they_would_not_count(tmp_path, capsys):
    path = str(garden(tmp_path / "zoo").path)
    line = ["learn", path, "garden", saved(tmp_path, "more.npz", MORE), "--heads-only", "--epochs", "2"]
    assert "with heads_only (--heads-only) nothing is trained; leave one out" in " ".join(
        said(capsys, *line, code=1).split()
    )
    (tmp_path / "right.csv").write_text("row,label\n1,\n")
    line = ["correct", path, "garden", str(tmp_path / "right.csv"), "--purge", "--yes", "--epochs", "2"]
    assert "--purge trains members again for as many as they had" in " ".join(said(capsys, *line, code=1).split())


@pytest.mark.parametrize("per_class", [13, 14])
def test_more_rows_for_a_head_alone_than_are_stored_are_noted(tmp_path, per_class):
    zoo = garden(tmp_path / "zoo")
    more = replace(pictures("garden", seed=5, per_class=per_class), classes=FIRST.classes)
    data = saved(tmp_path, "more.npz", more)
    work = zoo.iter_learn_from("garden", data, holdout=0.05, heads_only=True)
    (reading,) = [event for event in work if isinstance(event, Reading)]
    noted = [note for note in reading.notes if note.startswith("a head is fitted to ")]
    assert len(noted) == (sum(train for train, _ in reading.counts.values()) > len(FIRST.train))
    assert len(noted) == (per_class == 14), noted


def test_heads_alone_are_no_way_to_a_new_task_or_class(tmp_path):
    zoo = garden(tmp_path / "zoo")
    with pytest.raises(DataError, match="'park' is new, so no member has features for it"):
        zoo.learn_from("park", saved(tmp_path, "park.npz", FIRST), heads_only=True)
    with pytest.raises(DataError, match="class 'egret' is new"):
        zoo.learn_from("garden", saved(tmp_path, "egret.npz", EGRET), heads_only=True, new_classes=["egret"])
    assert stray_files(zoolearn.open(zoo.path)) == set()


def test_heads_alone_are_refused_before_data_is_read_and_new_classes_are_asked_about(tmp_path, capsys):
    zoo = garden(tmp_path / "zoo")
    with pytest.raises(DataError, match=r"task 'park' is new.*leave out --heads-only"):
        zoo.learn_from("park", tmp_path / "nothing here", heads_only=True)
    egret = str(saved(tmp_path, "egret.npz", EGRET))
    told = said(capsys, "learn", str(zoo.path), "garden", egret, "--heads-only", code=1)
    assert "class 'egret' is new in task 'garden'" in told
    assert "no terminal to ask on" not in told


@pytest.mark.parametrize("settings", GRID, ids=["paper", "replay", "warm"])
def test_labels_change_and_rows_go_by_an_episode_that_can_be_undone(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    old, files = answers(zoo, [*OTHERS, FIRST]), contents(zoo.path)
    rows = zoo.stored_rows("garden")
    kept, held = ([row for row in rows if row.side == side] for side in ("train", "test"))
    assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
    other, came = {"heron": "stork", "stork": "heron"}, {**zoo.tasks["garden"].arrived}
    zoo.correct("garden", {kept[0].number: other[kept[0].label], kept[2].number: None, held[1].number: None})
    task = zoo.task("garden")
    assert (len(task.train), len(task.test)) == (len(kept) - 1, len(held) - 1)
    assert task.classes[int(task.train.y[0])] == other[kept[0].label]
    for label, more in ((kept[0].label, -1), (other[kept[0].label], 1), (kept[2].label, -1)):
        came[label] += more
    assert zoo.tasks["garden"].arrived == came, "a row counts for the class that it has, and not if it is deleted"
    assert zoo.scores("garden").rows == len(held) - 1
    assert zoo.index.weight(zoo.index.voters("garden")[0], "garden") < zoo.index.voters("garden")[0].share["garden"]
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert alike(answers(zoo, [*OTHERS, FIRST], at=3), old)
    zoo.learn(EGRET, new_classes=["egret"])
    zoo.correct("garden", {1: None})
    assert zoo.tasks["garden"].rows_kept == len(zoo.task("garden").train)
    for _ in range(3):
        zoo.undo()
    assert alike(answers(zoo, [*OTHERS, FIRST]), old)
    now = contents(zoo.path)
    assert {
        name for name in {*files} | {*now} if files.get(name) != now.get(name) and not name.startswith("index/")
    } == {"zoo.json"}


def test_where_only_held_out_rows_change_the_task_is_measured_again_and_nothing_is_trained(tmp_path):
    zoo = garden(tmp_path / "zoo")
    before = zoo.members
    rows = [row for row in zoo.stored_rows("garden") if row.side == "test"]
    wrong = {row.number: "heron" for row in rows if row.label == "stork"}
    zoo.correct("garden", wrong)
    assert zoo.members == before
    assert zoo.scores("garden").of_class("stork").rows == 0
    zoo.undo()
    assert zoo.scores("garden").of_class("stork").rows == len(wrong)


def test_a_correction_shows_what_it_did_to_its_task_and_to_others(tmp_path, capsys):
    zoo = garden(tmp_path / "zoo")
    before = {name: zoo.measure(name).accuracy for name in zoo.tasks}
    (tmp_path / "right.csv").write_text("row,label\n1,\n")
    told = said(capsys, "correct", str(zoo.path), "garden", str(tmp_path / "right.csv"), "--epochs", "1")
    zoo = zoolearn.open(zoo.path)
    assert re.search(rf"^its answers: .* points .* on {len(FIRST.test)} rows held out before", told, re.MULTILINE)
    for name in ("stripes", "dots"):
        (line,) = (line.split() for line in told.splitlines() if line.startswith(f"{name} "))
        assert line[1:3] == [f"{before[name]:.1%}", f"{zoo.measure(name).accuracy:.1%}"]
    assert f"forward: {zoo.measure('garden').accuracy:.1%} on the corrected task" in told


def test_rows_are_listed_edited_and_found_by_the_paths_that_they_were_learned_from(tmp_path, capsys):
    path = garden(tmp_path / "zoo").path
    said(capsys, "learn", str(path), "garden", saved(tmp_path, "more.npz", MORE), "--epochs", "1")
    table = said(capsys, "correct", str(path), "garden", "--list")
    assert "more.npz[0]" in table
    assert "\r" not in table, "cut and grep take lines as they are"
    (tmp_path / "right.csv").write_text(f"row;label\n{tmp_path}/more.npz[0];stork\nmore.npz[1];\n")
    told = said(capsys, "correct", str(path), "garden", str(tmp_path / "right.csv"), "--epochs", "1")
    assert "garden: 2 of its rows change: 1 to stork, 1 deleted" in " ".join(told.split())
    assert "corrected" in said(capsys, "log", str(path))
    again = said(capsys, "correct", str(path), "garden", "--list")
    assert "more.npz[1]" not in again
    (tmp_path / "list.csv").write_text(again)
    assert "nothing would change" in said(capsys, "correct", str(path), "garden", str(tmp_path / "list.csv"), code=1)


class Compared(str):
    """A name that counts how often it is compared."""

    times = 0

    def endswith(self, *end):
        Compared.times += 1
        return super().endswith(*end)

    def __eq__(self, other):
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


ROWS = 200


def entry_of(rows=None):
    arrival = Arrival("garden", 1, ("heron", "stork"), (), {}, rows, None)
    return TaskEntry("garden", (arrival,))


@pytest.mark.parametrize("end", ["/data/{}/image.png", "{}/image.png", "image-{}.png"])
def test_rows_are_found_by_path_without_comparing_each_with_all(monkeypatch, end):
    monkeypatch.setattr(Compared, "times", 0)
    path = "/data/{}/image.png" if "/" in end else "/data/image-{}.png"
    rows = [
        StoredRow(number, "train" if number <= 2 * ROWS else "test", number, Compared(path.format(number)), "heron")
        for number in range(1, 2 * ROWS + 2)
    ]
    monkeypatch.setattr(corrections, "list_rows", lambda *_: rows)
    correction = Correction.of(None, entry_of(), [(end.format(number), "stork") for number in range(1, ROWS + 1)])
    assert [row.number for row in correction.rows] == [*range(1, ROWS + 1)]
    assert Compared.times < 10 * ROWS


def test_a_path_that_several_rows_end_with_is_refused_and_a_whole_one_found_before_them(monkeypatch):
    paths = ["b/c.png", "a/b/c.png", "a/b/cc.png", "x/./c.png", None, "d.png"]
    rows = [StoredRow(place + 1, "train", place, path, "heron") for place, path in enumerate(paths)]
    rows.append(StoredRow(len(paths) + 1, "test", 0, "held.png", "heron"))
    monkeypatch.setattr(corrections, "list_rows", lambda *_: rows)

    def found(word):
        return [row.number for row in Correction.of(None, entry_of(), [(word, "stork")]).rows]

    assert [found(word) for word in ("b/c.png", "a/b/c.png", "cc.png", "./c.png", "d.png")] == [[1], [2], [3], [4], [6]]
    with pytest.raises(DataError, match=r"3 rows were learned from 'c\.png'; give numbers: 1, 2, 4"):
        found("c.png")
    for word in ("", ".", "/", ".png", "c.png/", "z/a/b/c.png", "/b/c.png"):
        with pytest.raises(DataError, match="no stored row of task 'garden' was learned from"):
            found(word)


def test_rows_of_files_are_found_without_comparing_each_with_all(monkeypatch, tmp_path):
    monkeypatch.setattr(Compared, "times", 0)
    (tmp_path / "same").write_bytes(b"same")
    (tmp_path / "twin").write_bytes(b"same")
    made_of = [(f"{number}.png", b"") for number in range(ROWS)] + [("moved.png", sha256(b"same").digest())]
    monkeypatch.setattr(forgetting_rows, "_list_origins", lambda _, rows: rows or [])
    words = [Compared(f"{number}.png") for number in range(ROWS)]
    files = [str(tmp_path / "same"), str(tmp_path / "twin")]
    found = forgetting_rows.find_file_rows(None, [entry_of(made_of)], [*words, *files])
    assert found == {"garden": {"train": frozenset(range(ROWS + 1)), "test": frozenset()}}
    assert Compared.times < 10 * ROWS


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"1": "otter"}, "unknown class 'otter'.*a correction brings no new class"),
        ({"999": "heron"}, "there is no row 999; task 'garden' has 1 to"),
        ({"nowhere.png": "heron"}, "no stored row of task 'garden' was learned from 'nowhere.png'"),
        (dict.fromkeys(range(1, 25), "heron"), "no row of class 'stork' would be left to train on"),
    ],
)
def test_what_cannot_be_corrected_is_named_and_nothing_changes(tmp_path, rows, message):
    zoo = garden(tmp_path / "zoo")
    before = contents(zoo.path)
    with pytest.raises(DataError, match=message):
        zoo.correct("garden", rows)
    assert contents(zoolearn.open(zoo.path).path) == before


@pytest.mark.parametrize("settings", GRID, ids=["paper", "replay", "warm"])
def test_no_byte_of_a_purged_row_is_left_and_the_zoo_is_as_if_it_had_never_come(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    zoo.learn(EGRET, new_classes=["egret"])
    zoo.correct("garden", {2: None})
    first = zoo.members[0]
    gone = next(row for row in zoo.stored_rows("garden") if row.label == "stork")
    row = zoo.task("garden").train.x[gone.place].clone().numpy().tobytes()
    wrong = next(row for row in zoo.stored_rows("garden") if row.side == "test")
    nets = {member.file for member in zoo.members if "garden" in member.heads}
    zoo.purge("garden", {gone.number: None, wrong.number: None})
    everything = contents(zoo.path)
    assert not [name for name, data in everything.items() if row in data]
    assert not [name for name in everything if any(net in name for net in nets)], "every weight that saw it is gone"
    assert zoo.members[0] == first, "who never saw the task is as it was"
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert stray_files(zoo) == set()
    assert {row.number for row in zoo.stored_rows("garden")} == {
        *range(1, zoo.tasks["garden"].rows_kept + zoo.tasks["garden"].rows_held_out + 1)
    }
    held = zoo.task("garden").test
    assert zoo.scores("garden").accuracy.value == float(
        (zoo.predict_proba(held.x, "garden").argmax(dim=1) == held.y).float().mean()
    )
    for at in (2, 3, 4, 5):
        assert torch.isfinite(zoo.predict_proba(FIRST.test.x, "garden", at=at)).all()
    zoo.learn(pictures("rings"))


def test_where_no_rows_are_kept_held_out_ones_are_purged_and_every_net_stays(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.0)
    zoo.learn(EGRET, new_classes=["egret"])
    nets = [member.file for member in zoo.members]
    row = zoo.stored_rows("garden")[0]
    gone = FIRST.test.x[row.place].numpy().tobytes()
    zoo.purge("garden", {row.number: None})
    assert not [name for name, data in contents(zoo.path).items() if gone in data]
    assert [member.file for member in zoo.members] == nets
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    zoo.learn(pictures("rings"))
    assert zoo.scores("garden").rows == len(FIRST.test) + len(EGRET.test) - 1


@pytest.mark.parametrize("settings", [*GRID, {"replay": 0.1}], ids=["paper", "replay", "warm", "little"])
def test_purging_held_out_rows_trains_nothing_again_and_no_other_answer_changes(tmp_path, settings, capsys):
    zoo = garden(tmp_path / "zoo", **settings)
    zoo.learn(EGRET, new_classes=["egret"])
    nets, saids = [member.file for member in zoo.members], answers(zoo, [*OTHERS, FIRST])
    counted = [arrival.statistics for arrival in zoo.index.arrivals]
    measures = {name: zoo.measure(name) for name in ("stripes", "dots")}
    row = next(row for row in zoo.stored_rows("garden") if row.side == "test")
    gone = zoo.task("garden").test.x[row.place].numpy().tobytes()
    (tmp_path / "gone.csv").write_text(f"row,label\n{row.number},\n")
    told = said(capsys, "correct", str(zoo.path), "garden", str(tmp_path / "gone.csv"), "--purge", "--yes")
    assert "nothing is trained again: only held-out rows change" in told
    assert "members trained again" not in told
    zoo = zoolearn.open(zoo.path)
    assert [member.file for member in zoo.members] == nets
    assert [arrival.statistics for arrival in zoo.index.arrivals] == counted, "they are of rows that are not kept"
    assert {name: zoo.measure(name) for name in ("stripes", "dots")} == measures
    assert alike(answers(zoo, OTHERS), {name: saids[name] for name in ("stripes", "dots")})
    assert not [name for name, data in contents(zoo.path).items() if gone in data]
    assert zoo.scores("garden").rows == len(FIRST.test) + len(EGRET.test) - 1
    assert run_to_end(zoo.verify()) == []
    zoo.learn(pictures("rings"))


@pytest.mark.parametrize("settings", [{}, {"replay": 0.5}], ids=["paper", "replay"])
def test_a_purge_tells_on_what_is_trained_again_and_what_that_cost_the_other_tasks(tmp_path, settings, capsys):
    zoo = garden(tmp_path / "zoo", **settings)
    before = {name: zoo.measure(name).accuracy for name in zoo.tasks}
    (tmp_path / "gone.csv").write_text("row,label\n1,\n")
    told = said(capsys, "correct", str(zoo.path), "garden", str(tmp_path / "gone.csv"), "--purge", "--yes")
    words = " ".join(told.split())
    assert ("retrained on the 50% of their tasks' rows that are kept, in about" in words) == (settings != {})
    zoo = zoolearn.open(zoo.path)
    shown = told[told.index("other task") :].splitlines()
    for name in ("stripes", "dots"):
        now = zoo.measure(name).accuracy
        (line,) = (line.split() for line in shown if line.startswith(f"{name} "))
        assert line[1] == f"{now:.1%}"
        assert float(line[2]) == pytest.approx(100 * (now - before[name]), abs=0.05)
    assert not any(line.startswith("garden ") for line in shown)


def test_members_of_before_a_purged_training_row_only_vote_again(tmp_path):
    zoo = garden(tmp_path / "zoo")
    zoo.learn(EGRET, new_classes=["egret"])
    rows = zoo.stored_rows("garden")
    late = next(row for row in rows if row.side == "train" and row.label == "egret")
    early = next(row for row in rows if row.side == "test" and row.label == "heron")
    saw = [member for member in zoo.members if "garden" in member.heads]
    _, cost = zoo.cost_of_purging("garden", {late.number: None, early.number: None})
    zoo.purge("garden", {late.number: None, early.number: None})
    same = {member.number for member in saw if zoo.index.member(member.number).file == member.file}
    assert same == {member.number for member in saw if member.episode < 4} == {2, 3}
    assert cost.retrained == (4,)
    assert run_to_end(zoo.verify()) == []


def test_a_purge_costs_what_the_members_took_that_saw_the_task_and_a_corrected_label_stays(tmp_path):
    zoo = garden(tmp_path / "zoo")
    row = next(row for row in zoo.stored_rows("garden") if row.side == "train" and row.label == "heron")
    _, cost = zoo.cost_of_purging("garden", {row.number: "stork"})
    saw = [member for member in zoo.members if "garden" in member.heads]
    assert cost.retrained == tuple(member.number for member in saw) == (2, 3)
    assert cost.seconds == pytest.approx(sum(member.seconds for member in saw))
    zoo.purge("garden", {row.number: "stork"})
    assert next(each for each in zoo.stored_rows("garden") if each.number == row.number).label == "stork"


@pytest.mark.parametrize("settings", [{}, {"replay": 0.0}], ids=["paper", "nothing"])
def test_a_row_cannot_have_arrived_as_a_class_that_came_later_but_is_corrected_to_it_and_stays_so(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    zoo.learn(EGRET, new_classes=["egret"])
    old = [row.number for row in zoo.stored_rows("garden") if row.label == "heron"]
    with pytest.raises(
        DataError, match=r"2 rows of task 'garden' came before class 'egret' did, .* correct without purging"
    ):
        zoo.purge("garden", {old[0]: "egret", old[1]: "egret", old[2]: None})
    zoo.correct("garden", {old[0]: "egret", old[-1]: "egret"})
    egrets = sorted(row.side for row in zoo.stored_rows("garden") if row.label == "egret")
    zoo.purge("garden", {old[1]: None, old[2]: "stork"})
    assert sorted(row.side for row in zoo.stored_rows("garden") if row.label == "egret") == egrets
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert len(zoo.scores("garden").classes) == 3
    for at in (2, 4):
        assert torch.isfinite(zoo.predict_proba(FIRST.test.x, "garden", at=at)).all()


def test_purging_asks_first(tmp_path, capsys):
    path = garden(tmp_path / "zoo").path
    (tmp_path / "gone.csv").write_text("row,label\n1,\n")
    line = ["correct", str(path), "garden", str(tmp_path / "gone.csv"), "--purge"]
    assert "add --yes" in said(capsys, *line, code=1)
    told = said(capsys, *line, "--yes")
    assert "members 2, 3" in " ".join(told.split())
    log = " ".join(said(capsys, "log", str(path)).split())
    assert "purged rows" in log
    assert "1 row changed or deleted permanently" in log
    with pytest.raises(DataError, match="nothing would change: 1 row is labelled like this in task 'garden'"):
        zoolearn.open(path).correct("garden", {1: zoolearn.open(path).stored_rows("garden")[0].label})
