import re
from inspect import signature
from pathlib import Path
from statistics import fmean

import pytest

from zoolearn.cli import main
from zoolearn.data.benchmarks import BENCHMARKS, benchmark
from zoolearn.errors import SettingsError
from zoolearn.lab.groups import one_per_seed
from zoolearn.lab.paper.compare import all_runs
from zoolearn.lab.presets import find_preset
from zoolearn.lab.published import EVERY, PRESETS, Preset
from zoolearn.methods.registry import settings_of
from zoolearn.runs.settings import flatten
from zoolearn.runs.spec import RunSpec


@pytest.mark.parametrize(
    "preset", PRESETS, ids=lambda preset: f"{preset.name}-{preset.spec.method}-{preset.spec.benchmark}"
)
def test_a_preset_names_things_that_exist_and_makes_a_learner(preset):
    assert preset.spec.benchmark in {*BENCHMARKS, EVERY}
    takes = signature(BENCHMARKS.get(preset.spec.benchmark, benchmark)).parameters
    assert preset.spec.making.keys() <= takes.keys()
    made = flatten(settings_of(preset.spec.learner()))
    assert {name: made[name] for name in preset.spec.settings} == preset.spec.settings


def test_no_preset_hides_another():
    keys = [(preset.name, preset.spec.method, preset.spec.benchmark) for preset in PRESETS]
    assert len(set(keys)) == len(keys)


def test_an_unknown_preset_is_corrected():
    with pytest.raises(SettingsError, match="did you mean 'tag-2022'"):
        find_preset("tag-202", "er", "split-cifar100")


def test_flags_have_their_say_over_a_preset(tmp_path, monkeypatch):
    settings, options = {"backbone": "mlp-100", "epochs": 1, "lr": 0.5}, {"after_tasks": 2, "task_order": 1}
    preset = Preset("toy", RunSpec("isolated", "split-digits", settings, options), "1", "us")
    monkeypatch.setattr("zoolearn.lab.presets.PRESETS", (preset,))
    words = ["run", "isolated", "split-digits", "--first-tasks", "3", "--preset", "toy", "--lr", "0.25"]
    main([*words, "--out", str(tmp_path)])
    from zoolearn.runs.results import Results

    settings = Results.load(tmp_path).settings
    assert (settings["backbone"], settings["recipe"]["epochs"], settings["recipe"]["lr"]) == ("mlp-100", 1, 0.25)
    assert settings["benchmark"] == {"task_order": 1, "first_tasks": 3, "after_tasks": 2}


def test_list_shows_every_preset_with_the_number_that_it_aims_at(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["list", "--presets"])
    out = capsys.readouterr().out
    assert all(f"--preset {preset.name}" in out and preset.target in out for preset in PRESETS)


def test_presets_of_an_idea_are_for_every_benchmark():
    for name in BENCHMARKS:
        beyond = find_preset("beyond", "model-zoo", name).spec.settings
        assert (beyond["grow"], beyond["chains"], beyond["flip_tta"]) == ("warm-start", 3, True)
        assert find_preset("paper", "model-zoo", name).spec.settings == {}
    with pytest.raises(SettingsError, match="isolated on split-mnist: unknown preset 'beyond'"):
        find_preset("beyond", "isolated", "split-mnist")


@pytest.mark.parametrize("name", ["beyond", "beyond-fast"])
def test_what_a_preset_of_ours_promises_is_what_its_recorded_runs_have(name):
    preset = find_preset(name, "model-zoo", "split-cifar100")
    wanted = {"epochs": 1, "precision": "bfloat16", **preset.spec.settings}
    recorded = [run for run in all_runs([Path(__file__).parent.parent / "results"]) if run.method == "model-zoo"]
    here = [run for run in one_per_seed(recorded) if run.spec.changes == wanted and run.benchmark == "split-cifar100"]
    whole = [run.summary() for run in here if not run.spec.options]
    assert len(whole) == 3
    told = [float(number.replace(",", "")) for number in re.findall(r"(?<= )[\d,.]*\d(?= )", preset.source)]
    measures = ("average_accuracy", "rows_trained", "rows_asked", "passes")
    accuracy, *cost = (fmean(run[measure] for run in whole) for measure in measures)
    assert told[-4:] == [round(100 * accuracy, 2), *cost[:2], pytest.approx(cost[2], abs=0.5)]
