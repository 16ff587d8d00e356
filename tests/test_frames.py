"""Runs as data for other tools: a row a run, every digit, the columns asked for; and tables for a paper."""

import csv
import io
import sys
from dataclasses import replace

import pytest

import zoolearn
from evidence_toys import TASKS, finished_run
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.lab.frames import frame, rows_as_csv, run_rows, save_parquet


@pytest.fixture
def runs(tmp_path):
    thirds = finished_run("er", 1)
    thirds.accuracy = [[1 / 3] * (episode + 1) for episode in range(4)]
    thirds.save(tmp_path / "er")
    finished_run("model-zoo").save(tmp_path / "zoo")
    return tmp_path


def test_a_row_is_a_run_with_every_digit_and_every_setting():
    thirds = finished_run("er", 1)
    thirds.accuracy = [[1 / 3] * (episode + 1) for episode in range(4)]
    rows = list(csv.DictReader(io.StringIO(rows_as_csv(run_rows([thirds, finished_run()])))))
    assert [(row["method"], row["seed"]) for row in rows] == [("er", "1"), ("model-zoo", "0")]
    assert float(rows[0]["average_accuracy"]) == 1 / 3
    assert rows[0]["recipe.epochs"] == "1"
    assert (rows[0]["replay"], rows[1]["replay"]) == ("", "1.0")  # er has no such setting


def test_rows_say_how_a_run_ended_and_on_which_data():
    lost = replace(finished_run(episodes=2), diverged="the loss is nan")
    rows = run_rows([finished_run(), replace(lost, data="digest"), replace(lost, diverged="", failed="KeyError")])
    assert [row["ended"] for row in rows] == ["finished", "diverged", "failed"]
    assert rows[1]["data"] == "digest"
    assert run_rows([finished_run(episodes=2)])[0]["ended"] is None, "it is under way"


def test_the_frame_is_that_of_the_library_that_is_there(runs, monkeypatch):
    pandas = pytest.importorskip("pandas")
    found = zoolearn.frame(runs)
    assert isinstance(found, pandas.DataFrame)
    assert sorted(found["method"]) == ["er", "model-zoo"]
    assert found.groupby("method")["average_accuracy"].mean()["er"] == 1 / 3
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SettingsError, match="pip install pandas"):
        frame(runs)


def test_polars_serves_where_pandas_is_missing(runs, monkeypatch):
    class Polars:
        DataFrame = staticmethod(lambda rows, infer_schema_length: ("polars", len(rows), infer_schema_length))

    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", Polars)
    assert frame(runs) == ("polars", 2, None)


def test_parquet_gives_back_what_csv_tells(runs, tmp_path, monkeypatch, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    main(["report", str(runs), "--format", "parquet", "--out", str(tmp_path / "runs.parquet")])
    table = parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert [row["method"] for row in table] == ["er", "model-zoo"]
    assert table[0]["average_accuracy"] == 1 / 3
    with pytest.raises(SystemExit):
        main(["report", str(runs), "--format", "parquet"])
    assert "--out FILE" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match=r"pip install 'zoolearn\[tables\]'"):
        save_parquet(tmp_path / "other", [{"a": 1}])


def test_a_column_of_words_and_numbers_is_one_of_words(tmp_path):
    pytest.importorskip("pyarrow")
    odd = finished_run()
    odd.settings["replay"] = "all"
    rows = run_rows([odd, finished_run("model-zoo", 1)])
    assert [row["replay"] for row in rows] == ["all", "1.0"]
    save_parquet(tmp_path / "runs.parquet", rows)


