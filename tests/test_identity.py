"""Runs that differ in data, in code of one's own or in the size of its nets are never taken for the same run."""

import importlib
import linecache
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

from evidence_toys import finished_run
from toys import learner_of, pictures
from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError
from zoolearn.lab.differences import differences
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.labels import labels
from zoolearn.lab.report import report
from zoolearn.lab.sections import sections
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.runs.code import digest
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, progress, run

STREAM = Benchmark("own", (pictures("dots"), pictures("rings"), pictures("waves")))
OTHER = Benchmark("own", (pictures("dots"), pictures("rings", seed=7), pictures("waves")))

SOURCE = """
from zoolearn.methods.bases.single_net import FineTune

class Own(FineTune):
    step = {step}
"""


def own_method(folder: Path, step: int) -> type[FineTune]:
    """A method in a file outside the package, as it is at this moment."""
    file = folder / "own.py"
    file.write_text(SOURCE.format(step=step))
    linecache.checkcache(str(file))
    module = ModuleType("own")
    module.__file__ = str(file)
    sys.modules["own"] = module
    exec(compile(file.read_text(), file, "exec"), module.__dict__)
    return module.Own


FILES = {
    "steps": "STEP = 1\nUNUSED = 1\n\ndef scaled(value):\n    return STEP * value\n",
    "helpers": "import steps as other\n\ndef twice(value):\n    return 2 * other.scaled(value)\n",
    "method": "from helpers import *\nLEAST = {'a': 1}\nsize = 1\n\ndef unused():\n    pass\n\ndef bounded(value):\n"
    "    return max(LEAST['a'], twice(value.size))\n\ndef method():\n    return bounded(1)\n",
}


