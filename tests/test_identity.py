"""Runs that differ in data, in code of one's own or in the size of its nets are never taken for the same run."""

import linecache
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

from evidence_toys import finished_run
from toys import learner_of, pictures
from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.report import report
from zoolearn.methods.bases.single_net import FineTune
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
    import sys

    sys.modules["own"] = module
    exec(compile(file.read_text(), file, "exec"), module.__dict__)
    return module.Own


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


def test_orders_and_samples_that_a_seed_drew_are_of_the_same_data():
    first, second = (STREAM.shuffled(seed).per_class(4, seed) for seed in (1, 2))
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
    assert table(run(learner_of(after, seed=1), STREAM), run(learner_of(own_method(tmp_path, 3)), STREAM)) == [1, 1]


def test_an_older_record_that_does_not_tell_its_data_is_averaged_only_where_there_is_no_doubt():
    old, new, other = (replace(finished_run(seed=seed), data=data) for seed, data in enumerate(("", "a", "b")))
    assert table(old, new) == [2]
    assert table(old, new, other) == [1, 1, 1]


def test_our_own_methods_and_backbones_have_no_source_to_tell():
    results = run(learner_of(FineTune), STREAM)
    assert (results.source, results.parameters) == ({}, None)
