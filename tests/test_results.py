"""The record of a run: what is written comes back exactly, and nothing else is taken for one."""

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zoolearn.errors import DataError, SettingsError, StoreError
from zoolearn.files import load_json, save_json
from zoolearn.methods.learner import Episode
from zoolearn.runs import metrics
from zoolearn.runs.environment import _commit, _cpu_model, environment
from zoolearn.runs.results import Results, Untold


def record(*tasks, weights=None, loss=0.5, train=2.0, evaluate=0.5):
    return Episode(tasks=tasks, weights=weights, loss=loss, seconds={"train": train, "evaluate": evaluate})


def two_of_three():
    return Results(
        method="model-zoo",
        benchmark="split-mnist",
        tasks=["0-1", "2-3", "4-5"],
        settings={"seed": 3, "recipe": {"epochs": 1, "lr": 0.01}},
        environment={"torch": "2.6"},
        accuracy=[[0.75], [0.5, 1.0]],
        episodes=[record("0-1"), record("2-3", "0-1", weights={"0-1": 1.25})],
        stored_samples=200,
        num_parameters=238_890,
        ms_per_sample=0.125,
    )


names = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8)
numbers = st.floats(0, allow_infinity=False)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | names
)
plain_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@st.composite
def any_results(draw):
    tasks = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    met = draw(st.integers(0, len(tasks)))
    some = st.lists(st.sampled_from(tasks), max_size=4)
    episode = st.builds(
        Episode,
        tasks=some.map(tuple),
        weights=st.none() | st.dictionaries(st.sampled_from(tasks), numbers, max_size=3),
        loss=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        seconds=st.fixed_dictionaries({"train": numbers, "evaluate": numbers}),
        rows_trained=st.none() | st.integers(0, 2**60),
        rows_asked=st.none() | st.integers(0, 2**60),
    )
    answers = st.none() | st.floats(0, 1)
    return Results(
        method=draw(names),
        benchmark=draw(names),
        tasks=tasks,
        settings=draw(st.dictionaries(names, plain_values, max_size=4)),
        environment=draw(st.dictionaries(names, plain_values, max_size=2)),
        accuracy=[draw(st.lists(answers, min_size=k + 1, max_size=k + 1)) for k in range(met)],
        episodes=draw(st.lists(episode, min_size=met, max_size=met)),
        stored_samples=draw(st.integers(0, 2**60)),
        num_parameters=draw(st.integers(0, 2**60)),
        ms_per_sample=draw(st.none() | numbers),
        passes=draw(st.none() | numbers),
        stored_bytes=draw(st.none() | st.integers(0, 2**60)),
        command=draw(names),
        unique=draw(st.none() | st.fixed_dictionaries(dict.fromkeys(tasks, st.floats(0, 1)))),
        untold=draw(
            st.none()
            | st.builds(
                Untold,
                accuracy=st.fixed_dictionaries(dict.fromkeys(tasks, st.floats(0, 1))),
                inferred=st.none() | st.fixed_dictionaries(dict.fromkeys(tasks, st.floats(0, 1))),
                rows_asked=st.integers(0, 2**60),
                statistics=st.none() | st.fixed_dictionaries(dict.fromkeys(tasks, st.floats(0, 1))),
            )
        ),
    )


@given(results=any_results())
def test_what_was_saved_is_loaded_exactly(tmp_path_factory, results):
    folder = tmp_path_factory.mktemp("run")
    results.save(folder)
    loaded = Results.load(folder)
    assert loaded == results
    assert loaded.summary() == results.summary()
    loaded.save(folder / "again.json")
    assert (folder / "again.json").read_bytes() == (folder / "results.json").read_bytes()


TOOK = {
    "seconds": {"train": 2.0, "evaluate": 0.5},
    "processor_seconds": None,
    "rows_trained": None,
    "rows_asked": None,
    "by_arrival": {},
}


def test_the_file_has_the_entries_that_are_promised(tmp_path):
    two_of_three().save(tmp_path)
    content = load_json(tmp_path / "results.json")
    assert content == {
        "format": 1,
        "method": "model-zoo",
        "benchmark": "split-mnist",
        "command": "",
        "data": "",
        "source": {},
        "parameters": None,
        "diverged": "",
        "failed": "",
        "tasks": ["0-1", "2-3", "4-5"],
        "arrivals": [],
        "train_samples": [],
        "settings": {"seed": 3, "recipe": {"epochs": 1, "lr": 0.01}},
        "accuracy": [[0.75], [0.5, 1.0]],
        "episodes": [
            {"tasks": ["0-1"], "weights": None, "loss": 0.5, **TOOK},
            {"tasks": ["2-3", "0-1"], "weights": {"0-1": 1.25}, "loss": 0.5, **TOOK},
        ],
        "summary": {
            "average_accuracy": 0.75,
            "forgetting": 0.25,
            "forward_transfer": 0.875,
            "backward_transfer": -0.25,
            "unique_accuracy": None,
            "stored_samples": 200,
            "num_parameters": 238_890,
            "ms_per_sample": 0.125,
            "processor_seconds": None,
            "rows_trained": None,
            "rows_asked": None,
            "stored_bytes": None,
            "passes": None,
            "class_incremental_accuracy": None,
            "class_incremental_inferred": None,
            "class_incremental_statistics": None,
            "class_incremental_rows_asked": None,
        },
        "untold": None,
        "unique": None,
        "environment": {"torch": "2.6"},
        "sittings": [],
        "finished": False,
    }