def digest_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: tuple[str, str]) -> str:
    """The digest of a function in a file that uses others, some of them changed."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(sys, "dont_write_bytecode", True)
        for name, text in FILES.items():
            (folder / f"{name}.py").write_text(text.replace(*changes.get(name, ("", ""))))
            patch.delitem(sys.modules, name, raising=False)
        linecache.checkcache()
        importlib.invalidate_caches()
        try:
            return digest(importlib.import_module("method").method)
        finally:
            for name in FILES:
                sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": ("bounded(1)", "bounded(2)")},
        {"method": ("max(", "min(")},
        {"method": ("'a': 1", "'a': 2")},
        {"helpers": ("2 *", "3 *")},
        {"steps": ("STEP = 1", "STEP = 2")},
        {"steps": ("return STEP", "return 9 * STEP")},
    ],
)
def test_what_a_method_uses_of_code_beside_it_is_part_of_its_source(tmp_path: Path, monkeypatch, changes):
    assert digest_of(tmp_path, monkeypatch) != digest_of(tmp_path, monkeypatch, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": ("pass", "return 1")},
        {"method": ("size = 1", "size = 2")},
        {"steps": ("UNUSED = 1", "UNUSED = 2\nMORE = 3")},
    ],
)
def test_what_it_does_not_use_is_none(tmp_path: Path, monkeypatch, changes):
    assert digest_of(tmp_path, monkeypatch) == digest_of(tmp_path, monkeypatch, **changes)


def net(width: int):
    def net(shape, dropout=0.0):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, width))

    return net


def table(*runs: Results) -> list[int]:
    return [len(group.runs) for group in group_by_settings(runs)]


def test_two_data_sets_under_one_name_are_two_rows():
    runs = [run(learner_of(FineTune, seed=seed), stream) for seed, stream in enumerate((STREAM, STREAM, OTHER))]
    assert table(*runs) == [2, 1]
    assert runs[0].identity != replace(runs[0], data=runs[2].data).identity


def test_two_data_sets_under_one_name_are_called_so_and_never_compared():
    runs = [run_on(method, data) for method in ("er", "ewc") for data in ("a", "b")]
    table = report(runs)
    assert [row[:2] for row in table.rows] == [
        (m, f"split-digits, data {d}") for m in ("er", "ewc") for d in ("a", "b")
    ]
    accuracy = table.header.index("average accuracy")
    assert {row for row, column in table.best if column == accuracy} == {0, 1}, "the best of each data set"
    assert [row[:2] for row in differences(runs, "er").rows] == [(f"split-digits, data {d}", "ewc") for d in ("a", "b")]
    assert [section.title for section in sections(runs)] == ["split-digits, data a", "split-digits, data b"]
    with pytest.raises(SettingsError, match="'er' is alone on its tasks and data"):
        differences([run_on("er", "a"), run_on("ewc", "b")], "er")


def run_on(method: str, data: str) -> Results:
    return replace(finished_run(method, base=0.6 if method == "er" else 0.5), data=data)


def test_nets_and_methods_that_names_do_not_tell_apart_are_told_apart_in_tables():
    sources = ({"Own": "a" * 16}, {"Own": "b" * 16})
    runs = [replace(finished_run("er"), method="Own", source=source, parameters=3) for source in sources]
    assert report(runs).header[2] == "settings"
    assert [row[2] for row in report(runs).rows] == ["source of Own=aaaaaaaa", "source of Own=bbbbbbbb"]
    assert labels(group_by_settings(runs)) == ["Own (source of Own=aaaaaaaa)", "Own (source of Own=bbbbbbbb)"]
    runs = [replace(finished_run("er"), parameters=count) for count in (2, 256)]
    assert [row[2] for row in report(runs).rows] == ["parameters=2", "parameters=256"]


def test_orders_and_samples_that_a_seed_drew_are_of_the_same_data():
    first, second = (STREAM.shuffle(seed).per_class(4, seed) for seed in (1, 2))
    assert table(*(run(learner_of(FineTune, seed=1), stream) for stream in (first, second))) == [2]


def test_nets_of_two_widths_under_one_name_are_two_rows():
    runs = [run(learner_of(FineTune, backbone=net(width), seed=seed), STREAM) for seed, width in enumerate((2, 16))]
    assert table(*runs) == [1, 1]
    assert [one.parameters for one in runs] == [64 * 2 + 2 + 2 * 2 + 2, 64 * 16 + 16 + 16 * 2 + 2]


def test_a_method_that_was_changed_is_another_and_goes_on_only_anyway(tmp_path: Path, caplog):
    before = own_method(tmp_path, step=1)
    _ = next(episodes(learner_of(before), STREAM, tmp_path / "run"))
    _ = next(episodes(learner_of(own_method(tmp_path, step=1)), STREAM, tmp_path / "run"))  # nothing was changed
    after = own_method(tmp_path, step=2)
    with pytest.raises(SettingsError, match=r"begun with other code: the source of Own was changed.*--continue-anyway"):
        run(learner_of(after), STREAM, tmp_path / "run")
    *_, continued = [
        e for e in progress(learner_of(after), STREAM, tmp_path / "run", anyway=True) if isinstance(e, Results)
    ]
    assert continued.changes == ["after episode 1 the source of Own was changed"]
    assert "the source of Own was changed" in caplog.text
    assert Results.load(tmp_path / "run").changes == continued.changes
    assert "after episode 1 the source of Own was changed" in " ".join(report([continued]).notes)
    others = [run(learner_of(after, seed=1), STREAM), run(learner_of(own_method(tmp_path, 1), seed=2), STREAM)]
    assert table(*others, continued) == [1, 1, 1]  # what is of both codes is averaged with neither


def test_a_finished_run_keeps_its_code_and_says_that_its_numbers_are_older(tmp_path: Path, caplog):
    before = run(learner_of(own_method(tmp_path, step=1)), STREAM, tmp_path / "run")
    changed = own_method(tmp_path, step=2)
    *_, again = progress(learner_of(changed), STREAM, tmp_path / "run", anyway=True)
    assert isinstance(again, Results)
    assert again.source == before.source != run(learner_of(changed), STREAM).source
    assert "since then the source of Own was changed: its numbers are those of before" in caplog.text


def test_an_older_record_that_does_not_tell_its_data_is_averaged_only_where_there_is_no_doubt():
    old, new, other = (replace(finished_run(seed=seed), data=data) for seed, data in enumerate(("", "a", "b")))
    assert table(old, new) == [2]
    assert table(old, new, other) == [1, 1, 1]


def test_our_own_methods_and_backbones_have_no_source_to_tell():
    results = run(learner_of(FineTune), STREAM)
    assert (results.source, results.parameters) == ({}, None)
