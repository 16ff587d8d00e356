"""Pages: what they hold, that they need nothing else, and that a real browser shows them."""

import base64
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evidence_toys import TASKS, finished_run, saved_runs
from tabs import watched_tab
from zoolearn.cli import main
from zoolearn.errors import DataError, StoreError
from zoolearn.lab.evidence import average_over_episodes, figures
from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.lab.pages import NOTICE, page
from zoolearn.lab.pages.sources import gathered
from zoolearn.lab.report import grouped, labels
from zoolearn.lab.studies.study import Study


def some_figures() -> list[Figure]:
    return figures([finished_run("model-zoo", seed) for seed in (0, 1)] + [finished_run("isolated", base=0.5)])


def data_of(html: str) -> list[dict[str, Any]]:
    match = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def a_study() -> Study:
    gains = Map(["a", "b"], ["1", "2"], [[None, 2.0], [-1.0, None]], "task", "with", "gain", centred=True)
    slider = {str(m): Plot([Panel("", [Series("risk", [1, 2], [m, 2 * m])], "k")], "risk") for m in range(5)}
    charts = [Figure("gains", "Gains", "", {"": gains}), Figure("risk", "Risk", "", slider, "m")]
    return Study("competition", "toys", {}, charts, environment={})


class TestGathered:
    def test_a_study_that_is_there_twice_is_shown_once_and_others_get_names_of_their_own(self, tmp_path: Path):
        study = a_study()
        other = replace(study, figures=[replace(figure, caption="with more samples") for figure in study.figures])
        for name, saved in (("one", study), ("copy", study), ("other", other)):
            saved.save(tmp_path / name)
        _, figures = gathered([tmp_path])
        assert [(figure.name, figure.caption) for figure in figures] == [
            ("gains", ""),
            ("risk", ""),
            ("gains-2", "with more samples"),
            ("risk-2", "with more samples"),
        ]


class TestFigures:
    def test_the_mean_over_seeds_has_a_band_and_one_seed_has_none(self):
        runs = [finished_run("model-zoo", seed) for seed in (0, 1)] + [finished_run("isolated")]
        groups = grouped(runs)
        zoo, isolated = (
            average_over_episodes(list(zip(labels(groups), groups, strict=True))).frames[""].panels[0].series
        )
        assert zoo.y[0] == pytest.approx(60.1)
        assert zoo.spread[0] == pytest.approx(0.141, abs=1e-3)
        assert isolated.spread == [None] * 4

    def test_a_task_has_a_line_from_the_episode_that_met_it_and_a_cross_where_isolated_stands(self):
        chart = next(figure for figure in some_figures() if figure.name.endswith("task-accuracy")).frames[""]
        third = chart.panels[2]
        assert third.title == TASKS[2]
        assert [(series.name, series.style, list(series.x)) for series in third.series] == [
            ("model-zoo", "line", [3, 4]),
            ("isolated", "crosses", [3]),
        ]

    def test_the_map_marks_what_was_drawn_and_tells_the_weights(self):
        figure = next(figure for figure in some_figures() if figure.name.endswith("episode-map"))
        chart = figure.frames["model-zoo, seed 0"]
        assert [row[3] for row in chart.marks] == [True] * 4
        assert "weight in the draw 0.333" in chart.notes[0][3]
        assert chart.values[3][0] is None

    def test_unfinished_runs_are_named_so_and_left_out_of_costs(self):
        drawn = figures([finished_run(), finished_run("isolated", episodes=2)])
        cost = next(figure for figure in drawn if figure.name.endswith("cost"))
        assert {series.name for panel in cost.frames[""].panels for series in panel.series} == {"model-zoo"}
        names = [series.name for series in drawn[0].frames[""].panels[0].series]
        assert "isolated, 2/4 episodes" in names

    def test_a_figure_survives_json(self):
        for figure in some_figures():
            assert Figure.from_json(json.loads(json.dumps(figure.to_json()))).csv() == figure.csv()

    def test_csv_has_a_line_for_every_point_of_every_frame(self):
        figure = next(figure for figure in some_figures() if figure.name.endswith("episode-map"))
        rows = list(csv.DictReader(io.StringIO(figure.csv())))
        assert len(rows) == 3 * (1 + 2 + 3 + 4)
        assert rows[0]["run"] == "model-zoo, seed 0"
        assert float(rows[0]["accuracy, %"]) == 60.0

    def test_ragged_data_is_refused(self):
        with pytest.raises(DataError, match="2 points but 1 in y"):
            Series("short", [1, 2], [1.0])
        with pytest.raises(DataError, match="not 1 rows of 2 columns"):
            Map(["a"], ["b", "c"], [[1.0]], "", "", "")


