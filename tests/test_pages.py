"""Pages: what they open on, what they hold, that they need nothing else, and that a real browser shows them."""

import base64
import csv
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evidence_toys import TASKS, finished_run, saved_runs
from tabs import watched_tab
from zoolearn.cli import main
from zoolearn.errors import DataError, SettingsError, StoreError
from zoolearn.lab.figures import Figure, Map, Panel, Plot, Series
from zoolearn.lab.pages import page
from zoolearn.lab.pages.charts import chart_html
from zoolearn.lab.report import gather
from zoolearn.lab.run_figures import average_over_episodes, figures, section_figures
from zoolearn.lab.sections import sections
from zoolearn.lab.studies.study import Study
from zoolearn.runs.results import Results

pytestmark = pytest.mark.slow  # pages are drawn and opened in a browser


def some_runs() -> list[Results]:
    return [finished_run("model-zoo", seed) for seed in (0, 1)] + [finished_run("isolated", base=0.5)]


def some_figures() -> list[Figure]:
    return figures(some_runs())


def named(ending: str) -> Figure:
    return next(figure for figure in some_figures() if figure.name.endswith(ending))


def a_study() -> Study:
    gains = Map(["a", "b"], ["1", "2"], [[None, 2.0], [-1.0, None]], "task", "with", "gain", centred=True)
    slider = {str(m): Plot([Panel("", [Series("risk", [1, 2], [m, 2 * m])], "k")], "risk") for m in range(5)}
    charts = [Figure("gains", "Gains", "", {"": gains}), Figure("risk", "Risk", "", slider, "m")]
    return Study("competition", "toys", {}, charts, environment={})


class TestGathered:
    def test_a_study_that_is_there_twice_is_shown_once(self, tmp_path: Path):
        study = a_study()
        other = replace(study, figures=[replace(figure, caption="with more samples") for figure in study.figures])
        for name, saved in (("one", study), ("copy", study), ("other", other)):
            saved.save(tmp_path / name)
        _, found = gather([tmp_path])
        assert [(figure.name, figure.caption) for figure in found] == [
            ("gains", ""),
            ("risk", ""),
            ("gains", "with more samples"),
            ("risk", "with more samples"),
        ]


class TestFigures:
    def test_the_mean_over_seeds_has_a_band_and_one_seed_has_none(self):
        (section,) = sections(some_runs())
        zoo, isolated = average_over_episodes(section).frames[""].panels[0].series
        assert zoo.y[0] == pytest.approx(60.1)
        assert zoo.spread[0] == pytest.approx(0.141, abs=1e-3)
        assert isolated.spread == [None] * 4

    def test_a_task_has_a_line_from_the_episode_that_met_it_and_a_cross_where_isolated_stands(self):
        chart = named("task-accuracy").frames[""]
        third = chart.panels[2]
        assert third.title == TASKS[2]
        assert [(series.name, series.style, list(series.x)) for series in third.series] == [
            ("model-zoo", "line", [3, 4]),
            ("isolated", "crosses", [3]),
        ]

    def test_the_map_marks_what_was_drawn_and_tells_the_weights(self):
        chart = named("episode-map").frames["model-zoo, seed 0"]
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
            assert Figure.from_json(json.loads(json.dumps(figure.to_json())), "here").csv() == figure.csv()

    def test_a_figure_that_is_damaged_is_named_with_the_entry(self):
        content = json.loads(json.dumps(some_figures()[0].to_json()))
        content["frames"][0]["y_label"] = 3
        with pytest.raises(StoreError, match=r"study.json is not a figure: y_label is 3; Expected `str`, got `int`"):
            Figure.from_json(content, "study.json")

    def test_csv_has_a_line_for_every_point_of_every_frame_and_all_digits(self):
        third = replace(finished_run(), accuracy=[[1 / 3], [1 / 3] * 2, [1 / 3] * 3, [1 / 3] * 4])
        ranking, *_, maps = figures([third, finished_run("isolated")])
        rows = list(csv.DictReader(io.StringIO(maps.csv())))
        assert len(rows) == 2 * (1 + 2 + 3 + 4)
        assert rows[0]["run"] == "model-zoo, seed 0"
        assert float(rows[0]["accuracy, %"]) == 100 * (1 / 3)
        assert [float(row["y"]) for row in csv.DictReader(io.StringIO(ranking.csv()))][1] == pytest.approx(
            100 / 3, rel=1e-14
        )

    def test_the_first_figure_ranks_the_finished_groups_best_first(self):
        runs = [finished_run("isolated", base=0.5), finished_run("er", base=0.7), finished_run("ewc", episodes=2)]
        (section,) = sections([*runs, finished_run()])
        (series,) = section_figures(section)[0].frames[""].panels[0].series
        assert list(series.x) == ["er", "model-zoo", "isolated"]

    def test_charts_show_the_best_of_each_method_where_there_are_too_many_groups(self):
        zoos = [finished_run(replay=share / 10, base=0.6 + share / 100) for share in range(1, 10)]
        (section,) = sections([*zoos, finished_run("isolated", base=0.1)])
        names = [name for name, _ in section.shown]
        assert names == [*(f"model-zoo (replay=0.{share})" for share in range(9, 2, -1)), "isolated"]
        assert "8 of 10 are drawn" in average_over_episodes(section).caption

    def test_runs_on_other_tasks_are_not_compared(self):
        run = finished_run("isolated", base=0.9)
        cut = replace(run, settings={**run.settings, "benchmark": {"samples_per_class": 5, "samples_seed": 0}})
        assert [section.title for section in sections([finished_run(), cut])] == [
            "split-digits",
            "split-digits, samples per class 5",
        ]

    def test_a_figure_without_a_point_is_left_out(self):
        orders = [TASKS, TASKS[::-1]]
        runs = [replace(finished_run("er", seed), tasks=orders[seed]) for seed in (0, 1)]
        assert [figure.name for figure in figures(runs)] == [  # each task arrives at another time
            f"split-digits-{kind}" for kind in ("average-accuracy", "cost", "episode-map")
        ]

    def test_ragged_data_is_refused(self):
        with pytest.raises(DataError, match="2 points but 1 in y"):
            Series("short", [1, 2], [1.0])
        with pytest.raises(DataError, match="not 1 rows of 2 columns"):
            Map(["a"], ["b", "c"], [[1.0]], "", "", "")


