"""The board of equal conditions: one small search for all, judged by training rows, and a paragraph that says who wins."""

from pathlib import Path

import pytest

from zoolearn.data.benchmarks import benchmark
from zoolearn.lab.paper import board, equal
from zoolearn.lab.paper.equal import ENTRIES, NONE, SOME, STREAMS, search_state
from zoolearn.methods.learner import Episode
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results

FINE_TUNE, ISOLATED = (next(entry for entry in ENTRIES if entry.name == name) for name in ("fine-tune", "isolated"))
ER = next(entry for entry in ENTRIES if (entry.name, entry.budget) == ("er", SOME))


def run_of(spec, accuracy=0.5):
    """A finished run of a description."""
    episode = Episode(("one",), None, 0.1, {"train": 60.0, "evaluate": 0.0})
    settings = {**spec.record(), "seed": spec.seed}
    return Results(
        method=spec.method,
        benchmark=spec.benchmark,
        tasks=["one"],
        settings=settings,
        accuracy=[[accuracy]],
        episodes=[episode],
    )


def searched(entry, best):
    """The trials of an entry, the best of them at this place."""
    return [run_of(trial, 0.9 if place == best else 0.3) for place, trial in enumerate(entry.trials)]


def line_runs(entry, best, accuracy, seeds=1, stream=STREAMS[0]):
    runs = [equal.Row(entry.name, entry.row(stream, entry.points[best]).spec, {}).run(seed) for seed in range(seeds)]
    return [run_of(spec, accuracy) for spec in runs]


def test_every_method_of_the_issue_is_on_it_with_at_most_eight_trials_that_ask_no_test_row():
    wanted = {
        "fine-tune",
        "ewc",
        "si",
        "a-gem",
        "gem",
        "er",
        "mega-ii",
        "mc-sgd",
        "ogd",
        "stable-sgd",
        "tag",
        "hat",
        "rmn",
    }
    wanted |= {"progressive", "apd", "fedweit", "isolated", "model-zoo", "multi-head"}
    assert wanted <= {entry.method for entry in ENTRIES} <= {*METHODS}
    for entry in ENTRIES:
        assert 1 <= len(entry.trials) <= 8
        for trial in entry.trials:
            assert trial.options == {"first_tasks": 5, "validation": 20}
            recipe = trial.learner().recipe
            assert (recipe.batch_size, recipe.augments) == (16, False)
            assert recipe.epochs == 1 or entry.method == "multi-head"
    judged = benchmark("split-digits", first_tasks=2).validation_split(20)
    for task, whole in zip(judged, benchmark("split-digits"), strict=False):
        rows = {row.numpy().tobytes() for row in whole.train.x}
        assert all(row.numpy().tobytes() in rows for row in task.test.x)


def test_the_budget_is_kept_and_scaled_to_the_development_stream():
    assert ER.row(STREAMS[0], {}).spec.settings["memory_size"] == 5000
    assert {trial.settings["memory_size"] for trial in ER.trials} == {1250}  # 25 of 100 classes
    by_class = next(entry for entry in ENTRIES if entry.name == "a-gem")
    assert {trial.settings["memory_size"] for trial in by_class.trials} == {50}


def test_the_settings_that_answer_best_for_rows_set_aside_are_chosen_once_all_were_tried():
    trials = searched(FINE_TUNE, best=2)
    assert search_state(FINE_TUNE, trials[:-1]) == ([FINE_TUNE.trials[-1]], None)
    assert search_state(FINE_TUNE, trials) == ([], {"lr": 0.03})
    reported = line_runs(FINE_TUNE, best=0, accuracy=1.0)  # a better one on test rows says nothing
    assert search_state(FINE_TUNE, trials + reported) == ([], {"lr": 0.03})


def test_lines_have_the_runs_of_the_chosen_settings_and_know_what_is_missing():
    runs = [*searched(FINE_TUNE, best=2), *line_runs(FINE_TUNE, 2, 0.6, seeds=2), *line_runs(FINE_TUNE, 1, 0.7)]
    split, coarse = equal.board(runs, [FINE_TUNE])
    assert [run.accuracy for run in split.runs] == [[[0.6]], [[0.6]]]
    assert [spec.seed for spec in equal.missing_runs(split, 3)] == [2]
    assert [spec.seed for spec in equal.missing_runs(coarse, 3)] == [0, 1, 2]
    assert {spec.settings["lr"] for spec in equal.missing_runs(coarse, 3)} == {0.03}
    (unknown, _) = equal.board([], [FINE_TUNE])
    assert equal.missing_runs(unknown, 3) == []


