"""The table over runs: who is averaged with whom, what is written in each cell, and how it looks."""

from dataclasses import replace

import pytest

from evidence_toys import finished_run
from zoolearn.errors import DataError, StoreError
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.labels import labels
from zoolearn.lab.one_run import matrix, per_task, single_run
from zoolearn.lab.pages import page
from zoolearn.lab.presets import find_preset
from zoolearn.lab.report import LEARNING, find_runs, report
from zoolearn.lab.run_figures import figures
from zoolearn.lab.sections import accuracies, sections
from zoolearn.lab.tables import RENDERERS, Table, human, latex, markdown, percent, text
from zoolearn.methods.learner import Episode
from zoolearn.runs.results import Results


def run(
    method="model-zoo",
    benchmark="split-mnist",
    *,
    matrix=((0.75,), (0.5, 1.0)),
    tasks=("0-1", "2-3"),
    stored_samples=200,
    num_parameters=238_890,
    train=6.0,
    **settings,
):
    return Results(
        method=method,
        benchmark=benchmark,
        tasks=list(tasks),
        settings={"seed": 0, **settings},
        accuracy=[list(row) for row in matrix],
        episodes=[Episode((), None, None, {"train": train, "evaluate": 0.5}) for _ in matrix],
        stored_samples=stored_samples,
        num_parameters=num_parameters,
    )


def column(table, name):
    return [row[table.header.index(name)] for row in table.rows]


def test_one_run_is_one_row_without_deviation():
    table = report([run()])
    assert table.header == (
        "method",
        "benchmark",
        "seeds",
        "average accuracy",
        "forgetting",
        "forward transfer",
        "backward transfer",
        "stored samples",
        "params",
        "seconds",
    )
    assert table.rows == (("model-zoo", "split-mnist", "1", "75.00", "25.00", "87.50", "-25.00", "200", "239k", "13"),)
    assert table.labels == 3
    assert table.notes == (LEARNING,)


def test_seeds_are_averaged_with_their_sample_deviation():
    # Means of the last row: 0.70, 0.74, 0.72; the squared distances from 0.72 sum to 2 * 0.02 ** 2, over 3 - 1.
    accuracies = [0.70, 0.74, 0.72]
    table = report([run(matrix=[[a], [a, a]], seed=seed) for seed, a in enumerate(accuracies)])
    assert column(table, "average accuracy") == ["72.00 ± 2.00"]
    assert column(table, "forgetting") == ["0.00 ± 0.00"]
    assert column(table, "seeds") == ["3"]


def test_all_of_many_seeds_count():
    # Task 0 falls from the first number to the second, task 1 stays at the third. Over the four seeds, in percent: final
    # accuracies 65, 70, 75, 90; forgetting 10, 0, 20, 0; just learned 70, 70, 85, 90.
    numbers = [(0.7, 0.6, 0.7), (0.6, 0.6, 0.8), (0.9, 0.7, 0.8), (0.8, 0.8, 1.0)]
    runs = [run(matrix=[[first], [last, other]], seed=seed) for seed, (first, last, other) in enumerate(numbers)]
    table = report(runs)
    assert column(table, "seeds") == ["4"]
    assert column(table, "average accuracy") == ["75.00 ± 10.80"]  # 100 + 25 + 0 + 225 over 3
    assert column(table, "forgetting") == ["7.50 ± 9.57"]  # 6.25 + 56.25 + 156.25 + 56.25 over 3
    assert column(table, "forward transfer") == ["78.75 ± 10.31"]  # 76.5625 + 76.5625 + 39.0625 + 126.5625 over 3
    assert column(table, "backward transfer") == ["-7.50 ± 9.57"]
    assert report(runs[::-1]).rows == table.rows


def test_costs_are_means_over_seeds():
    costs = enumerate([(1.0, 1000, 2000), (2.0, 2000, 4000), (3.0, 3000, 6000), (10.0, 6000, 8000)])
    table = report(
        [run(seed=seed, train=train, stored_samples=kept, num_parameters=size) for seed, (train, kept, size) in costs]
    )
    assert column(table, "stored samples") == ["3,000"]
    assert column(table, "params") == ["5k"]
    assert column(table, "seconds") == ["9.0"]  # of two episodes that are evaluated for half a second each