def test_accuracies_are_not_rounded(tmp_path):
    third = 1 / 3
    results = replace(two_of_three(), accuracy=[[third], [math.nextafter(third, 1), 1.0]])
    results.save(tmp_path)
    assert Results.load(tmp_path).accuracy == [[third], [math.nextafter(third, 1), 1.0]]


def test_the_summary_is_that_of_the_matrix():
    results = two_of_three()
    assert results.summary()["forgetting"] == metrics.forgetting(results.accuracy)
    assert Results(method="m", benchmark="b", tasks=["a"], settings={}).summary()["average_accuracy"] is None


def test_seconds_are_totals_over_episodes():
    assert two_of_three().seconds == {"train": 4.0, "evaluate": 1.0}


def test_a_run_is_finished_when_all_tasks_were_met():
    results = two_of_three()
    assert not results.finished
    results.accuracy.append([0.5, 1.0, 0.5])
    results.episodes.append(record("4-5"))
    assert results.finished


def test_it_loads_from_the_folder_and_from_the_file_and_from_a_copy(tmp_path):
    results = two_of_three()
    results.save(tmp_path / "run")
    results.save(str(tmp_path / "elsewhere.json"))
    copy = (tmp_path / "run" / "results.json").rename(tmp_path / "run" / "results.copy")
    assert Results.load(copy) == Results.load(str(tmp_path / "elsewhere.json")) == results


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere/results.json is missing; give the folder of a run"):
        Results.load(tmp_path / "nowhere")


def test_a_truncated_file_is_refused_wherever_it_was_cut(tmp_path):
    two_of_three().save(tmp_path)
    file = tmp_path / "results.json"
    whole = file.read_bytes()
    for length in range(len(whole) - 1):  # only the newline at the end can be spared
        file.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"results.json"):
            Results.load(file)


def test_an_altered_accuracy_is_refused(tmp_path):
    two_of_three().save(tmp_path)
    file = tmp_path / "results.json"
    altered = file.read_text().replace("[0.75]", "[0.99]")
    file.write_text(altered)
    with pytest.raises(StoreError, match="altered"):
        Results.load(tmp_path)


def test_a_newer_format_is_refused_with_both_numbers(tmp_path):
    save_json(tmp_path / "results.json", {"format": 2, "all": "different"})
    with pytest.raises(StoreError, match=r"has format 2, this zoolearn reads up to format 1; install a newer"):
        Results.load(tmp_path)


@pytest.mark.parametrize("found", [None, "1", 0, True, [1]])
def test_what_has_no_format_of_ours_is_foreign(tmp_path, found):
    save_json(tmp_path / "results.json", {"format": found})
    with pytest.raises(StoreError, match="is it another program's"):
        Results.load(tmp_path)


def test_a_json_file_of_another_program_is_refused(tmp_path):
    file = tmp_path / "results.json"
    for foreign in ({"accuracy": 0.9}, [1, 2], "text", None):
        file.write_text(json.dumps(foreign))
        with pytest.raises(StoreError, match=r"results.json"):
            Results.load(tmp_path)


@pytest.mark.parametrize(
    "entry", ["method", "benchmark", "tasks", "settings", "accuracy", "episodes", "summary", "environment"]
)
def test_a_missing_entry_is_named(tmp_path, entry):
    two_of_three().save(tmp_path)
    content = load_json(tmp_path / "results.json")
    del content[entry]
    save_json(tmp_path / "results.json", content)
    with pytest.raises(StoreError, match=f"missing required field `{entry}`"):
        Results.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": 3}, r"method is 3; Expected `str`, got `int`"),
        ({"tasks": ["0-1", 2, "4-5"]}, r"tasks\[1\] is 2; Expected `str`"),
        ({"settings": []}, r"settings is \[\]; Expected `object`, got `array`"),
        ({"accuracy": [[0.5], 0.5]}, r"accuracy\[1\] is 0.5; Expected `array`"),
        ({"accuracy": [[0.5], [0.5]]}, r"row 1 of the accuracy matrix has 1 entry"),
        ({"accuracy": [[0.5], [0.5, "1"]]}, r"accuracy\[1\]\[1\] is '1'; Expected `float \| null`"),
        ({"accuracy": [[0.5]]}, r"1 rows of accuracy but 2 episodes"),
        ({"tasks": ["0-1"]}, r"2 rows of accuracy but 1 tasks"),
        ({"tasks": ["0-1", "2-4", "4-5"]}, r"episode 1 mentions task '2-3'"),
        ({"episodes": [{}, {}]}, r"episodes\[0\] is {}; Object missing required field `tasks`"),
        ({"summary": {"stored_samples": 1.5}}, r"summary.stored_samples is 1.5; Expected `int`"),
        ({"summary": {"stored_samples": True}}, r"summary.stored_samples is True; Expected `int`"),
        (
            {"summary": {"stored_samples": -1, "num_parameters": 0, "ms_per_sample": None}},
            r"summary.stored_samples is -1; Expected `int` >= 0",
        ),
        ({"finished": True}, r"finished is True, but 2 of 3 tasks were met"),
    ],
)
def test_an_entry_of_the_wrong_kind_is_named(tmp_path, changes, message):
    two_of_three().save(tmp_path)
    save_json(tmp_path / "results.json", load_json(tmp_path / "results.json") | changes)
    with pytest.raises(StoreError, match=f"is not the record of a run: .*{message}"):
        Results.load(tmp_path)


