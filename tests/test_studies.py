"""Studies: their parts, their figures, reuse, the estimator of transfer exponents and the simulation of the theorem."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from toys import row_set
from zoolearn.cli import main
from zoolearn.data.benchmarks import benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, SettingsError, StoreError, ZooError
from zoolearn.lab.studies import ablations, competition, growing, together, transfer, tricks
from zoolearn.lab.studies.conduct import STUDIES, conduct
from zoolearn.lab.studies.exponent import estimate_noise, exponent, resolution
from zoolearn.lab.studies.setup import Setup
from zoolearn.lab.studies.study import Study, find_studies
from zoolearn.lab.studies.thresholds import (
    REFUTING,
    Thresholds,
    apart_figure,
    competition_figure,
    constant_figure,
    estimator_figure,
    fewest_errors,
    needed_constant,
    simulate,
)
from zoolearn.methods.learner import Episode
from zoolearn.nets.net import Net
from zoolearn.runs.execute import Plan, execute_all
from zoolearn.runs.jobs import Local
from zoolearn.runs.results import Results
from zoolearn.runs.run import run
from zoolearn.runs.spec import RunSpec

pytestmark = pytest.mark.slow  # studies are run

SETUP = Setup(
    study="competition",
    benchmark="split-digits",
    tasks=("0-1", "2-3"),
    classes=2,
    first_tasks=2,
    epochs=1,
    seeds=(0, 1),
    backbone="mlp",
    samples_per_class=10,
)


def told(setup: Setup, specs: list[RunSpec], accuracy) -> dict[str, Results]:
    """Results of runs, with the accuracies that `accuracy(spec, task)` tells."""
    outcome = {}
    for spec in specs:
        places = spec.options.get("only") or range(spec.options.get("first_tasks", len(setup.tasks)))
        tasks = [setup.tasks[place] for place in places]
        outcome[spec.name] = toy = Results(method=spec.method, benchmark="x", tasks=tasks, settings={})
        toy.accuracy.extend([[accuracy(spec, task) for task in tasks[: row + 1]] for row in range(len(tasks))])
    return outcome


def finish(specs: list[RunSpec], folder: Path, keep: bool = True, reuse=()) -> dict[str, Results]:
    """What comes of runs, by their names."""
    plan, titled = Plan(keep=keep), {spec.name: spec for spec in specs}
    return {
        end.job.name: end.result for end in execute_all(titled, folder, plan, Local(1), reuse) if hasattr(end, "result")
    }


class TestRuns:
    def test_a_description_knows_the_settings_that_its_results_will_record(self, tmp_path):
        options = {"samples_per_class": 5, "samples_seed": 4, "only": [3, 1]}
        spec = RunSpec("multi-head", "split-digits", {"backbone": "mlp", "epochs": 1}, options, 4)
        results = run(spec.learner(), spec.tasks(), tmp_path)
        assert results.settings == spec.record()
        assert results.spec.identity == spec.identity
        assert results.tasks == ["6-7", "2-3"]

    def test_what_is_finished_is_found_anywhere_and_not_run_again(self, tmp_path):
        specs = [SETUP.spec("isolated", seed) for seed in (0, 1)]
        made = finish(specs, tmp_path / "one")
        assert finish(specs, tmp_path / "two", reuse=[tmp_path / "one"]) == made
        assert not (tmp_path / "two").exists()

    def test_one_failure_does_not_stop_the_others_and_is_named(self, tmp_path, monkeypatch):
        bad = RunSpec("isolated", "split-digits", {"epochs": 1, "batch_size": 1})
        good = SETUP.spec("isolated", 0)
        kind = replace(STUDIES["samples"], specs=lambda setup: [bad, good])
        monkeypatch.setitem(STUDIES, "samples", kind)
        with pytest.raises(ZooError, match="1 of 2 failed: isolated-split-digits"):
            list(conduct(replace(SETUP, study="samples"), tmp_path, Local(1)))
        assert Results.load(tmp_path / good.name).finished

    def test_a_run_that_keeps_nothing_leaves_only_results(self, tmp_path):
        (name,) = finish([SETUP.spec("isolated", 0)], tmp_path, keep=False)
        assert [path.name for path in (tmp_path / name).iterdir()] == ["results.json"]

    def test_runs_of_different_data_make_no_study(self, tmp_path):
        setup = replace(SETUP, study="ensemble", seeds=(0,))
        first, *_ = STUDIES["ensemble"].specs(setup)
        results = finish([first], tmp_path / "other")[first.name]
        results.train_samples = [rows - 1 for rows in results.train_samples]
        results.save(tmp_path / "other" / first.name)
        with pytest.raises(DataError, match=r"rows of task '0-1', .* different data"):
            list(conduct(setup, tmp_path / "study", Local(1), reuse=[tmp_path / "other"]))


class TestCompetition:
    def test_every_task_and_every_pair_is_trained_once_a_seed(self):
        assert [(tuple(spec.options["only"]), spec.seed) for spec in competition.specs(SETUP)] == [
            ((0,), 0),
            ((1,), 0),
            ((0, 1), 0),
            ((0,), 1),
            ((1,), 1),
            ((0, 1), 1),
        ]

    def test_cells_are_gains_over_alone_with_errors_of_paired_differences(self):
        gain = {0: 0.01, 1: 0.03}

        def accuracy(spec: RunSpec, task: str) -> float:
            gained = len(spec.options["only"]) == 2 and task == "0-1"
            return 0.5 + 0.1 * spec.seed + (gain[spec.seed] if gained else 0.0)

        (figure,) = competition.figures(SETUP, told(SETUP, competition.specs(SETUP), accuracy))
        chart = figure.frames[""]
        assert chart.values == [[None, 2.0], [0.0, None]]
        assert chart.spread == [[None, 1.0], [0.0, None]]
        assert chart.marks == [[False, False], [False, False]]  # 2 is not beyond two errors of 1

    def test_clear_losses_are_marked_as_clear_gains_are(self):
        change = {"0-1": -0.1, "2-3": 0.1}

        def accuracy(spec: RunSpec, task: str) -> float:
            return 0.5 + (change[task] + 0.01 * spec.seed if len(spec.options["only"]) == 2 else 0.0)

        (figure,) = competition.figures(SETUP, told(SETUP, competition.specs(SETUP), accuracy))
        assert figure.frames[""].marks == [[False, True], [True, False]]


class TestTogether:
    def test_a_column_is_one_net_and_colour_is_against_the_median_of_the_row(self):
        def accuracy(spec: RunSpec, task: str) -> float:
            return {1: 0.5, 2: 0.6}[spec.options["first_tasks"]] if task == "0-1" else 0.9

        (figure,) = together.figures(SETUP, told(SETUP, together.specs(SETUP), accuracy))
        chart = figure.frames[""]
        assert chart.values == [[50.0, 60.0], [None, 90.0]]
        assert chart.shades == [[-5.0, 5.0], [None, 0.0]]


class TestTricks:
    def test_each_idea_is_tried_alone_and_left_out_of_the_whole(self):
        own = tricks.variants()
        assert len(own) == 2 + 2 * len(tricks.TRICKS)
        for name, settings in tricks.TRICKS.items():
            for variant, base in ((f"only {name}", tricks.BARE), (f"without {name}", tricks.WHOLE)):
                differing = {setting for setting in own[base] if own[base][setting] != own[variant][setting]}
                assert differing == set(settings)

    def test_no_test_row_is_read(self):
        whole = benchmark("split-digits")
        shown = tricks.specs(SETUP)[0].tasks(whole=whole)
        for task, before in zip(shown, whole[:2], strict=True):
            assert not row_set(task.test.x) & row_set(before.test.x)
            assert not row_set(task.test.x) & row_set(task.train.x)
            assert row_set(task.test.x) | row_set(task.train.x) <= row_set(before.train.x)
        assert shown.options["validation"] == 20

    def test_gains_are_differences_of_runs_of_one_seed(self):
        outcome = told(SETUP, tricks.specs(SETUP), lambda spec, task: _toy_accuracy(spec))
        (figure,) = tricks.figures(SETUP, outcome)
        alone, left_out = figure.frames[""].panels
        place = list(tricks.TRICKS).index("one softmax")
        assert alone.series[0].y[place] == pytest.approx(10.0)
        assert alone.series[0].spread[place] == pytest.approx(0.0)
        assert left_out.series[0].y[place] == pytest.approx(10.0)
        assert alone.series[0].y[0] == pytest.approx(0.0)

    def test_costs_are_seconds_of_processors_whatever_the_clock_says(self):
        outcome = told(SETUP, tricks.specs(SETUP), lambda spec, task: _toy_accuracy(spec))
        for name, toy in outcome.items():
            spent = 2.0 + ("flipttaTrue" in name)
            clock = {"train": 100.0 * len(name), "evaluate": 0.0}
            toy.episodes += [Episode((toy.tasks[0],), seconds=clock, processor_seconds=spent)] * len(toy.accuracy)
        (figure,) = tricks.figures(SETUP, outcome)
        alone, left_out = (panel.series[0].notes for panel in figure.frames[""].panels)
        place = list(tricks.TRICKS).index("mirror images")
        assert alone[place] == left_out[place] == "6 / 4"
        assert alone[0] == "4 / 4"
        for toy in outcome.values():
            toy.episodes[0] = replace(toy.episodes[0], processor_seconds=None)  # as in older runs
        (figure,) = tricks.figures(SETUP, outcome)
        assert {*figure.frames[""].panels[0].series[0].notes} == {""}


def _toy_accuracy(spec: RunSpec) -> float:
    """Ten points for one softmax; seeds differ by five."""
    return 0.5 + 0.1 * spec.settings["open_softmax"] + 0.05 * spec.seed


class TestAblations:
    @pytest.mark.parametrize(
        ("ablation", "wanted"),
        [
            (ablations.REPLAY, [0, 0.01, 0.05, 0.1, 1]),
            (ablations.TASKS_PER_EPISODE, [1, 2]),
            (
                ablations.WEIGHING,
                ["boosted", {"name": "released", "stream_tasks": 2, "stream_classes": 2}, "uniform"],
            ),
        ],
    )
    def test_one_thing_is_changed_at_a_time(self, ablation, wanted):
        field = {"replay": "replay", "tasks-per-episode": "tasks_per_episode", "weighing": "weigh"}[ablation.kind]
        records = [spec.record() for spec in ablation.specs(SETUP) if spec.seed == 0]
        assert [record[field] for record in records] == wanted
        others = [{name: value for name, value in record.items() if name != field} for record in records]
        assert all(other == others[0] for other in others)

    def test_the_ensemble_has_as_many_nets_as_an_episode_has_tasks(self):
        specs = ablations.ENSEMBLE.specs(SETUP)
        assert [spec.method for spec in specs[::2]] == ["isolated", "isolated", "model-zoo"]
        assert specs[2].record()["networks"] == specs[4].record()["tasks_per_episode"] == 2

    def test_what_some_seeds_alone_tell_has_no_mean(self):
        def accuracy(spec: RunSpec, task: str) -> float | None:
            return None if spec.method == "multi-head" and spec.seed else 0.5

        figures = ablations.SAMPLES.figures(SETUP, told(SETUP, ablations.SAMPLES.specs(SETUP), accuracy))
        (panel,) = figures[0].frames[""].panels
        assert [series.y for series in panel.series] == [[50.0, None, 50.0]] * 2
        assert figures[1].frames[""].values == [[50.0, 50.0], [None, None], [50.0, 50.0]]

    def test_a_study_is_kept_and_done_at_once_the_second_time(self, tmp_path):
        setup = Setup(**{**vars(SETUP), "study": "samples", "seeds": (0,)})
        work = conduct(setup, tmp_path, place=Local(1))
        assert [next(work).done for _ in STUDIES["samples"].specs(setup)] == [1, 2, 3]
        study = _end(work)
        assert [path.name for path in find_studies([tmp_path])] == [tmp_path.name]
        assert Study.load(tmp_path).figures[0].csv() == study.figures[0].csv()
        before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("results.json")}
        again = _end(conduct(setup, tmp_path, place=Local(1)))
        assert again.figures == study.figures
        assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("results.json")} == before


class TestExponent:
    @pytest.mark.parametrize("truth", [1.0, 1.5, 3.0])
    def test_exact_risks_give_the_exponent_from_below(self, truth):
        tasks = Thresholds((0.5, 0.5), (1.0, truth))
        near = [0.5 + 10.0**-power for power in range(1, 7)]
        estimate = exponent([tasks.risk(1, t) for t in [0.5, *near]], [tasks.risk(0, t) for t in [0.5, *near]])
        assert truth * 0.85 <= estimate <= truth + 1e-9

    def test_a_task_that_gains_from_bad_hypotheses_for_the_other_tells_nothing(self):
        assert exponent([0.1, 0.2], [0.5, 0.4]) is None

    def test_what_is_lost_on_the_other_task_is_counted_from_the_best_hypothesis_for_the_first(self):
        # The best for the first task has risks of 0.1 and 0.3; the last is better than it for the other task.
        assert exponent([0.1, 0.26, 0.5], [0.3, 0.7, 0.2]) == pytest.approx(np.log(0.16) / np.log(0.4), abs=1e-6)

    def test_differences_that_the_test_set_cannot_resolve_do_not_count(self):
        assert exponent([0.1, 0.11], [0.1, 0.2], floor_i=resolution(0.1, 500)) is None

    @pytest.mark.parametrize(("risk", "samples"), [(0.1, 500), (0.4, 100)])
    def test_the_resolution_is_the_deviation_of_the_difference_of_two_measured_risks(self, risk, samples):
        rng = np.random.default_rng(0)
        first, second = rng.binomial(samples, risk, (2, 40_000)) / samples
        assert resolution(risk, samples) == pytest.approx(float(np.std(first - second)), rel=0.02)
        assert estimate_noise(risk, samples) == pytest.approx(2 * float(np.std(first - second)), rel=0.02)

    def test_a_risk_of_nothing_or_everything_is_taken_for_one_error_off(self):
        one_wrong = (2 * 0.005 * 0.995 / 200) ** 0.5
        assert [resolution(0.0, 200), resolution(1.0, 200)] == pytest.approx([one_wrong, one_wrong])

    def test_features_are_standardised_by_the_training_rows_alone(self):
        train = Examples(torch.tensor([[-1.0], [-1.2], [1.0], [1.2]]), torch.tensor([0, 0, 1, 1]))
        moved = Examples(train.x + 5.0, train.y)
        assert transfer.risk(plain_net(1), Task("still", train, train)) == 0.0
        assert transfer.risk(plain_net(1), Task("moved", train, moved)) == 0.5, "all of them look like the second class"

    def test_the_risk_is_the_error_of_ridge_regression_on_standardised_features(self):
        rng = np.random.default_rng(0)
        centres, scales = rng.normal(0, 1, (3, 4)), np.array([1.0, 30.0, 0.1, 5.0])

        def rows(count):
            y = np.arange(count) % 3
            return (centres[y] + rng.normal(0, 1.5, (count, 4))) * scales, y

        (x, y), (x_test, y_test) = rows(60), rows(900)
        task = Task("noisy", Examples.of(x, y), Examples.of(x_test, y_test))
        mean, deviation = x.mean(axis=0), x.std(axis=0, ddof=1)
        for penalty in (1e-2, 3.0):
            # Rows of the square root of the penalty below the features make least squares a ridge regression.
            known = np.hstack([(x - mean) / deviation, np.ones((60, 1))])
            above, below = np.eye(3)[y], np.zeros((5, 3))
            ridge = np.linalg.lstsq(
                np.vstack([known, np.sqrt(penalty * 60) * np.eye(5)]), np.vstack([above, below]), rcond=None
            )[0]
            said = np.hstack([(x_test - mean) / deviation, np.ones((900, 1))]) @ ridge
            wrong = (said.argmax(axis=1) != y_test).mean()
            assert 0.2 < wrong < 0.6
            assert transfer.risk(plain_net(4), task, penalty) == pytest.approx(wrong, abs=2 / 900)

    def test_the_study_measures_features_reuses_parts_and_refuses_others(self, tmp_path):
        setup = Setup(**{**vars(SETUP), "study": "transfer", "samples_per_class": 20, "seeds": (0,)})
        setup = Setup(**{**vars(setup), "tasks": tuple(task.name for task in benchmark("split-digits"))})
        done = _end(transfer.measure(setup, 0, 0, tmp_path, benchmark("split-digits")))
        assert np.shape(done["risks"]) == (len(transfer.SHARES), 5)
        assert done["risks"][-1][0] < 0.3
        assert _end(transfer.measure(setup, 0, 0, tmp_path, benchmark("split-digits"))) == done
        with pytest.raises(StoreError, match="other settings"):
            _end(transfer.measure(Setup(**{**vars(setup), "epochs": 2}), 0, 0, tmp_path, benchmark("split-digits")))

    def test_the_matrix_leaves_cells_empty_where_nothing_can_be_said(self):
        part = {"risks": [[0.5, 0.6], [0.1, 0.1]], "test_samples": [500, 500]}
        flat = {"risks": [[0.1, 0.5], [0.1, 0.1]], "test_samples": [500, 500]}
        parts = {"source0-s0": part, "source0-s1": part, "source1-s0": flat, "source1-s1": flat}
        (figure,) = transfer.figures(SETUP, parts)
        chart = figure.frames[""]
        assert chart.values[1][0] is None
        assert chart.values[0][1] == pytest.approx(np.log(0.4) / np.log(0.5), abs=1e-3)
        assert "2 of 2 seeds tell" in chart.notes[0][1]


def plain_net(features: int) -> Net:
    """A net whose features are its inputs."""
    return Net(lambda shape, dropout=0.0: nn.Flatten(), (features,))


def _end(work):
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


class TestSimulation:
    def test_the_exact_risk_is_that_of_the_samples(self):
        tasks = Thresholds.spread(0.3)
        x, labels = tasks.draw(11, 200_000, 1, np.random.default_rng(0))
        for threshold in (0.3, 0.6, 0.9):
            wrong = ((x > threshold) != (labels > 0)).mean()
            assert wrong == pytest.approx(tasks.risk(11, threshold), abs=0.005)

    def test_the_exponents_hold_by_construction(self):
        tasks = Thresholds.spread(0.4)
        for task, rho in enumerate(tasks.exponents):
            for t in np.linspace(0.01, 0.99, 50):
                gain = tasks.risk(0, t) - tasks.risk(0, tasks.places[task])
                assert gain <= tasks.risk(task, t) ** (1 / rho) + 1e-12

    def test_the_threshold_found_has_the_fewest_errors(self):
        rng = np.random.default_rng(1)
        x, labels = rng.random((20, 15)), rng.choice([-1.0, 1.0], (20, 15))
        found, errors = fewest_errors(x, labels)
        for row in range(20):
            all_errors = [((x[row] > t) != (labels[row] > 0)).mean() for t in np.linspace(0, 1, 2001)]
            assert errors[row] <= min(all_errors) + 1e-12
            assert ((x[row] > found[row]) != (labels[row] > 0)).mean() == pytest.approx(errors[row])

    @pytest.mark.parametrize("samples", [3, 30, 300])
    def test_the_bound_of_the_theorem_holds_as_often_as_promised(self, samples):
        for width in (0.02, 0.4):
            outcomes = simulate(Thresholds.spread(width), samples, draws=40)
            assert all(outcome.held >= 0.95 for outcome in outcomes)

    def test_the_second_term_divided_by_k_as_printed_is_refuted(self):
        outcome = simulate(REFUTING, 1000, draws=20)[-1]
        assert outcome.held == 1.0
        assert outcome.printed == 0.0

    def test_no_constant_saves_the_printed_form_since_it_grows_with_the_number_of_tasks(self):
        needed = [needed_constant(k, 1000, draws=20) for k in (3, 5, 10, 30)]
        assert needed == pytest.approx([2.1, 3.2, 5.5, 12.4], rel=0.05)
        assert needed_constant(10, 100, draws=20) < needed_constant(10, 10_000, draws=5) < 10

    def test_distance_competes_and_a_larger_exponent_alone_does_not(self):
        apart, alike = (
            simulate(Thresholds.spread(*spread), 300, draws=40) for spread in ((0.4, 12, 1.0), (0.0, 12, 3.0))
        )
        assert apart[-1].risk > 5 * apart[0].risk
        assert alike[-1].risk < apart[0].risk
        assert all(outcome.difference == 0 for outcome in alike)

    def test_more_samples_make_fewer_tasks_best(self):
        def best(samples: int) -> tuple[int, int]:
            outcomes = simulate(Thresholds.spread(0.4), samples, draws=40)
            return tuple(
                min(range(12), key=lambda k: getattr(outcomes[k], measure)) + 1 for measure in ("risk", "bound")
            )

        few, many = best(3), best(300)
        assert few[0] > many[0]
        assert few[1] > many[1]
        assert many[0] <= 2

    def test_the_figures_can_be_chosen_from_by_samples(self):
        figure = competition_figure((3, 10), draws=10)
        assert list(figure.frames) == ["3", "10"]
        assert figure.extra["held"] >= 0.9
        assert [len(plot.panels) for plot in apart_figure((3,), draws=5).frames.values()] == [6]
        assert len(constant_figure((3,), draws=5).frames[""].panels[0].series) == 2
        assert len(estimator_figure(seeds=3).frames[""].panels[0].series) == 3


class TestCommand:
    def test_it_lists_the_studies(self, capsys):
        main(["study"])
        out = capsys.readouterr().out
        assert all(name in out for name in [*STUDIES, "transfer"])

    def test_an_unknown_study_is_named(self, capsys):
        with pytest.raises(SystemExit):
            main(["study", "competitions", "split-digits"])
        assert "did you mean 'competition'?" in capsys.readouterr().err

    def test_it_makes_a_study_that_a_page_shows(self, tmp_path, capsys):
        words = ["--epochs", "1", "--seeds", "1", "--samples-per-class", "5", "--backbone", "mlp", "--workers", "1"]
        main(["study", "together", "split-digits", *words, "--first-tasks", "2", "--out", str(tmp_path / "study")])
        assert "One net for more and more tasks" in capsys.readouterr().out
        main(["report", str(tmp_path), "--html", str(tmp_path / "page.html")])
        page = (tmp_path / "page.html").read_text()
        assert "zoo study together split-digits --epochs 1 --seeds 1 --samples-per-class 5 --backbone mlp" in page

    def test_no_seeds_are_refused(self):
        with pytest.raises(SettingsError, match="at least one"):
            Setup(**{**vars(SETUP), "seeds": ()})


class TestGrowing:
    """Task a comes with three classes, b comes, then a grows twice and b once."""

    TASKS = replace(SETUP, study="growing", benchmark="rotated-digits", tasks=("rotated-0", "rotated-10"), classes=10)

    def run(self):
        took = {"seconds": {"train": 1.0, "evaluate": 1.0}}
        apart = [{}, {}, {"a": (0.5, 0.75)}, {"b": (0.25, 1.0)}, {"a": (0.5, 0.25, 0.75), "b": (0.25, 1.0)}]
        return Results(
            method="er",
            benchmark="x",
            tasks=["a", "b"],
            arrivals=["a", "b", "a", "b", "a"],
            settings={},
            accuracy=[[0.75], [0.75, 0.5], [0.5, 0.75], [0.5, 0.25], [0.5, 0.5]],
            episodes=[Episode(("a",), by_arrival=shares, **took) for shares in apart],
        )

    def test_what_a_run_shows_is_read_off_the_episodes_in_which_a_task_grew(self):
        found = growing.measure(self.run())
        assert found.after == pytest.approx(100 * (0.5 + 0.25 + 0.5) / 3)
        assert found.after_newest == pytest.approx(100 * (0.75 + 1.0 + 0.75) / 3)
        assert found.after_first == pytest.approx(100 * (0.5 + 0.25 + 0.5) / 3)
        assert found.end == 50.0
        assert found.end_newest == pytest.approx(100 * (0.75 + 1.0) / 2)
        assert found.end_first == pytest.approx(100 * (0.5 + 0.25) / 2)
        assert found.others == pytest.approx(100 * (0.25 + 0.0 + 0.25) / 3)

    def test_every_variant_meets_the_same_parts_but_those_that_meet_all_at_once(self):
        specs = growing.specs(self.TASKS)
        assert len({spec.name for spec in specs}) == len(specs) == 2 * len(growing.variants())
        dealt = [spec.options for spec in specs if "arrivals" in spec.options]
        assert len(dealt) == len(specs) - 2 * 6
        assert {(*options["arrivals"], options["arrivals_seed"]) for options in dealt} == {(8, 1, 1, 0), (8, 1, 1, 1)}
        for spec in specs:
            spec.check()

    def test_figures_leave_out_what_a_run_cannot_tell(self):
        outcome = {spec.name: self.run() for spec in growing.specs(self.TASKS)}
        (whole,) = {spec.name for spec in growing.specs(self.TASKS) if spec.method == "multi-head" and spec.seed == 1}
        outcome[whole].accuracy[2] = [None, None]
        both, others = growing.figures(self.TASKS, outcome)
        after, end = both.frames[""].panels
        assert [len(series.x) for series in after.series] == [len(growing.variants()) - 1] + [
            len(growing.variants())
        ] * 2
        assert all(len(series.x) == len(growing.variants()) for series in end.series)
        assert len(others.frames[""].panels[0].series[0].x) == len(growing.variants()) - 1

    def test_tasks_of_two_classes_cannot_come_in_three_parts(self):
        with pytest.raises(SettingsError, match="have 2 classes; to come in three parts a task needs 4 or more"):
            growing.specs(SETUP)