def test_other_settings_make_another_row_and_are_shown_by_their_last_name():
    table = report(
        [
            run(seed=0, tasks_per_episode=2, recipe={"epochs": 1, "lr": 0.01}),
            run(seed=0, tasks_per_episode=2, recipe={"epochs": 5, "lr": 0.01}),
            run(seed=1, tasks_per_episode=2, recipe={"epochs": 1, "lr": 0.01}),
        ]
    )
    assert column(table, "settings") == ["epochs=1", "epochs=5"]
    assert column(table, "seeds") == ["2", "1"]
    assert table.labels == 4


def test_settings_that_share_their_last_name_are_shown_in_full():
    table = report([run(net={"size": 1}, memory={"size": 3}), run(net={"size": 2}, memory={"size": 4})])
    assert column(table, "settings") == ["net.size=1, memory.size=3", "net.size=2, memory.size=4"]


def test_a_setting_that_only_another_method_has_is_no_difference():
    table = report([run(method="isolated"), run(method="model-zoo", replay=1.0)])
    assert "settings" not in table.header


def test_a_setting_that_only_some_runs_of_a_method_have_is_a_difference():
    table = report([run(), run(replay=0.5)])
    assert column(table, "settings") == ["", "replay=0.5"]
    assert column(report([run(seed=0), run(seed=1, replay=1.0)]), "seeds") == ["2"], "which is what it is by default"


def test_settings_are_compared_within_a_benchmark():
    table = report([run(benchmark="a", b=2), run(benchmark="c", b=5)])
    assert "settings" not in table.header


def test_long_values_keep_their_end():
    table = report([run(note="x" * 40 + "one"), run(note="x" * 40 + "two"), run(note=None)])
    assert column(table, "settings") == ["note=…" + "x" * 20 + "one", "note=…" + "x" * 20 + "two", "note=null"]


def test_numbers_of_a_search_are_shown_with_few_digits():
    rates = (0.0006636707600077537, 0.25)
    table = report([run(lr=rate) for rate in rates])
    assert column(table, "settings") == ["lr=0.0006637", "lr=0.25"]


def test_runs_on_other_tasks_are_not_averaged_and_their_number_is_shown():
    longer = run(seed=1, tasks=("0-1", "2-3", "4-5"), matrix=[[0.5], [0.5, 0.5], [0.5, 0.5, 0.5]])
    table = report([run(), longer])
    assert column(table, "episodes") == ["2/2", "3/3"]
    assert column(table, "average accuracy") == ["75.00", "50.00"]


def test_an_order_of_tasks_that_follows_the_seed_does_not_split_a_group():
    assert column(report([run(seed=0), run(seed=1, tasks=("2-3", "0-1"))]), "seeds") == ["2 orders"]


def test_unfinished_runs_have_their_own_marked_row_and_a_note():
    table = report([run(seed=0), run(seed=1, matrix=[[1.0]]), run(seed=2)])
    assert column(table, "episodes") == ["2/2", "1/2"]
    assert column(table, "seeds") == ["2", "1"]
    assert column(table, "average accuracy") == ["75.00 ± 0.00", "100.00"]
    assert column(table, "forgetting") == ["25.00 ± 0.00", "-"]
    assert table.notes == (
        LEARNING,
        "Unfinished runs answer only for the tasks met so far; do not compare them with finished ones.",
    )


def test_a_run_that_has_not_begun_is_shown_without_numbers():
    assert report([run(matrix=[])]).rows == (
        ("model-zoo", "split-mnist", "1", "0/2", "-", "-", "-", "-", "200", "239k", "0.0"),
    )


def test_a_seed_counts_once_by_the_run_that_is_further():
    table = report([run(seed=0, matrix=[[1.0]]), run(seed=1), run(seed=0)])
    assert column(table, "seeds") == ["2"]
    assert "episodes" not in table.header
    assert table.notes == (
        LEARNING,
        "1 left out: another run with the same settings and seed has come as far or further.",
    )


def test_runs_without_a_recorded_seed_all_count():
    runs = [run(), run()]
    for result in runs:
        del result.settings["seed"]
    assert column(report(runs), "seeds") == ["2"]


def test_rows_are_sorted_by_benchmark_and_otherwise_stay_as_given():
    runs = [run("z", "b"), run("y", "a"), run("x", "b"), run("w", "a")]
    assert column(report(runs), "method") == ["y", "w", "z", "x"]


def test_a_learner_that_answers_only_at_the_end_has_an_accuracy_and_gaps():
    table = report([run(matrix=[[None], [0.5, 1.0]], seed=seed) for seed in range(2)])
    assert [column(table, name)[0] for name in table.header[3:7]] == ["75.00 ± 0.00", "-", "-", "-"]


