"""Figures for print: files of every kind, and a clear word where matplotlib is missing."""

import sys

import pytest

from evidence_toys import finished_run, saved_runs
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.lab.evidence import figures
from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.lab.plots import _log_ticks, draw_plot, save_figures

STARTS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


@pytest.mark.parametrize("kind", STARTS)
def test_every_figure_becomes_a_file_of_the_kind_asked_for(tmp_path, kind):
    pytest.importorskip("matplotlib")
    drawn = figures([finished_run(), finished_run("isolated")])[:2]
    paths = save_figures(drawn, tmp_path, kind)
    assert [path.name for path in paths] == [
        f"split-digits-average-accuracy.{kind}",
        f"split-digits-task-accuracy.{kind}",
    ]
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


def test_points_of_one_category_stand_side_by_side():
    pytest.importorskip("matplotlib")
    series = [Series(name, ["1 %", "5 %"], [1.0, 2.0], (0.1, 0.1), "points") for name in ("then", "now")]
    (ax,) = draw_plot(Plot([Panel("", series)], "accuracy")).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1 %", "5 %"]
    drawn = [bars.lines[0].get_xdata() for bars in ax.containers]
    assert drawn[0][0] < 0 < drawn[1][0] < 0.5 < drawn[0][1] < 1 < drawn[1][1]


def test_the_command_writes_figures_and_their_data(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    saved_runs(tmp_path / "runs")
    main(["plot", str(tmp_path / "runs"), "--to", str(tmp_path / "figures"), "--format", "svg"])
    assert len(capsys.readouterr().out.splitlines()) == len(list((tmp_path / "figures").glob("*.svg"))) == 7
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
        _log_ticks(ax, values)
        low, high = sorted(values)
        places = [place for place in ax.xaxis.get_majorticklocs() if low <= place <= high]
        labels = [ax.xaxis.get_major_formatter()(place, 0) for place in places]
        assert set(wanted) <= set(labels)
        assert len(labels) <= 5
        assert not any(label.get_text() for label in ax.xaxis.get_minorticklabels())
