"""The commands of a zoo folder: what they print, ask and refuse."""

import json
import re
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import zoolearn
from toys import blobs, contents
from zoolearn import cli
from zoolearn.cli import show
from zoolearn.zoo.changes.forgetting import Cost
from zoos import TASKS, alike, answers, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown by commands


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return small_zoo(tmp_path / "zoo", TASKS[:2])


def said(capsys, *words: str, code: int = 0) -> str:
    """What a command prints; both streams."""
    if code:
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == code
    else:
        cli.main(words)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_answers_come_as_text_csv_or_json_with_the_inputs_name(zoo, tmp_path, capsys) -> None:
    for number, row in enumerate(TASKS[0].test.x[:3]):
        Image.fromarray(row[0].numpy()).save(tmp_path / f"{number}.png")
    expected = zoo.predict_proba(TASKS[0].test.x[:3], "stripes")
    lines = said(capsys, "predict", "zoo", "stripes", "0.png", "1.png", "2.png", "--json", "--votes").splitlines()
    for row, line in enumerate(map(json.loads, lines)):
        assert line["input"] == f"{row}.png"
        assert list(line["probabilities"].values()) == pytest.approx(expected[row].tolist(), abs=1e-6)
        assert [vote["member"] for vote in line["votes"]] == [1, 2]
    table = said(capsys, "predict", "zoo", "stripes", "0.png", "--csv", "--at", "1").splitlines()
    assert table[0] == "input,class,probability"
    assert table[1].startswith("0.png,stripes ")
    (tmp_path / "bad.png").write_bytes(b"no")
    text = said(capsys, "predict", "zoo", "stripes", "bad.png", "0.png", code=1)
    assert "bad.png: it is damaged or no image" in text
    assert "1 input could not be read, the others were answered" in text
    assert "stripes 0" in said(capsys, "predict", "zoo", "stripes", "bad.png", "0.png", "--skip-broken")


def test_learning_into_a_folder_that_is_not_there_makes_the_zoo_and_says_so(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = TASKS[0]
    np.savez("rows.npz", x=task.train.x.numpy(), y=task.train.y.numpy())
    assert "nothing.npz" in said(capsys, "learn", "birds", "garden", "nothing.npz", code=1)
    assert not (tmp_path / "birds").exists()
    first = said(capsys, "learn", "birds", "garden", "rows.npz")
    assert "birds is a new zoo with default settings" in first
    assert "is a new zoo" not in said(capsys, "learn", "birds", "forest", "rows.npz")
    zoolearn.new("made")
    assert zoolearn.open("birds").index.chosen == zoolearn.open("made").index.chosen


def test_learning_into_a_folder_of_other_things_is_refused(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", x=TASKS[0].train.x.numpy(), y=TASKS[0].train.y.numpy())
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    assert "letters holds no zoo" in said(capsys, "learn", "letters", "garden", "rows.npz", code=1)
    assert contents(tmp_path / "letters").keys() == {"dear.txt"}


def test_arrays_are_answered_row_by_row(zoo, tmp_path, capsys) -> None:
    np.save(tmp_path / "rows.npy", TASKS[0].test.x[:4, 0].numpy())
    assert said(capsys, "predict", "zoo", "stripes", "rows.npy").count("rows.npy[") == 4


def test_columns_are_known_by_their_names_in_any_order(tmp_path, capsys) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 3)).round(3)
    kinds = np.where(values[:, 0] > 0, "warm", "cold")

    def table(name: str, columns: str) -> str:
        place = {"a": values[:, 0], "b": values[:, 1], "c": values[:, 2]}
        lines = zip(*(place.get(column, kinds) for column in columns.split(",")), strict=True)
        (tmp_path / name).write_text("\n".join([columns, *(",".join(map(str, line)) for line in lines)]))
        return str(tmp_path / name)

    zoo = str(tmp_path / "zoo")
    said(capsys, "new", zoo, "--epochs", "2")
    said(capsys, "learn", zoo, "first", table("first.csv", "a,b,c,kind"), "--label", "kind")
    said(capsys, "learn", zoo, "second", table("second.csv", "c,class,a,b"))
    again = zoolearn.open(zoo)
    assert again.settings.columns == ("a", "b", "c")
    rows = [again.task(name).train.x for name in ("first", "second")]
    assert {tuple(row) for row in rows[1].tolist()} <= {tuple(row) for row in values.astype(np.float32).tolist()}
    asked = said(capsys, "predict", zoo, "first", table("rows.csv", "a,b,c"), "--csv")
    for columns in ("c,b,a", "b,note,kind,a,c"):  # what is not needed is not looked at
        assert said(capsys, "predict", zoo, "first", table("rows.csv", columns), "--csv") == asked
    refused = said(capsys, "predict", zoo, "first", table("rows.csv", "a,b"), code=1)
    assert "has no column 'c'; this zoo takes the columns a, b, c" in refused
    refused = said(capsys, "learn", zoo, "third", table("third.csv", "a,b,c,note,class"), code=1)
    assert "column 'note' is none that this zoo takes (a, b, c); leave it out with --ignore note" in refused
    refused = said(capsys, "learn", zoo, "third", table("third.csv", "a,b,c,my note,day,class"), code=1)
    assert "2 columns are none that this zoo takes (a, b, c); leave them out with --ignore 'my note' day" in refused


def test_a_table_is_asked_without_its_label(tmp_path, capsys) -> None:
    zoolearn.new(tmp_path / "zoo", epochs=1)
    rows = "".join(f"{row % 2},{row},{row % 2}\n" for row in range(20))
    (tmp_path / "table.csv").write_text("y,x,kind\n" + rows)
    place, table = str(tmp_path / "zoo"), str(tmp_path / "table.csv")
    said(capsys, "learn", place, "rows", table, "--label", "kind")
    asked = said(capsys, "predict", place, "rows", table, "--label", "kind", "--csv")
    assert asked == said(capsys, "predict", place, "rows", table, "--ignore", "kind", "--csv")