def test_nothing_to_report_is_an_error():
    with pytest.raises(DataError, match="no runs to report"):
        report([])


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (999, "999"), (1000, "1k"), (999_499, "999k"), (999_500, "1M"), (2_433_000, "2.43M"), (3e9, "3G")],
)
def test_counts_are_three_digits(number, expected):
    assert human(number) == expected


def test_a_tiny_loss_is_not_minus_zero():
    assert percent([-1e-9]) == "0.00"


SMALL = Table(
    header=("method", "accuracy"),
    rows=(("er_[bold]|*", "73.67 ± 0.20"), ("isolated", "-1.50 ± 0.10"), ("x", "-")),
    labels=1,
    notes=("A note.",),
)


def test_text_is_aligned_and_takes_brackets_literally():
    assert text(SMALL) == "\n".join(
        [
            "method           accuracy",
            "─────────────────────────",
            "er_[bold]|*  73.67 ± 0.20",
            "isolated     -1.50 ± 0.10",
            "x                       -",
            "A note.",
        ]
    )


def test_text_says_once_what_all_rows_share_and_fits_a_common_terminal():
    table = report([run(), run("multi-head")])
    assert (
        text(table, width=80)
        == text(table)
        == "\n".join(
            [
                "benchmark split-mnist, seeds 1",
                "             average               forward  backward   stored",
                "method      accuracy  forgetting  transfer  transfer  samples  params  seconds",
                "──────────────────────────────────────────────────────────────────────────────",
                "model-zoo      75.00       25.00     87.50    -25.00      200    239k       13",
                "multi-head     75.00       25.00     87.50    -25.00      200    239k       13",
                LEARNING,
            ]
        )
    )


def test_text_folds_to_a_narrow_terminal_and_loses_nothing():
    folded = text(Table(("method",), (("a" * 30,),), labels=1), width=20)
    assert max(map(len, folded.splitlines())) <= 20
    assert folded.count("a") == 30


def test_markdown_is_aligned_and_escaped():
    assert markdown(SMALL) == "\n".join(
        [
            r"| method         |     accuracy |",
            r"|:---------------|-------------:|",
            r"| er_\[bold]\|\* | 73.67 ± 0.20 |",
            r"| isolated       | -1.50 ± 0.10 |",
            r"| x              |            - |",
            "",
            "A note.",
        ]
    )


def test_latex_is_a_booktabs_table_with_escapes_and_real_minus_signs():
    assert latex(SMALL) == "\n".join(
        [
            r"\begin{tabular}{lr}",
            r"\toprule",
            r"method & accuracy \\",
            r"\midrule",
            r"er\_[bold]|* & 73.67 $\pm$ 0.20 \\",
            r"isolated & $-$1.50 $\pm$ 0.10 \\",
            r"x & - \\",
            r"\bottomrule",
            r"\end{tabular}",
            "% A note.",
        ]
    )


def test_every_special_character_of_latex_is_escaped():
    table = Table(("name",), ((r"&%$#_{}~^\…",),), labels=1)
    assert r"\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}\ldots{} \\" in latex(table).splitlines()


def test_a_whole_report_in_markdown():
    assert RENDERERS["markdown"](report([run(seed=0), run(seed=1), run("isolated", matrix=[[0.5], [0.5, 0.5]])])) == (
        "| method    | benchmark   | seeds | average accuracy |   forgetting | forward transfer | backward transfer | stored samples | params | seconds |\n"
        "|:----------|:------------|:------|-----------------:|-------------:|-----------------:|------------------:|---------------:|-------:|--------:|\n"
        "| model-zoo | split-mnist | 2     | **75.00 ± 0.00** | 25.00 ± 0.00 | **87.50 ± 0.00** |     -25.00 ± 0.00 |            200 |   239k |      13 |\n"
        "| isolated  | split-mnist | 1     |            50.00 |     **0.00** |            50.00 |          **0.00** |            200 |   239k |      13 |\n"
        f"\n{LEARNING}"
    )


def test_a_single_run_shows_each_task_just_learned_and_at_the_end():
    assert single_run(run()) == "\n".join(
        [
            "model-zoo on split-mnist",
            "         just",
            "task  learned   final  change",
            "─────────────────────────────",
            "0-1     75.00   50.00  -25.00",
            "2-3    100.00  100.00   +0.00",
            "mean    87.50   75.00  -12.50",
            "forward transfer (learning accuracy) 87.50, forgetting 25.00, backward transfer -25.00, stored samples 200, params 239k, seconds 13",
        ]
    )