class TestPage:
    def test_it_needs_no_network_and_says_whose_charts_they_are(self):
        html = page("runs", [], some_figures())
        own = re.sub(r'<script type="text/plain" id="library">.*?</script>', "", html, flags=re.DOTALL)
        assert not re.search(r'(?:src|href)="(?!#|data:)', own)
        assert "http://" not in own.replace("http://www.w3.org", "")
        assert NOTICE in html

    def test_it_weighs_less_than_a_megabyte(self):
        assert len(page("runs", [], some_figures())) < 1_000_000

    def test_names_cannot_break_out_of_the_page(self):
        html = page("<b>", [], some_figures())
        assert "<b></h1>" not in html
        assert "cats <and>" not in html
        assert data_of(html)[1]["frames"][0]["panels"][0]["title"] == TASKS[0]

    def test_every_figure_has_its_data_and_its_command(self):
        html = page("runs", [], some_figures())
        links = re.findall(r'download="([^"]+)\.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', html)
        assert {name: base64.b64decode(content).decode() for name, content in links} == {
            figure.name: figure.csv() for figure in some_figures()
        }
        assert html.count("zoo run model-zoo split-digits --epochs 1 --seeds 2") == 4 + 4  # shown, and in the data

    def test_the_command_writes_runs_and_studies_and_says_what_the_page_weighs(self, tmp_path, capsys):
        saved_runs(tmp_path / "runs")
        a_study().save(tmp_path / "runs" / "study")
        finished_run("fine-tune").save(tmp_path / "runs" / "study" / "part")
        main(["report", str(tmp_path / "runs"), "--html", str(tmp_path / "page.html")])
        assert "4 runs, 6 figures, 0." in capsys.readouterr().err
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert [figure["title"] for figure in data_of(html)][-2:] == ["Gains", "Risk"]
        assert "fine-tune" not in html  # a part of a study

    def test_an_empty_folder_is_an_error(self, tmp_path, capsys):
        with pytest.raises(SystemExit):
            main(["report", str(tmp_path), "--html", str(tmp_path / "page.html")])
        assert "no run and no study" in capsys.readouterr().err

    def test_a_study_of_another_format_is_refused(self, tmp_path):
        a_study().save(tmp_path)
        file = tmp_path / "study.json"
        file.write_text(file.read_text().replace('"gain"', '"loss"'))
        with pytest.raises(StoreError, match="altered"):
            Study.load(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    saved_runs(folder / "runs")
    a_study().save(folder / "runs" / "study")
    main(["report", str(folder / "runs"), "--html", str(folder / "page.html")])
    return folder / "page.html"


def opened(browser: Any, file: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    return watched_tab(browser, file.as_uri(), ("file:", "data:", "blob:"), width=width, scheme=scheme)


class TestInABrowser:
    @pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
    def test_it_opens_without_complaint_fits_the_screen_and_looks_like_something(self, browser, written, width, scheme):
        tab, complaints = opened(browser, written, width, scheme)
        assert complaints == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator(".chart .main-svg").count() >= 6
        assert tab.evaluate("document.documentElement.dataset.theme") == scheme
        assert len(tab.screenshot(full_page=True)) > 30_000
        tab.close()

    def test_hover_csv_frames_and_theme_work(self, browser, written, tmp_path):
        tab, complaints = opened(browser, written, 1280, "light")
        figure = tab.locator("#split-digits-episode-map")
        figure.scroll_into_view_if_needed()
        drawn = tab.locator("#chart-split-digits-episode-map .nsewdrag").first.bounding_box()
        tab.mouse.move(drawn["x"] + drawn["width"] * 0.9, drawn["y"] + drawn["height"] * 0.1)
        tab.wait_for_selector("#chart-split-digits-episode-map .hoverlayer .hovertext")
        assert "weight in the draw" in tab.locator("#chart-split-digits-episode-map .hoverlayer").text_content()
        with tab.expect_download() as download:
            figure.get_by_text("Data (CSV)").click()
        download.value.save_as(tmp_path / "data.csv")
        assert (tmp_path / "data.csv").read_text().startswith("run,task,episode,")
        slider = tab.locator('input[data-figure="risk"]')
        slider.fill("4")
        assert tab.locator("#value-risk").text_content() == "4"
        assert tab.evaluate("document.getElementById('chart-risk').data[0].y") == [4, 8]
        tab.click("#theme")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        assert complaints == []
        tab.close()