def test_show_draws_the_zoo_and_log_tells_its_story(zoo, capsys) -> None:
    shown = said(capsys, "show", "zoo")
    assert "●○" in shown
    assert "·●" in shown
    assert "48 rows to train on" in shown or "60 rows to train on" in shown
    assert said(capsys, "log", "zoo").count("learned") == 2
    assert "is whole" in said(capsys, "verify", "zoo")


def test_the_cost_of_forgetting_in_a_zoo_of_a_thousand_members_fits_a_screen(zoo, capsys, monkeypatch) -> None:
    many = Cost(tuple(range(1, 1001)), (), (), rows=20, seconds=7300.0, kept_for_others=0)
    monkeypatch.setattr("zoolearn.zoo.Zoo.cost_of_forgetting", lambda *_, **__: many)
    told = said(capsys, "forget", "zoo", "stripes", code=1)
    assert len(told) < 500
    assert "retrains, in about 2.0 h, members 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 990 more" in " ".join(told.split())


def test_forgetting_tells_its_cost_and_asks(zoo, capsys, monkeypatch) -> None:
    before = contents(zoo.path)
    told = said(capsys, "forget", "zoo", "stripes", code=1)
    assert "removes, for knowing nothing else, member 1" in told
    assert re.search(r"retrains, in about \d+ s, member 2", told)
    assert "add --yes" in told
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert "nothing was changed" in said(capsys, "forget", "zoo", "stripes")
    assert contents(zoo.path) == before
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert "is forgotten" in said(capsys, "forget", "zoo", "stripes")
    assert list(zoolearn.open(zoo.path).tasks) == ["dots"]
    assert "stripes" not in said(capsys, "log", "zoo")


def test_a_damaged_zoo_is_told_file_by_file(zoo, capsys) -> None:
    victim = next((zoo.path / "members").iterdir())
    victim.write_bytes(victim.read_bytes()[:-4])
    assert victim.name in said(capsys, "verify", "zoo", code=1)


def test_names_from_strangers_are_not_read_as_markup(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    zoo = zoolearn.new("zoo", epochs=1)
    np.savez("rows.npz", x=blobs().train.x.numpy(), y=np.array(["[red]", "[/x]"])[blobs().train.y])
    assert "[red]" in said(capsys, "learn", "zoo", "[bold]odd[/y]", "rows.npz")
    assert "[bold]odd[/y]" in said(capsys, "show", "zoo")
    assert "[bold]odd[/y]" in said(capsys, "undo", "zoo")
    assert zoo.refresh()


def test_stopping_a_training_leaves_the_zoo_and_says_how_to_go_on(zoo, tmp_path, capsys, monkeypatch) -> None:
    np.savez("rows.npz", x=TASKS[2].train.x.numpy(), y=TASKS[2].train.y.numpy())
    before = answers(zoo)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoolearn.cli.learn._show_reading", stopped)
    assert "the zoo is as it was. The same command continues" in said(
        capsys, "learn", "zoo", "rings", "rows.npz", code=130
    )
    assert alike(answers(zoolearn.open(zoo.path)), before)


def test_a_first_lesson_that_fails_leaves_no_folder_that_it_made_and_an_earlier_zoo_alone(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    task = TASKS[0]
    np.savez("alone.npz", x=task.train.x.numpy()[:2], y=np.zeros(2, int))
    np.savez("odd.npz", x=task.train.x.numpy(), y=task.train.y.numpy(), classes=["fine", "not\x07fine"])
    for file in ("alone.npz", "odd.npz"):
        said(capsys, "learn", "fresh", "birds", file, code=1)
        assert not (tmp_path / "fresh").exists(), file
    said(capsys, "new", "kept", "--seed", "3")
    said(capsys, "learn", "kept", "birds", "alone.npz", code=1)
    assert zoolearn.open("kept").settings.seed == 3


@pytest.mark.parametrize(("flags", "grey"), [(["--grey"], True), (["--no-grey"], False), ([], None)])
def test_colours_are_chosen_by_a_flag(tmp_path, flags, grey) -> None:
    cli.main(["new", str(tmp_path / "zoo"), "--side", "64", *flags])
    assert zoolearn.open(tmp_path / "zoo").settings.grey is grey


def test_new_refuses_what_cannot_be(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert "did you mean 'small-conv'" in said(capsys, "new", "zoo", "--backbone", "small-con", code=1)
    assert "epochs is 0" in said(capsys, "new", "zoo", "--epochs", "0", code=1)
    assert "replay is 2" in said(capsys, "new", "zoo", "--replay", "2", code=1)
    assert "both --grey and --no-grey" in said(capsys, "new", "zoo", "--grey", "--no-grey", code=1)
    assert "side is 1;" in said(capsys, "new", "zoo", "--side", "1", code=1)
    assert not (tmp_path / "zoo").exists()


def test_the_picture_of_many_members_takes_a_line_a_task():
    tasks = {name: SimpleNamespace(name=name) for name in ("task 9", "task 1000")}
    zoo = SimpleNamespace(members=[SimpleNamespace(heads=())] * 300, tasks=tasks)
    for width in (40, 100):
        console = Console(file=StringIO(), width=width, force_terminal=True)
        picture = show._picture(zoo, list(tasks), console)
        lines = ["".join(part.text for part in line) for line in console.render_lines(picture)]
        assert sum("·" in line for line in lines) == len(tasks)