def test_a_single_unfinished_run_says_how_far_it_is():
    shown = single_run(run(matrix=[[0.75]]))
    assert shown.splitlines()[0] == "model-zoo on split-mnist, 1/2 episodes so far"
    assert "2-3" not in shown


def test_a_single_run_without_earlier_answers_shows_gaps():
    assert per_task(run(matrix=[[None], [0.5, 1.0]])).rows == (
        ("0-1", "-", "50.00", "-"),
        ("2-3", "100.00", "100.00", "+0.00"),
        ("mean", "-", "75.00", "-"),
    )


def in_parts():
    """A task, another one, and more of the first."""
    two = run()
    rows, episodes = [[0.75], [1.0, 0.5], [0.25, 0.5]], [*two.episodes, two.episodes[0]]
    return replace(two, arrivals=["0-1", "2-3", "0-1"], accuracy=rows, episodes=episodes)


def test_a_task_that_came_in_parts_was_learned_when_the_last_of_them_had_come():
    assert per_task(in_parts()).rows == (
        ("0-1", "25.00", "25.00", "+0.00"),
        ("2-3", "50.00", "50.00", "+0.00"),
        ("mean", "37.50", "37.50", "+0.00"),
    )
    assert matrix("zoo", group_by_settings([in_parts()])[0]).rows == (
        ("1", "75.00", ""),
        ("2", "100.00", "50.00"),
        ("3", "25.00", "50.00"),
    )
    half = replace(in_parts(), accuracy=[[0.75], [1.0, 0.5]], episodes=in_parts().episodes[:2])
    assert single_run(half).splitlines()[0] == "model-zoo on split-mnist, 2/3 episodes so far"


def test_figures_of_tasks_that_came_in_parts_begin_where_each_was_met_first():
    drawn = {figure.name.rpartition("split-mnist-")[2]: figure for figure in figures([in_parts()])}
    (line,) = drawn["average-accuracy"].frames[""].panels[0].series
    assert (line.x, line.y) == ([1, 2, 3], [75.0, 75.0, 37.5])
    panels = {panel.title: panel.series[0] for panel in drawn["task-accuracy"].frames[""].panels}
    assert (panels["0-1"].x, panels["0-1"].y) == ([1, 2, 3], [75.0, 100.0, 25.0])
    assert (panels["2-3"].x, panels["2-3"].y) == ([2, 3], [50.0, 50.0])


def test_runs_are_found_at_any_depth_once_and_in_order(tmp_path):
    for name in ("sweep/b", "sweep/deep/er/a", "alone"):
        run().save(tmp_path / name)
    alone, sweep = tmp_path / "alone", tmp_path / "sweep"
    assert list(find_runs([alone, sweep, str(sweep / "b"), alone / "results.json"])) == [
        alone,
        sweep / "b",
        sweep / "deep" / "er" / "a",
    ]


def test_a_folder_without_runs_and_a_path_that_is_not_there_are_named(tmp_path):
    with pytest.raises(StoreError, match=r"no run in .*: neither it nor a folder below holds a results.json"):
        find_runs([tmp_path])
    with pytest.raises(StoreError, match=r"gone does not exist; give the folder of a run"):
        find_runs([tmp_path / "gone"])
    (tmp_path / "notes.txt").write_text("no run")
    with pytest.raises(StoreError, match="no run in"):
        find_runs([tmp_path / "notes.txt"])


def sampled(seed=0, samples_seed=0, samples_per_class=100, **options):
    made = run(seed=seed)
    made.settings["benchmark"] = {"samples_per_class": samples_per_class, "samples_seed": samples_seed, **options}
    return made


def test_bootstraps_of_the_data_are_averaged_like_seeds_of_the_learner():
    runs = [sampled(seed=0, samples_seed=0), sampled(seed=1, samples_seed=1), sampled(seed=1, samples_seed=2)]
    assert column(report(runs), "seeds") == ["3"]


def test_the_number_of_samples_is_no_seed():
    runs = [sampled(samples_per_class=100), sampled(samples_per_class=500)]
    assert column(report(runs), "settings") == ["samples_per_class=100", "samples_per_class=500"]


def test_labels_are_short_the_default_has_none_and_many_settings_have_the_name_of_their_preset():
    preset = find_preset("tag-2022", "fine-tune", "split-cifar100")
    usual = finished_run("fine-tune", 0, "split-cifar100")
    published = replace(finished_run("fine-tune", 0, "split-cifar100"), settings=preset.spec.record())
    zoos = [finished_run("model-zoo", 0, "split-cifar100", replay=replay) for replay in (1.0, 0.1)]
    groups = group_by_settings([usual, published, *zoos])
    assert labels(groups) == ["fine-tune", "fine-tune (tag-2022)", "model-zoo", "model-zoo (replay=0.1)"]


