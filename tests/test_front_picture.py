"""The picture of the README is what its code makes of the recorded runs, and tells what they say."""

import re
from importlib import import_module
from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

import pytest

from zoolearn.errors import DataError
from zoolearn.lab.groups import one_per_seed
from zoolearn.lab.paper.compare import all_runs

ROOT = Path(__file__).parent.parent
MADE_BY = run_path(str(ROOT / "docs" / "front_picture.py"))
THEMES, picture = MADE_BY["THEMES"], MADE_BY["picture"]


@pytest.fixture(scope="module")
def runs():
    return all_runs([ROOT / "results"])


@pytest.mark.parametrize("theme", THEMES)
def test_the_committed_picture_is_the_one_that_the_runs_give(runs, theme):
    assert picture(runs, theme) == (ROOT / "docs" / f"zoo-{theme}.svg").read_text(encoding="utf-8")


def test_it_does_not_depend_on_the_order_of_the_runs(runs):
    assert picture(runs[::-1], "light") == picture(runs, "light")


def test_the_zoo_rises_fine_tuning_falls_and_isolated_nets_stay(runs):
    title = ElementTree.fromstring(picture(runs, "dark"))[0].text
    told = {name: (float(a), float(b)) for name, a, b in re.findall(r"([a-z -]+) ([\d.]+) to ([\d.]+)", title)}
    first = [100 * run.accuracy[0][0] for run in one_per_seed(runs) if _plain(run, "isolated")]
    assert len(first) == 3
    mean = round(sum(first) / 3, 1)
    assert told[" isolated nets"] == (mean, mean)
    assert told[" model zoo"][0] == mean
    assert told[" model zoo"][1] > mean + 3
    assert told[" fine-tuning"][1] < mean - 30


def _plain(run, method):
    what = (run.method, run.benchmark, run.spec.changes, run.spec.options)
    return what == (method, "split-cifar100", {"epochs": 1}, {})


def test_runs_of_preset_beyond_with_settings_that_were_deleted_are_none_of_its_curve(runs):
    today = [run for run in runs if not run.spec.deleted]
    assert len(today) < len(runs)
    assert picture(today, "light") == picture(runs, "light")


def test_missing_runs_are_named(runs):
    with pytest.raises(DataError, match=r"0 finished run.* of fine-tune on split-cifar100 with one epoch"):
        picture([run for run in runs if run.method != "fine-tune"], "light")


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_and_the_table_of_growing_tasks_are_those_that_the_runs_give(runs, theme, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    growing_picture = import_module("growing_picture")
    rows = growing_picture.rows_of(runs)
    assert growing_picture.picture(rows, theme) == (ROOT / "docs" / f"growing-{theme}.svg").read_text(encoding="utf-8")
    assert growing_picture.table(rows) in (ROOT / "docs" / "growing.md").read_text(encoding="utf-8")
    ends = {row.label: row.mean("end") for row in rows}
    own = [run for run in runs if run.method == "fine-tune" and "arrivals" in run.spec.options]
    assert ends["fine-tuning, grown"] == pytest.approx(
        sum(100 * sum(run.accuracy[-1]) / len(run.tasks) for run in own) / len(own)
    )
    with pytest.raises(DataError, match="no finished runs of the study of growing tasks"):
        growing_picture.rows_of([run for run in runs if run.benchmark != "coarse-cifar100"])
