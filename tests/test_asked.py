"""What people ask a zoo about, at the command line and in Python, and what they are told where they slip."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import zoolearn
from test_zoo_cli import said
from toys import TINY, contents
from zoolearn.errors import DataError, SettingsError
from zoolearn.zoo.inputs import Columns, open_source
from zoos import HAZY, TASKS, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown

X = TASKS[0].test.x


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return small_zoo(tmp_path_factory.mktemp("asked") / "zoo", TASKS[:2])


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new" / "__MACOSX").mkdir(parents=True)
    (tmp_path / "new" / "__MACOSX" / "._0.png").write_bytes(b"\0\5\x16\7")
    (tmp_path / "new" / "__MACOSX" / "0.png").write_bytes(b"\0\5\x16\7")
    for place in range(3):
        Image.fromarray(X[place, 0].numpy()).save(tmp_path / "new" / f"{place}.png")
    return tmp_path


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A zoo that was taught with the columns a and b, and its table."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "kind": np.where(rows[:, 0] > 0, "warm", "cold")})
    frame.to_csv("rows.csv", index=False)
    zoo = zoolearn.new("zoo", recipe=TINY)
    zoo.learn_from("weather", open_source(tmp_path / "rows.csv", Columns("kind")))
    return zoo, frame


def test_python_takes_paths_folders_pictures_and_arrays_alike(asked, photographs):
    expected = asked.predict_proba(X[:3], "stripes")
    files = [f"new/{place}.png" for place in range(3)]
    for inputs in (files, photographs / "new", "new", [Image.open(file) for file in files]):
        assert torch.equal(asked.predict_proba(inputs, "stripes"), expected)
    assert asked.predict("new/1.png", "stripes") == asked.predict(X[1:2], "stripes")
    assert asked.predict(Image.open("new/1.png"), "stripes") == asked.predict(X[1:2], "stripes")
    assert len(asked.recognise("new")) == 3
    with pytest.raises(DataError, match=r"1 of 2 inputs cannot be read.*\n  gone.png: there is no such file"):
        asked.predict(["new/0.png", "gone.png"], "stripes")
    with pytest.raises(DataError, match="inputs are a set, which is no array of numbers; give an array, a path, a pic"):
        asked.predict({1, 2}, "stripes")


def test_python_takes_frames_by_the_names_of_their_columns(table):
    zoo, frame = table
    expected = zoo.predict(frame[["a", "b"]].to_numpy(), "weather")
    assert zoo.predict(frame[["kind", "b", "a"]], "weather") == expected
    assert zoo.predict("rows.csv", "weather") == expected
    with pytest.raises(DataError, match=r"the frame has no column 'b'; this zoo takes the columns a, b; it has 'B'"):
        zoo.predict(frame[["a"]].assign(B=1.0), "weather")
    with pytest.raises(DataError, match="a picture was given, but this zoo takes rows of 2 features"):
        zoo.predict(Image.new("L", (8, 8)), "weather")


def test_names_stand_for_functions_and_unknown_settings_are_answered_with_the_known_ones(tmp_path):
    zoo = zoolearn.new(tmp_path / "zoo", backbone="mlp-100", weigh="uniform", grow="warm-start")
    settings = zoo.settings
    assert (settings.backbone, settings.weigh, settings.grow["name"]) == ("mlp-100", "uniform", "warm-start")
    zoo.learn(TASKS[0])
    with pytest.raises(SettingsError, match="unknown backbone 'MLP100'; did you mean 'mlp-100'"):
        zoolearn.new(tmp_path / "other", backbone="MLP100")
    with pytest.raises(SettingsError, match=r"'epoch'; did you mean 'epochs'\? \(one of: augment, backbone,"):
        zoolearn.new(tmp_path / "other", epoch=3)
    with pytest.raises(SettingsError, match="unknown setting of ModelZoo 'replays'; did you mean 'replay'"):
        zoolearn.ModelZoo(replays=0.1)
    with pytest.raises(SettingsError, match=r"unknown setting of Recipe 'learning_rate'.*lr"):
        zoolearn.Recipe(learning_rate=0.1)
    with pytest.raises(SettingsError, match=r"must be the function zoolearn\.nets\.perceptrons\.mlp"):
        zoolearn.ModelZoo(backbone="mlp")


def test_one_input_that_cannot_be_read_does_not_stop_the_others(asked, photographs, capsys):
    np.save("cut.npy", X[:2, 0].numpy())
    (photographs / "cut.npy").write_bytes((photographs / "cut.npy").read_bytes()[:100])
    words = ("predict", str(asked.path), "stripes", "cut.npy", "new/0.png", "gone.csv", "new")
    told = said(capsys, *words, code=1)
    assert told.count("new/0.png") == 2
    assert "cut.npy is not a whole .npy file" in told
    assert "gone.csv does not exist" in told
    assert "2 inputs could not be read, the others were answered" in told
    assert "0.png" in said(capsys, *words, "--skip-broken")
    alone = said(capsys, "predict", str(asked.path), "stripes", "gone.csv", code=1)
    assert alone.count("gone.csv") == 1


def test_what_systems_leave_in_folders_is_neither_a_class_nor_a_picture(asked, photographs, capsys):
    told = said(capsys, "predict", str(asked.path), "stripes", "new", "--csv")
    assert len(told.splitlines()) == 1 + 3
    for name in ("cat", "dog"):
        (photographs / "pets" / name).mkdir(parents=True)
        for place in range(3):
            Image.fromarray(X[place, 0].numpy()).save(photographs / "pets" / name / f"{place}.png")
    (photographs / "pets" / "__MACOSX").mkdir()
    (photographs / "pets" / "__MACOSX" / "0.png").write_bytes(b"\0")
    assert set(open_source(photographs / "pets").labels) == {"cat", "dog"}


def test_answers_have_a_header_on_a_terminal_alone(asked, photographs, capsys, monkeypatch):
    words = (str(asked.path), "stripes", "new/0.png")
    assert "class" not in said(capsys, "predict", *words)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert said(capsys, "predict", *words).split()[:3] == ["chance", "class", "input"]
    assert json.loads(said(capsys, "predict", *words, "--json"))["class"].startswith("stripes")
    assert said(capsys, "recognise", str(asked.path), "new/0.png").split()[:2] == ["chance", "class"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("learn zoo more rows.csv --label a", "column 'a' is named as the label, but it is a feature of this zoo"),
        ("predict zoo weather rows.csv --ignore b", "column 'b' is to be left out, but it is a feature of this zoo"),
        (
            "learn zoo more huge.csv --label kind",
            "column 'a': 40 of 40 infinite or beyond 1e+18 (bring the column to another unit)",
        ),
        (
            "learn other more lost.csv --label kind",
            "none of the 4 images can be read; the first is lost/0.png: there is ",
        ),
        (
            "report zoo",
            "zoo is a zoo, and `zoo report` is about runs; see it with `zoo show zoo`; `--html FILE` makes ",
        ),
        (
            "plot zoo more",
            "zoo is a zoo, and `zoo plot` is about runs; see it with `zoo show zoo`; alone, its figures ",
        ),
        ("watch zoo", "zoo is a zoo, and `zoo watch` is about runs; see it with `zoo show zoo`"),
    ],
)
def test_messages_are_so(table, capsys, words, message):
    _, frame = table
    frame.assign(a=1e300).to_csv("huge.csv", index=False)
    pd.DataFrame({"path": [f"lost/{row}.png" for row in range(4)], "kind": list("xxyy")}).to_csv("lost.csv")
    assert message in said(capsys, *words.split(), code=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--epochs none", "'none' is not a whole number"),
        ("--seed x", "'x' is not a whole number"),
        ("--replay much", "'much' is not a number"),
    ],
)
def test_flags_speak_of_numbers_and_not_of_types(tmp_path, capsys, words, message):
    told = " ".join(said(capsys, "new", str(tmp_path / "zoo"), *words.split(), code=2).split())
    assert message in told
    assert not [word for word in ("NoneType", "invalid literal", "<class") if word in told]


def test_a_list_of_many_names_is_cut_but_keeps_the_likely_one():
    from zoolearn.errors import unknown_name

    told = unknown_name("task", "Task 99", [f"task {number}" for number in range(100)])
    assert "did you mean 'task 99'?" in told
    assert len(told.split(",")) < 40
    assert "task 99," in told.partition("one of")[2]


def test_restoring_says_how_many_speak_again_and_that_deleted_ones_do_not(tmp_path, capsys):
    folder = str(small_zoo(tmp_path / "zoo", HAZY[:3]).path)
    assert "nothing to restore" in said(capsys, "prune", folder, "--restore")
    said(capsys, "prune", folder, "--loss", "0.9")
    silent = sum(bool(member.silent) for member in zoolearn.open(folder).members)
    assert f"{silent} member" in said(capsys, "prune", folder, "--restore")
    assert silent
    said(capsys, "prune", folder, "--loss", "0.9", "--commit")
    assert "deleted does not come back" in said(capsys, "prune", folder, "--restore")


def test_export_makes_no_folder_and_writes_over_nothing_unasked(asked, photographs, capsys):
    words = ("export", str(asked.path), "stripes", "--to", "torch")
    assert "there is no folder far" in said(capsys, *words, "--out", "far/stripes.pt2", code=1)
    assert not (photographs / "far").exists()
    (photographs / "stripes.pt2").write_text("mine")
    assert "stripes.pt2 exists already" in said(capsys, *words, code=1)
    assert (photographs / "stripes.pt2").read_text() == "mine"
    assert "stripes.pt2: 2 members" in said(capsys, *words, "--overwrite")


def test_all_tasks_are_exported_at_once_or_none(asked, photographs, capsys):
    (photographs / "made").mkdir()
    words = ("export", str(asked.path), "--to", "torch", "--out", "made")
    (photographs / "made" / "dots.pt2").write_text("mine")
    assert "dots.pt2 exists already" in said(capsys, *words, code=1)
    assert contents(photographs / "made").keys() == {"dots.pt2"}
    (photographs / "made" / "dots.pt2").unlink()
    assert said(capsys, *words).count("checked on") == 2
    assert all(zipfile.is_zipfile(photographs / "made" / f"{name}.pt2") for name in asked.tasks)


def test_the_demo_says_who_is_above_the_zoo():
    from zoolearn.cli.demo import verdict

    told = verdict({"model-zoo": 0.9235, "isolated": 0.9, "fine-tune": 0.95, "multi-head": 0.9272})
    assert "2.3 points above isolated nets, 2.7 points below fine-tuning and 0.4 points below multi-head" in told