@pytest.mark.parametrize(("er", "beaten"), [(0.8, 0), (0.7, 1)])
def test_the_summary_counts_the_rivals_that_isolated_nets_beat(er, beaten):
    runs = [run for entry in (FINE_TUNE, ISOLATED, ER) for run in searched(entry, 0)]
    runs += [*line_runs(FINE_TUNE, 0, 0.6), *line_runs(ISOLATED, 0, 0.75, seeds=3), *line_runs(ER, 0, er)]
    told = " ".join(board.summary(equal.board(runs)).split())
    assert (
        "they beat, of the rivals that were run: on split-cifar100, 1 of 1 with no stored samples, "
        f"{beaten} of 1 with 5,000 stored samples." in told
    )
    assert f"3 of {2 * len(ENTRIES)} lines of the board were run so far." in told
    behind = [run if run.method != "isolated" else run_of(run.spec, 0.5) for run in runs]
    assert "0 of 1 with no stored samples, 0 of 1 with" in " ".join(board.summary(equal.board(behind)).split())


def test_without_isolated_nothing_is_counted_and_the_others_are_shown():
    runs = [*searched(FINE_TUNE, 0), *searched(ER, 0), *line_runs(FINE_TUNE, 0, 0.6), *line_runs(ER, 0, 0.8)]
    lines = equal.board(runs)
    assert "they beat" not in board.summary(lines)
    assert board.short_table(lines).rows == (
        ("no stored samples", "fine-tune", "60.00", "-"),
        ("5,000 stored samples", "er", "80.00", "-"),
    )


def test_the_summary_shows_the_best_of_a_budget_the_best_rival_and_always_the_paper_s_zoo():
    stored = {entry.name: entry for entry in ENTRIES if entry.budget == ER.budget}
    accuracies = {"model-zoo, preset beyond": 0.9, "er": 0.8, "derpp": 0.7, "model-zoo": 0.5}
    runs = []
    for name, accuracy in accuracies.items():
        for stream in STREAMS:
            runs += [*searched(stored[name], 0), *line_runs(stored[name], 0, accuracy, seeds=2, stream=stream)]
    half_run = line_runs(stored["a-gem"], 0, 0.99)
    rows = board.short_table(equal.board([*runs, *searched(stored["a-gem"], 0), *half_run])).rows
    told = " ".join(board.summary(equal.board(runs)).split())
    assert "On split-cifar100, with 5,000 stored samples er has 80.00, the paper's zoo 50.00. " in told
    assert [row[1] for row in rows] == ["model-zoo, preset beyond", "er", "model-zoo"]
    assert [row[2] for row in rows] == ["90.00 ± 0.00", "80.00 ± 0.00", "50.00 ± 0.00"]


def test_the_summary_ranks_by_what_was_run_and_leaves_out_joint_training():
    joint = next(entry for entry in ENTRIES if entry.name == "multi-head")
    runs = [*searched(ER, 0), *line_runs(ER, 0, 0.8), *line_runs(ER, 0, 0.9, stream=STREAMS[1])]
    runs += [*searched(ISOLATED, 0), *line_runs(ISOLATED, 0, 0.7), *searched(joint, 0), *line_runs(joint, 0, 0.1)]
    lines = equal.board(runs)
    assert ("5,000 stored samples", "er", "80.00", "90.00") in board.short_table(lines).rows
    assert "all samples stored" not in board.summary(lines).partition("|")[0]


def test_what_was_not_run_is_called_so():
    lines = equal.board([*searched(FINE_TUNE, 0), *line_runs(FINE_TUNE, 0, 0.6)])
    assert [row[1] for row in board.table(lines, STREAMS[0]).rows] == ["fine-tune"]
    missing = board.name_missing(lines, STREAMS[0])
    assert "fine-tune" not in missing
    assert all(entry.name in missing for entry in ENTRIES if entry.name != "fine-tune")
    assert "\n\n" not in board.summary(equal.board([]))  # no empty table


def test_the_summary_goes_between_its_marks_and_nothing_else_changes(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- board -->\nold\n<!-- end of board -->\nafter\n", encoding="utf-8")
    told = board.put_summary(page, [])
    assert told.startswith("before\n<!-- board -->\nThe paper finds")
    assert told.endswith("\n<!-- end of board -->\nafter\n")
    page.write_text("no marks", encoding="utf-8")
    assert board.put_summary(page, []) is None


def test_no_budget_is_left_without_the_paper_s_method_or_its_rival():
    for budget in equal.BUDGETS:
        methods = {entry.method for entry in ENTRIES if entry.budget == budget}
        assert "model-zoo" in methods
        assert methods & ({"fine-tune"} if budget == NONE else {"er"})