def test_runs_of_one_preset_with_other_epochs_are_told_apart():
    preset = find_preset("beyond", "model-zoo", "split-cifar100")
    longer = [replace(preset.spec, settings={**preset.spec.settings, "epochs": epochs}) for epochs in (1, 10)]
    runs = [replace(finished_run("model-zoo", 0, "split-cifar100"), settings=spec.record()) for spec in longer]
    usual = finished_run("model-zoo", 0, "split-cifar100")
    both = ["beyond, epochs=1", "beyond, epochs=10"]
    assert labels(group_by_settings([usual, *runs])) == [
        "model-zoo (epochs=1)",
        *(f"model-zoo ({name})" for name in both),
    ]
    assert column(report([usual, *runs]), "settings")[1:] == both


def test_groups_that_nothing_else_tells_apart_are_numbered():
    runs = [run(tasks=("0-1", f"{digit}-9")) for digit in range(3)]
    assert labels(group_by_settings(runs)) == ["model-zoo", "model-zoo #2", "model-zoo #3"]


def test_shuffled_orders_are_not_averaged_with_the_benchmarks_own():
    shuffled = [sampled(seed=seed, task_order=seed) for seed in (1, 2)]
    table = report([sampled(), *shuffled])
    assert column(table, "seeds") == ["1", "2 orders"]
    assert "order=shuffled" in column(table, "settings")[1]


def test_trials_of_a_search_are_no_runs_unless_one_looks_at_the_search(tmp_path):
    run().save(tmp_path / "zoo")
    run().save(tmp_path / "tune-zoo" / "trial-0001")
    (tmp_path / "tune-zoo" / "tune.json").write_text("{}")
    assert list(find_runs([tmp_path])) == [tmp_path / "zoo"]
    assert list(find_runs([tmp_path / "tune-zoo"])) == [tmp_path / "tune-zoo" / "trial-0001"]


def test_runs_that_no_command_made_say_so():
    known = finished_run("model-zoo", 0, "split-digits")
    assert known.made_by == "zoo run model-zoo split-digits --epochs 1"
    assert replace(known, command="").made_by == "# made in Python: model-zoo on split-digits"


def test_seeds_that_diverged_stand_in_the_table_and_a_setting_that_always_did_has_its_row():
    lost = [replace(finished_run(seed=seed, episodes=2), diverged="the loss is nan") for seed in (2, 3)]
    never = replace(finished_run("isolated", episodes=0), diverged="the loss is nan")
    table = report([finished_run(seed=0), finished_run(seed=1), lost[0], never])
    assert column(table, "method") == ["model-zoo", "isolated"]
    assert column(table, "seeds") == ["2, 1 of 3 diverged", "0, 1 of 1 diverged"]
    assert (
        column(table, "average accuracy")[0]
        == column(report([finished_run(seed=0), finished_run(seed=1)]), "average accuracy")[0]
    )
    assert column(table, "average accuracy")[1] == "-"
    broken = replace(finished_run(seed=4, episodes=1), failed="KeyError: 'x'")
    table = report([finished_run(seed=0), finished_run(seed=1), *lost, broken])
    assert column(table, "seeds") == ["2, 2 of 5 diverged, 1 of 5 failed"]
    assert "model-zoo on split-digits, seed 4, failed: KeyError: 'x'" in " ".join(table.notes)
    assert [len(group.runs) for group in group_by_settings([finished_run(), never])] == [1]


def test_a_page_has_the_row_of_a_setting_that_always_diverged_and_says_what_failed():
    lost = replace(finished_run("isolated", episodes=1), diverged="the loss is nan")
    failed = replace(finished_run("er", seed=4, episodes=0), failed="KeyError: 'x'")
    (part,) = sections([finished_run(), lost, failed])
    table = accuracies(part)
    assert column(table, "method") == ["model-zoo", "isolated", "er"]
    assert column(table, "seeds") == ["1", "0, 1 of 1 diverged", "0, 1 of 1 failed"]
    assert set(table.rows[1][1:-1]) == {"-"}
    assert "er on split-digits, seed 4, failed: KeyError: 'x'" in table.notes
    shown = page("Runs", [lost], [])
    assert "Every run diverged or failed." in shown
    assert "0, 1 of 1 diverged" in shown
