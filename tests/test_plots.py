"""Figures for print: files of every kind, and a clear word where matplotlib is missing."""

import sys

import pytest

from evidence_toys import finished_run, saved_runs
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.lab.drawing import _number_columns, style
from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.lab.plots import Print, draw, save_figures
from zoolearn.lab.run_figures import figures

STARTS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


@pytest.mark.parametrize("kind", STARTS)
def test_every_figure_becomes_a_file_of_the_kind_asked_for(tmp_path, kind):
    pytest.importorskip("matplotlib")
    drawn = figures([finished_run(), finished_run("isolated")])[:2]
    paths = save_figures(drawn, tmp_path, kind)
    assert [path.name for path in paths] == [f"split-digits-ranking.{kind}", f"split-digits-average-accuracy.{kind}"]
    assert all(path.read_bytes().startswith(STARTS[kind]) for path in paths)


def test_a_frame_is_a_file_and_the_same_figure_the_same_bytes(tmp_path):
    pytest.importorskip("matplotlib")
    frames = {
        "seed 0": Map(["a"], ["1", "2"], [[1.0, None]], "task", "episode", "accuracy", marks=[[True, False]]),
        "few": Plot([Panel("", [Series("means", ["1 %", "5 %"], [1.0, 2.0], [0.1, None], "points")])], "accuracy"),
    }
    figure = Figure("chosen", "Chosen", "", frames, "run")
    first = [path.read_bytes() for path in save_figures([figure], tmp_path / "one", "svg")]
    again = save_figures([figure], tmp_path / "two", "svg")
    assert [path.name for path in again] == ["chosen-seed-0.svg", "chosen-few.svg"]
    assert [path.read_bytes() for path in again] == first


def test_no_point_is_moved_or_cut_and_all_are_within_their_axes():
    pytest.importorskip("matplotlib")
    same = [
        Series(name, [400.0], [y], (5.0,), "points", colour) for colour, (name, y) in enumerate([("a", 60), ("b", 60)])
    ]
    far = Series("c", [1.0, 900.0], [0.5, 100.0], (), "line", 2)
    (ax,) = draw(Plot([Panel("", [*same, far], "samples")], "accuracy, %"), Print()).axes
    assert [list(map(float, line.get_xdata())) for line in ax.lines[:3]] == [[400.0], [400.0], [1.0, 900.0]]
    assert not any(artist.get_clip_on() for artist in [*ax.lines, *ax.collections])
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < 1
    assert right > 900
    assert low < 0.5
    assert high == 100.0  # nothing is more


def test_names_stay_names_and_rows_are_named_from_top_to_bottom():
    pytest.importorskip("matplotlib")
    series = Series("accuracy", ["$best$", "next"], [2.0, 1.0], (), "points")
    with style(font_size=8):
        (ax,) = draw(Plot([Panel("", [series], turned=True)], "accuracy, %"), Print()).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["$best$", "next"]
    assert not ax.get_yticklabels()[0].get_parse_math()
    assert ax.yaxis_inverted()


def test_size_title_and_words_are_those_asked_for(tmp_path):
    pytest.importorskip("matplotlib")
    chart = Plot([Panel("", [Series(name, [1, 2], [1.0, 2.0]) for name in ("er", "ewc")], "episode")], "accuracy, %")
    how = Print(3.25, 2.5, {"er": "ER", "episode": "tasks seen"}, title=False)
    drawing = draw(chart, how)
    assert tuple(drawing.get_size_inches()) == (3.25, 2.5)
    assert drawing.axes[0].get_xlabel() == "tasks seen"
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["ER", "ewc"]
    (path,) = save_figures([Figure("f", "A title", "", {"": chart})], tmp_path, "svg", how)
    assert "A title" not in path.read_text()
    with pytest.raises(SettingsError, match="width of a figure is 0 inches; give 1 to 100"):
        Print(0)


def test_the_command_draws_what_is_asked_for(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    saved_runs(tmp_path / "runs")
    main(
        [
            "plot",
            str(tmp_path / "runs"),
            "--to",
            str(tmp_path),
            "--format",
            "svg",
            "--only",
            "ranking",
            "--names",
            "isolated=Alone",
        ]
    )
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "split-digits-ranking.svg")]
    with pytest.raises(SystemExit):
        main(["plot", str(tmp_path / "runs"), "--only", "rankings"])
    assert "no figure has 'rankings' in its name; there are: split-digits-ranking," in capsys.readouterr().err


def test_the_command_writes_figures_and_their_data(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    saved_runs(tmp_path / "runs")
    main(["plot", str(tmp_path / "runs"), "--to", str(tmp_path / "figures"), "--format", "svg"])
    assert len(capsys.readouterr().out.splitlines()) == len(list((tmp_path / "figures").glob("*.svg"))) == 6
    assert (tmp_path / "figures" / "split-digits-cost.csv").read_text().startswith("panel,series,x,y")


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingsError, match=r"pip install 'zoolearn\[plot\]'"):
        save_figures([], tmp_path)


def test_logarithmic_axes_have_few_labels_that_can_be_read():
    from matplotlib.figure import Figure as Drawing

    for values, wanted in (
        ([2, 30], ["2", "5", "10", "20"]),
        ([0.003, 0.4], ["0.01", "0.1"]),
        ([2e3, 9e6], ["10k", "1M"]),
    ):
        ax = Drawing().subplots()
        ax.plot(values, [0, 1])
        _number_columns(ax, values, True, 500)
        low, high = sorted(values)
        places = [place for place in ax.xaxis.get_majorticklocs() if low <= place <= high]
        labels = [ax.xaxis.get_major_formatter()(place, 0) for place in places]
        assert set(wanted) <= set(labels)
        assert len(labels) <= 5
        assert not any(label.get_text() for label in ax.xaxis.get_minorticklabels())
