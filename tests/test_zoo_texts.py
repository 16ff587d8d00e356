"""A zoo on features of texts learns from a column of a table, and answers texts, tables, frames and text files."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import zoolearn
from zoolearn import cli
from zoolearn.errors import DataError, SettingsError
from zoolearn.features.named import LIBRARIES
from zoolearn.zoo.inputs import Columns, open_source
from zoolearn.zoo.inputs.source import Numbers

WORDS = {
    "fruit": ("apple pear plum", "plum fig", "pear apple"),
    "tools": ("saw drill", "hammer saw nail", "drill nail"),
}


def letters(texts):
    """How often each letter occurs."""
    counts = [Counter(text.lower()) for text in texts]
    return [[count[letter] for letter in "abcdefghijklmnopqrstuvwxyz"] for count in counts]


@pytest.fixture
def table(tmp_path) -> Path:
    texts = [(text, kind) for kind, some in WORDS.items() for text in some * 4]
    lines = [f"{number},{number} {text},{kind}" for number, (text, kind) in enumerate(texts)]  # no two are alike
    path = tmp_path / "words.csv"
    path.write_text("\n".join(["number,body,kind", *lines]))
    return path


@pytest.fixture
def zoo(tmp_path, table):
    made = zoolearn.new(tmp_path / "zoo", features=letters)
    made.learn_from("words", open_source(table, Columns(label="kind", embed=made.columns.embed)), holdout=0.25)
    return made


def test_texts_are_answered_however_they_are_given(zoo, table, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    asked, wanted = ["apple and plum", "drill a nail"], ["fruit", "tools"]
    (tmp_path / "asked.txt").write_text("\n\n".join(asked))
    (tmp_path / "asked.csv").write_text("\n".join(["body", *asked]))
    assert zoo.settings.columns == ("body",)
    assert zoo.predict(asked, "words") == wanted
    assert zoo.predict(asked[1], "words") == wanted[1:]
    assert zoo.predict(tmp_path / "asked.txt", "words") == wanted
    assert zoo.predict([tmp_path / "asked.csv"], "words") == wanted
    assert zoo.predict(pandas.DataFrame({"body": asked, "other": [1, 2]}), "words") == wanted
    again = zoolearn.open(zoo.path, names={"letters": letters})
    assert (again.predict_proba(asked, "words") == zoo.predict_proba(asked, "words")).all()
    tested = again.test("words", open_source(table, Columns(label="kind", embed=again.columns.embed)))
    assert tested.scores.accuracy.right == 24
    with pytest.raises(SettingsError, match=r"names=\{name: function\}"):
        zoolearn.open(zoo.path).predict(asked, "words")


def test_a_text_without_features_is_a_row_that_cannot_be_read(zoo, tmp_path) -> None:
    (tmp_path / "more.csv").write_text(
        "body,kind\nmelon,fruit\n,fruit\n123,tools\nrasp,tools\nfile,tools\nkiwi,fruit\n"
    )
    source = open_source(tmp_path / "more.csv", Columns(label="kind", embed=zoo.columns.embed))
    with pytest.raises(
        DataError, match=r"2 of 6 rows cannot be read(.|\n)*row 3: it is empty(.|\n)*row 4: the extractor makes"
    ):
        zoo.learn_from("more", source)
    learned = zoo.learn_from("more", source, skip_broken=True, holdout=0.5)
    assert learned.task == "more"


def test_what_is_missing_for_texts_is_told(zoo, tmp_path) -> None:
    (tmp_path / "plain.csv").write_text("remark,label\nfig,fruit\nsaw,tools\n")
    with pytest.raises(DataError, match="say with --text which one holds the texts"):
        zoo.learn_from("plain", tmp_path / "plain.csv")
    with pytest.raises(DataError, match="has no extractor for them; begin a new one"):
        open_source(tmp_path / "plain.csv", Columns(text="remark"))
    with pytest.raises(DataError, match="unknown column 'remarks'; did you mean 'remark'"):
        open_source(tmp_path / "plain.csv", Columns(text="remarks", embed=zoo.columns.embed))


def test_what_is_no_text_is_refused_and_changes_nothing(zoo, table, tmp_path) -> None:
    """Numbers as wide as its rows above all: they would be cut to whole ones, all nothing."""
    before = zoo.generation
    wide = np.random.default_rng(0).random((8, 26), np.float32)
    np.savez(tmp_path / "wide.npz", x=wide, y=np.arange(8) % 2)
    for shade, name in enumerate("ab"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        Image.new("L", (8, 8), shade).save(tmp_path / "pictures" / name / "1.png")
    for path in (tmp_path / "wide.npz", tmp_path / "pictures"):
        with pytest.raises(DataError, match="holds no texts, and this zoo takes nothing else; give a table"):
            zoo.learn_from("other", path)
    numbers = Numbers("an array", wide, ["fruit", "tools"] * 4)
    with pytest.raises(DataError, match="an array holds 26 features, float32; this zoo takes texts"):
        zoo.learn_from("other", numbers)
    with pytest.raises(DataError, match="an array holds 26 features, float32; this zoo takes texts"):
        zoo.learn_from("other", open_source(table, Columns(label="kind", embed=zoo.columns.embed)), test=numbers)
    assert (zoo.generation, [*zoo.tasks]) == (before, ["words"])
    with pytest.raises(DataError, match=r"1\.png is of no kind that is known; give a table with a column of texts"):
        zoo.predict(tmp_path / "pictures" / "a" / "1.png", "words")
    for asked in (wide, 5, [], ["a text", 3]):
        with pytest.raises(DataError, match="texts: a string, or a list of them"):
            zoo.predict(asked, "words")
    with pytest.raises(SettingsError, match="'letters' cannot be exported, since that is a function"):
        zoo.export("words", tmp_path / "words.onnx")


@pytest.fixture
def named(tmp_path, table, monkeypatch):
    """A zoo on the features of an extractor that a library brings, so that a server can open it."""
    monkeypatch.setitem(LIBRARIES, "letters:", lambda: letters)
    made = zoolearn.new(tmp_path / "named", features="letters:")
    source = open_source(table, Columns(label="kind", text="body", embed=made.columns.embed))
    made.learn_from("words", source, holdout=0.25)
    return made


def test_texts_are_served_and_other_inputs_told_what_is_taken(named) -> None:
    from servers import serving

    asked = ["apple and plum", "drill a nail"]
    with serving(named.path, learns=True) as client:

        def said(body, kind="application/json"):
            return client.post("/tasks/words/predict", body, kind)

        answered = said(json.dumps({"texts": asked})).json["predictions"]
        assert [row["class"] for row in answered] == named.predict(asked, "words") == ["fruit", "tools"]
        values = [list(row["probabilities"].values()) for row in answered]
        assert values == named.predict_proba(asked, "words").tolist()
        sure = client.post("/tasks/words/predict?sure=0.5", json.dumps({"texts": asked}), "application/json")
        assert [row["class"] for row in sure.json["predictions"]] == named.predict(asked, "words", sure=0.5)
        about = client.get("/tasks").json
        assert (about["dtype"], about["shape"], about["features"]) == ("text", [], "letters:")
        for body, kind, wanted in (
            ('{"rows": [[1, 2]]}', "application/json", r'not of the form {"texts": [...]}'),
            ('{"texts": ["fig", 3]}', "application/json", "text 2 is no string"),
            ('{"texts": []}', "application/json", "no rows"),
            ('{"texts": ["123"]}', "application/json", "input 0 has no features"),
            (b"1234", "application/octet-stream", "this zoo takes texts"),
            (b"1234", "image/png", "this zoo takes texts"),
        ):
            refused = said(body, kind)
            assert refused.status in (415, 422)
            assert wanted in refused.detail
        assert "this zoo takes texts, no images" in client.post("/tasks/more", b"", "application/zip").detail


def test_an_extractor_that_a_server_cannot_open_is_refused_when_it_starts(zoo) -> None:
    from zoolearn.zoo.serve.limits import Limits
    from zoolearn.zoo.serve.service import Service

    with pytest.raises(SettingsError, match="unknown extractor 'letters'"):
        Service(zoo.path, Limits(), learns=False)


def test_the_command_learns_texts_by_the_name_of_an_extractor(table, tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("wordllama")
    monkeypatch.chdir(tmp_path)
    cli.main(["learn", "desk", "words", str(table), "--text", "body", "--label", "kind", "--features", "wordllama:"])
    said = " ".join(capsys.readouterr().out.split())
    assert "desk is a new zoo on features of wordllama:" in said
    assert "words: 2 classes, texts -> 256" in said
    (tmp_path / "asked.txt").write_text("a ripe pear\nhammer and drill\n")
    cli.main(["predict", "desk", "words", "asked.txt", "--json"])
    assert [line.split('"class": "')[1].split('"')[0] for line in capsys.readouterr().out.splitlines()] == [
        "fruit",
        "tools",
    ]


def test_a_zoo_with_nets_of_its_own_takes_no_extractor_afterwards(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("wordllama")
    zoolearn.new(tmp_path / "nets")
    with pytest.raises(SystemExit):
        cli.main(["learn", str(tmp_path / "nets"), "words", "words.csv", "--features", "wordllama:"])
    assert "has nets of its own and no features" in " ".join(capsys.readouterr().err.split())
