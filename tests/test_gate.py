"""An episode says what it did to every task, as far as the held-out rows can tell, and is taken back where asked to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace as changed

import zoolearn
from archives import files, zipped
from servers import serving
from test_serve_learn import events
from test_zoo_cli import said
from toys import contents, pictures
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.errors import SettingsError
from zoolearn.zoo import Zoo
from zoolearn.zoo.learning.episode import now
from zoolearn.zoo.learning.gate import find_worse, smallest_loss
from zoolearn.zoo.learning.scores import Change
from zoos import HAZY, TASKS, alike, answers, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown

STRIPES = pictures(test_per_class=30)


def fading_zoo(folder: Path) -> Zoo:
    """A zoo whose next member learns nothing and outvotes the one that knows stripes."""
    zoo = small_zoo(folder, [STRIPES])
    (member,) = zoo.members
    recipe = {**zoo.settings.recipe, "lr": 1e-9}
    settings = replace(zoo.settings, recipe=recipe)
    faded = changed(member, share={"stripes": 1e-6})
    with zoo.folder.begin_change() as index:
        zoo.folder.commit(replace(index.with_entries(members=[faded]), settings=settings).with_log("faded", now()))
    return zoolearn.open(folder)


def test_a_change_is_seen_only_where_it_is_beyond_chance():
    assert Change(gained=0, lost=4, rows=20).difference == "cannot be seen"
    assert Change(gained=0, lost=5, rows=20).difference == "worse"
    assert Change(gained=60, lost=30, rows=1000).difference == "better"
    assert Change(gained=60, lost=55, rows=1000).difference == "cannot be seen"
    assert Change(gained=0, lost=0, rows=20).difference == "none"
    lost = Change(gained=0, lost=20, rows=20)
    assert (lost.value, lost.low) == (-1.0, -1.0)
    assert lost.high < -0.7


def test_the_interval_of_a_change_holds_the_truth_in_19_of_20_cases():
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(60, [0.1, 0.15, 0.75], 2000)[:, :2].tolist()
    changes = [Change(gained, lost, 60) for gained, lost in drawn]
    held = [change.low <= -0.05 <= change.high for change in changes]
    assert 0.94 < np.mean(held) < 0.98


def test_a_loss_within_what_is_allowed_or_within_chance_is_let_pass():
    lost = {"birds": Change(gained=0, lost=30, rows=1000)}  # 3 points, 1.9 to 4.2 of them with 95 % certainty
    assert find_worse(lost, None) == ()
    assert find_worse(lost, 0.01) == ("birds",)
    assert find_worse(lost, 0.02) == ()
    many = lost | {f"task {number}": Change(0, 0, 1000) for number in range(300)}
    assert find_worse(many, 0.017) == (), "of many that are looked at, one is that far off by chance"
    assert find_worse(lost, 0.017) == ("birds",)
    assert smallest_loss(1000, 0.01, looks=300) > smallest_loss(1000, 0.01, looks=1)


def test_learning_gives_the_change_of_each_task_that_the_new_member_speaks_for(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", HAZY[:2], tasks_per_episode=2)
    before = answers(zoo, HAZY)
    learned = zoo.learn(HAZY[2])
    after = answers(zoo, HAZY)
    (drawn,) = learned.changes
    task = next(task for task in HAZY if task.name == drawn)
    assert learned.changes[drawn] == Change.between(before[drawn], after[drawn], task.test.y)
    assert learned.scores == zoo.scores(HAZY[2].name)
    assert learned.worse == ()


def test_tasks_whose_heads_were_fitted_are_measured_and_compared_too(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", HAZY[:2], tasks_per_episode=1, grow=WarmStart())
    before = answers(zoo, HAZY)
    learned = zoo.learn(HAZY[2])
    for task in HAZY[:2]:
        said = zoo.predict_proba(task.test.x, task.name)
        assert learned.earlier[task.name] == Change.between(before[task.name], said, task.test.y)
        assert zoo.measure(task.name).confidence == pytest.approx(float(said.max(dim=1).values.mean()))


def test_an_episode_that_makes_a_task_worse_is_taken_back_and_the_log_says_so(tmp_path):
    zoo = fading_zoo(tmp_path / "zoo")
    before, files_before = answers(zoo), contents(zoo.path).keys()
    learned = zoo.learn(HAZY[1], unless_worse=0.01)
    assert learned.worse == ("stripes",)
    assert learned.after["stripes"].accuracy < 0.9 * learned.before["stripes"].accuracy
    for again in (zoo, zoolearn.open(zoo.path)):
        assert list(again.tasks) == ["stripes"]
        assert alike(answers(again), before)
    assert {name for name in contents(zoo.path) if not name.startswith("index/")} <= files_before
    assert stray_files(zoo) == set()
    line = zoo.folder.read_log()[-1]
    assert (line.did, line.task) == ("taken back", HAZY[1].name)
    assert "stripes" not in line.detail, "it may be forgotten, and then has no name in the log"
    assert "1 of 1 earlier tasks worse: -" in line.detail
    assert zoo.learn(HAZY[1]).worse == (), "without the gate it is kept"
    assert list(zoo.tasks) == ["stripes", HAZY[1].name]


def test_an_episode_that_costs_no_task_anything_passes_the_gate(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    assert zoo.learn(TASKS[1], unless_worse=0.0).worse == ()
    assert list(zoo.tasks) == ["stripes", "dots"]


@pytest.mark.parametrize("limit", [-0.01, 1.5, float("nan")])
def test_a_loss_that_no_accuracy_can_have_is_refused_before_anything_is_read(tmp_path, limit):
    zoo = small_zoo(tmp_path / "zoo", ())
    with pytest.raises(SettingsError, match=r"unless_worse is .*give 0\.01 for one point"):
        zoo.learn_from("birds", tmp_path / "nothing here", unless_worse=limit)


def test_the_command_ends_with_a_code_of_its_own_where_an_episode_is_taken_back(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fading_zoo(tmp_path / "zoo")
    np.savez("dots.npz", x=HAZY[1].train.x.numpy(), y=HAZY[1].train.y.numpy())
    told = said(capsys, "learn", "zoo", "dots", "dots.npz", "--unless-worse", "0.01", code=3)
    assert "taken back: a loss above --unless-worse 0.01, beyond chance: stripes -" in told
    assert "Ask it" not in told
    (line,) = (line.split() for line in told.splitlines() if line.startswith("stripes "))
    assert (line[1], line[-2:]) == ("100.0%", ["60", "worse"])
    assert "taken back" in said(capsys, "log", "zoo")
    assert "dots" not in said(capsys, "show", "zoo")


def test_the_command_says_where_no_difference_can_be_seen_and_what_the_gate_could_not_notice(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    small_zoo(tmp_path / "zoo", TASKS[:1])
    np.savez("dots.npz", x=TASKS[1].train.x.numpy(), y=TASKS[1].train.y.numpy())
    told = said(capsys, "learn", "zoo", "dots", "dots.npz", "--unless-worse", "0.01")
    assert "no difference can be seen in any earlier task" in told
    assert "only a loss of 25 points or more of stripes would have been noticed: it has 20 held-out rows" in told


def test_over_http_the_same(tmp_path):
    zoo = fading_zoo(tmp_path / "zoo")
    with serving(zoo.path, learns=True) as client:
        archive = zipped(files())
        refused = client.post("/tasks/kinds?unless_worse=2", archive, "application/zip")
        assert (refused.status, "'unless_worse=2' is no option here" in refused.detail) == (422, True)
        accepted = client.post("/tasks/kinds?unless_worse=0.01&skip_broken=false", archive, "application/zip")
        assert accepted.status == 202
        last = events(client)[-1]
        assert (last["state"], last["worse"], last["task"]) == ("taken back", ["stripes"], "kinds")
        assert last["accuracy"]["stripes"]["before"] == 1.0
        assert last["accuracy"]["stripes"]["change"]["difference"] == "worse"
        assert last["accuracy"]["kinds"]["change"] is None
        assert "zoo_trainings_taken_back 1" in client.get("/metrics").body.decode()
        assert client.rows("stripes", STRIPES.test.x[:1].tolist()).status == 200
    assert list(zoolearn.open(zoo.path).tasks) == ["stripes"]
    assert torch.equal(
        zoolearn.open(zoo.path).predict_proba(STRIPES.test.x, "stripes"), zoo.predict_proba(STRIPES.test.x, "stripes")
    )