@pytest.mark.parametrize("odd", [{"loss": math.nan}, {"weights": {"0-1": math.inf}}, {"loss": torch.tensor(0.5)}])
def test_only_numbers_that_can_be_written_are_saved(tmp_path, odd):
    results = replace(two_of_three(), episodes=[record("0-1"), record("2-3", **odd)])
    with pytest.raises(SettingsError, match=r"results\.episodes\[1\]\..* JSON cannot hold"):
        results.save(tmp_path)
    assert not (tmp_path / "results.json").exists()


@pytest.mark.parametrize("seconds", [{"train": 1.0}, {"train": -1.0, "evaluate": 0.5}])
def test_an_episode_has_seconds_of_both_phases(seconds):
    with pytest.raises(DataError, match=r"episode 0 took .* seconds; give those to 'train' and to 'evaluate'"):
        replace(two_of_three(), episodes=[replace(record("0-1"), seconds=seconds), record("2-3")])


def test_results_that_became_inconsistent_are_not_saved_over_good_ones(tmp_path):
    results = two_of_three()
    results.save(tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    results.accuracy.append([0.5, 1.0, 0.5])
    with pytest.raises(DataError, match="3 rows of accuracy but 2 episodes"):
        results.save(tmp_path)
    assert (tmp_path / "results.json").read_bytes() == before


def test_settings_compare_equal_to_those_read_back(tmp_path):
    results = replace(two_of_three(), settings={"angles": (0, 10), "share": np.float32(0.5), "count": np.int64(3)})
    results.save(tmp_path)
    assert results.settings == {"angles": [0, 10], "share": 0.5, "count": 3}
    assert Results.load(tmp_path).settings == results.settings
    assert isinstance(results.settings["count"], int)


@pytest.mark.parametrize("value", [Path("x"), math.nan, {1: "one"}, {1, 2}, len])
def test_a_setting_that_json_cannot_hold_is_named(value):
    with pytest.raises(SettingsError, match=r"settings\.recipe\.odd is .*JSON cannot hold"):
        replace(two_of_three(), settings={"recipe": {"odd": value}})


def test_the_environment_can_be_recorded_and_says_what_ran(tmp_path):
    found = environment()
    what = {"zoolearn", "commit", "python", "torch", "numpy", "platform", "cpu", "cpus", "gpu", "threads", "kernels"}
    assert set(found) == what
    assert found["torch"] == torch.__version__
    assert found["numpy"] == np.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cpus"] >= 1
    results = replace(two_of_three(), environment=found)
    results.save(tmp_path)
    assert Results.load(tmp_path).environment == found


def test_the_commit_is_that_of_the_folder_itself_and_shows_changes(tmp_path):
    def git(*words):
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    git("tag", "v1")
    assert _commit(tmp_path) == git("rev-parse", "HEAD")
    os.utime(tmp_path / "file", (0, 0))
    before = (tmp_path / ".git" / "index").stat().st_mtime_ns
    assert _commit(tmp_path) == git("rev-parse", "HEAD"), "the same content is no change"
    assert (tmp_path / ".git" / "index").stat().st_mtime_ns == before, "git's own files are left alone"
    (tmp_path / "file").write_text("two, longer")
    assert _commit(tmp_path) == git("rev-parse", "HEAD") + "-dirty"
    (tmp_path / "below").mkdir()
    assert _commit(tmp_path / "below") is None


def test_a_folder_whose_git_is_broken_has_no_commit(tmp_path):
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert _commit(tmp_path) is None


def test_the_processor_is_named_where_the_system_lists_it(tmp_path):
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: Abacus 3000\n\nmodel name\t: Abacus 3000\n")
    assert _cpu_model(listing) == "Abacus 3000"