def test_columns_come_in_the_order_asked_for_and_names_in_the_words_asked_for(runs, capsys):
    main(["report", str(runs), "--format", "csv", "--columns", "seed", "method"])
    assert capsys.readouterr().out == "seed,method\n1,er\n0,model-zoo\n"
    wanted = ["--columns", "method", "average accuracy", "--names", "average accuracy=Acc", "er=ER"]
    main(["report", str(runs), "--format", "latex", *wanted])
    printed = capsys.readouterr().out
    assert "method & Acc \\\\\n" in printed
    assert "ER & 33.33 \\\\\n" in printed
    assert r"model-zoo & \textbf{64.50} \\" in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--columns", "accuracy"], "unknown column 'accuracy'"),
        (["--format", "csv", "--columns", "accuracy"], "unknown column 'accuracy'"),
        (["--names", "er"], "give OLD=NEW"),
        (["--names", "or=ER"], "no row or column is called 'or'"),
        (["--matrix", "--against", "er"], "two tables"),
        (["--format", "csv", "--matrix"], "a row a run"),
        (["--html", "page.html", "--against", "er"], "a page of its own"),
    ],
)
def test_what_cannot_be_given_is_said(runs, capsys, arguments, complaint):
    with pytest.raises(SystemExit):
        main(["report", str(runs), *arguments])
    assert complaint in capsys.readouterr().err


def test_the_matrix_of_a_group_is_a_table_for_latex(tmp_path, capsys):
    for seed in (0, 1):
        finished_run("er", seed, base=0.5).save(tmp_path / str(seed))
    main(["report", str(tmp_path), "--matrix", "--format", "latex"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == r"\begin{tabular}{lrrrr}"
    assert printed[2] == f"episode & {' & '.join(TASKS)} \\\\"
    assert printed[5] == r"2 & 51.10 & 52.10 &  &  \\"
    assert printed[-1] == "% er on split-digits: test accuracy in percent after each episode, mean over 2 seeds."


@pytest.fixture
def mixed(tmp_path):
    """Runs on two benchmarks, one of which is the name of two sets of data."""
    finished_run("er", base=0.5).save(tmp_path / "digits")
    for number, data in enumerate(("first", "second")):
        replace(finished_run("er", number, "own", base=0.6), data=data).save(tmp_path / data)
    return tmp_path


def read_table(file, shape):
    if shape == "parquet":
        return str(pytest.importorskip("pyarrow.parquet").read_table(file).to_pylist())
    return file.read_text()


@pytest.mark.parametrize("shape", ["csv", "parquet", "latex", "markdown"])
def test_tables_for_elsewhere_are_of_one_benchmark_unless_several_are_named(mixed, capsys, shape):
    arguments = ["report", str(mixed), "--format", shape, "--out", str(mixed / "table")]
    for benchmarks, told in (
        ((), r"on 3 benchmarks (split-digits; own, data first; own, data second)"),
        (("--benchmark", "own"), "on 2 benchmarks (own, data first; own, data second)"),
        (("--benchmark", "own, data third"), "unknown benchmark 'own, data third'; did you mean 'own, data first'?"),
    ):
        with pytest.raises(SystemExit):
            main([*arguments, *benchmarks])
        assert told in capsys.readouterr().err
        assert not (mixed / "table").exists()
    for chosen, there, missing in (
        ("split-digits", "split-digits", "own"),
        ("own, data first", "own", "split-digits"),
        ("all", "own, data second", "nothing"),
    ):
        main([*arguments, "--benchmark", chosen])
        written = read_table(mixed / "table", shape)
        assert there in written
        assert missing not in written


def test_rows_of_several_benchmarks_say_which_and_groups_are_of_one(mixed, capsys):
    main(["report", str(mixed), "--format", "csv", "--benchmark", "all", "--columns", "benchmark", "group", "seed"])
    rows = [line.rsplit(",", 2) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["split-digits", '"own, data first"', '"own, data second"']
    assert len({group for _, group, _ in rows}) == 3
    for shape in ("text", "csv"):
        with pytest.raises(SystemExit):
            main(["report", str(mixed), "--format", shape, "--benchmark", "all", "--columns", "method"])
        assert "--columns leaves out which" in capsys.readouterr().err
    assert len({row["group"] for row in run_rows([finished_run("er", seed) for seed in (0, 1)])}) == 1


def test_a_frame_is_of_one_benchmark_unless_several_are_named(mixed):
    pytest.importorskip("pandas")
    with pytest.raises(SettingsError, match=r"on 3 benchmarks .*benchmark=NAME"):
        frame(mixed)
    assert [*frame(mixed, benchmark="split-digits")["benchmark"]] == ["split-digits"]
    assert len(frame(mixed, benchmark="all")) == 3
    assert [*frame(mixed, benchmark=["own, data second", "split-digits"])["seed"]] == [1, 0]