class Elements(HTMLParser):
    """The elements of a page with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def html() -> str:
    """The page of a few runs."""
    return page("Runs", some_runs(), [])


class TestPage:
    def test_it_needs_no_network(self, written):
        html = written.read_text(encoding="utf-8")
        addresses = [values.get(name) for _, values in Elements(html).found for name in ("src", "href", "srcset")]
        assert all(address.startswith(("#", "data:")) for address in addresses if address is not None)
        assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
        assert "url(" not in html

    def test_it_opens_on_one_sentence_one_figure_and_one_table_and_folds_the_rest(self, html):
        opening, folded = html.split("<details", 1)
        order = [
            '<p class="conclusion"><b>model-zoo</b> is highest: 64.60 ± 0.14 %',
            "<figure",
            "<table",
            "The same in all: ",
        ]
        assert [opening.count(part) for part in order] == [1, 1, 1, 1]
        assert sorted(order, key=opening.index) == order
        assert "backbone small-conv" in opening
        assert "epochs 1," in opening
        assert "epochs=1" not in opening
        assert "All 3 runs: accuracy, forgetting, cost" in folded
        assert "<th>average accuracy</th><th>forgetting</th>" in folded

    def test_one_run_is_not_called_runs(self, monkeypatch):
        monkeypatch.setattr("zoolearn.lab.pages.chart_html", lambda *_: "")
        said = page("Runs", [finished_run("er")], [])
        assert "<summary>The run: accuracy, forgetting, cost</summary>" in said
        assert "All 1 runs" not in said

    def test_many_benchmarks_open_on_a_table_of_what_is_highest_on_each(self, monkeypatch):
        monkeypatch.setattr("zoolearn.lab.pages.chart_html", lambda *_: "")
        html = page("Runs", [*some_runs(), finished_run("er", benchmark="split-mnist")], [])
        opening = html.split("<section")[0]
        assert "4 runs of 3 methods on 2 benchmarks." in opening
        assert '<a href="#split-mnist">split-mnist</a></td><td class="label">er</td>' in opening

    def test_a_page_of_a_few_runs_weighs_less_than_a_photograph(self, html):
        assert len(html) < 200_000

    def test_names_cannot_break_out_of_the_page(self):
        evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>$x_1$'
        runs = [
            replace(run, method=evil, benchmark=evil, tasks=[evil + task for task in TASKS], episodes=[
                replace(episode, tasks=[evil + task for task in episode.tasks], weights=None) for episode in run.episodes
            ])
            for run in some_runs()
        ]  # fmt: skip
        study = [replace(figure, name=evil, title=evil, caption=evil, section=evil) for figure in a_study().figures]
        found = Elements(page(evil, runs, study, [evil])).found
        assert [tag for tag, _ in found].count("script") == 1
        assert "img" not in [tag for tag, _ in found]
        assert not [name for _, values in found for name in values if name.startswith("on")]

    def test_every_figure_has_its_data_and_the_commands_are_said_once(self, html):
        links = re.findall(r'download="([^"]+)\.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', html)
        told = [base64.b64decode(content).decode() for _, content in links]
        assert told[:-1] == [figure.csv() for figure in some_figures()]
        assert told[-1].startswith("method,benchmark,seed,")
        assert html.count("zoo run model-zoo split-digits --epochs 1 --seed 1") == 1

    def test_every_point_and_cell_says_its_value(self):
        lines = chart_html(named("average-accuracy").frames[""], "a", "Lines")
        assert lines.count("<title>model-zoo\nepisode 1: 60.1 ± 0.14</title>") == 2  # for desks and for phones
        cells = chart_html(named("episode-map").frames["model-zoo, seed 0"], "b", "Cells")
        assert cells.count("<title>") == 2 * (1 + 2 + 3 + 4)
        assert "trained on\nweight in the draw 0.333</title>" in cells

    def test_two_charts_share_no_name_of_their_parts(self, written):
        found = Elements(written.read_text(encoding="utf-8")).found
        names = [values["id"] for _, values in found if "id" in values]
        assert len(names) == len(set(names))
        used = {str(values["href"])[1:] for tag, values in found if tag == "use"}
        assert used <= set(names)

    def test_runs_of_a_study_are_shown_by_the_study_alone(self, written):
        shown = written.read_text(encoding="utf-8")
        assert re.findall("<h3>(.*?)</h3>", shown)[-2:] == ["Gains", "Risk"]
        assert "fine-tune" not in shown

    def test_without_matplotlib_the_error_names_the_extra(self, monkeypatch):
        for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_svg"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(SettingsError, match=r"pip install 'zoolearn\[plot\]'"):
            page("runs", some_runs(), [])

    def test_a_run_that_has_not_begun_has_a_page_without_figures(self):
        html = page("Runs", [finished_run(episodes=0)], [])
        assert "No run has met all tasks yet." in html
        assert "<figure" not in html

    def test_studies_open_on_what_they_found(self):
        points = Series("at the end", ["1 %", "5 %", "0 %"], [70.0, 75.25, None], [None, 0.5, None], "points")
        gains = Map(["a"], ["1", "2", "3"], [[2.0, -1.0, -3.0]], "", "", "", centred=True, marks=[[True, False, True]], mark_label="beyond two errors")  # fmt: skip
        found = [
            Figure("r", "How much?", "", {"": Plot([Panel("", [points])], "%")}),
            Figure("g", "Gains", "", {"": gains}),
        ]
        assert (
            "How much: 5 % (75.25 ± 0.50) before 1 % (70.00), at the end. Gains: of 3, 1 above zero and 1 below, beyond two errors.</p>"
            in page("", [], found)
        )

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
    finished_run("fine-tune").save(folder / "runs" / "study" / "part")
    main(["report", str(folder / "runs"), "--html", str(folder / "page.html")])
    return folder / "page.html"


def opened(browser: Any, file: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    return watched_tab(browser, file.as_uri(), ("file:", "data:", "blob:"), width=width, scheme=scheme)


class TestInABrowser:
    @pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
    def test_it_opens_without_complaint_and_fits_the_screen(self, browser, written, width, scheme):
        tab, complaints = opened(browser, written, width, scheme)
        tab.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert complaints == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator(".narrow svg").first.is_visible() == (width < 640)
        assert tab.locator(".wide svg").first.is_visible() == (width > 640)
        table = tab.locator("section .scroll").first
        assert table.evaluate("(table) => table.scrollWidth <= table.clientWidth")
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        letters = tab.locator("svg text").first.evaluate("(text) => getComputedStyle(text).fill")
        assert (sum(_rgb(ground)) < sum(_rgb(letters))) == (scheme == "dark")
        tab.close()

    def test_no_mark_is_cut_at_the_edge_of_its_drawing(self, browser, written):
        tab, _ = opened(browser, written, 1280, "light")
        tab.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        cut = tab.evaluate("""[...document.querySelectorAll("svg use, svg path")].filter((mark) => {
            const own = mark.getBoundingClientRect(), all = mark.closest("svg").getBoundingClientRect();
            return own.width && own.left < 0 || own.right > innerWidth || getComputedStyle(mark).clipPath !== "none";
        }).length""")
        assert cut == 0
        assert (
            tab.locator("svg use").first.evaluate("(mark) => getComputedStyle(mark.closest('svg')).overflow")
            == "visible"
        )
        tab.close()

    def test_hover_csv_frames_and_theme_work(self, browser, written, tmp_path):
        tab, complaints = opened(browser, written, 1280, "light")
        tab.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        figure = tab.locator("figure", has_text="What each episode trained on")
        figure.locator(".frame:not([hidden]) .wide path:has(title)").nth(3).hover()
        assert "weight in the draw" in tab.locator(".tip").text_content()
        with tab.expect_download() as download:
            figure.get_by_text("Data (CSV)").click()
        download.value.save_as(tmp_path / "data.csv")
        assert (tmp_path / "data.csv").read_text().startswith("run,task,episode,")
        risk = tab.locator("figure", has_text="Risk")
        risk.locator("input").fill("4")
        assert risk.locator("output").text_content() == "4"
        assert [frame.is_visible() for frame in risk.locator(".frame").all()] == [False] * 4 + [True]
        before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.click(".theme")
        assert sum(_rgb(tab.evaluate("getComputedStyle(document.body).backgroundColor"))) < sum(_rgb(before))
        assert complaints == []
        tab.close()


def _rgb(colour: str) -> list[float]:
    return [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
