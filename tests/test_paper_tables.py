"""The paper's tables: every row can be made, finds its runs, and is written down from them alone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_toys import finished_run
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.cli import main
from zoolearn.lab.paper.compare import all_runs, comparison, runs_of
from zoolearn.lab.paper.reproduction import collect, reproduction
from zoolearn.lab.paper.rows import PaperTable, Row
from zoolearn.lab.paper.tables import TABLES
from zoolearn.lab.provenance import run_command, run_name
from zoolearn.lab.studies.estimate import SIZES, seconds, work
from zoolearn.lab.studies.trials import Trial
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results

ROWS = [row for table in TABLES.values() for row in table.rows]
SMALL = next(row for row in TABLES["table-2-single-epoch"].rows if row.name == "isolated-small")


def zoo_runs(seeds: int = 2) -> list[Results]:
    return [finished_run("isolated", seed, "split-cifar100") for seed in range(seeds)]


def test_every_row_is_a_run_that_can_be_made():
    for row in ROWS:
        assert row.method in METHODS
        assert row.benchmark in SIZES
        assert row.trial(1).settings()["seed"] == 1
        assert all(value is None or 0 <= value <= 100 for value in row.numbers.values())


def test_tables_hold_no_row_twice():
    for table in TABLES.values():
        names = [(row.name, row.benchmark) for row in table.rows]
        assert len(names) == len(set(names))


def test_a_row_finds_its_runs_by_their_settings_and_no_others():
    runs = [*zoo_runs(), finished_run("isolated", 0, "split-cifar100", epochs=2), finished_run("isolated", 0)]
    assert [run.settings["seed"] for run in runs_of(SMALL, runs)] == [0, 1]


def test_a_setting_that_came_later_has_its_default_in_an_older_record():
    (run,) = zoo_runs(1)
    del run.settings["recipe"]["nesterov"], run.settings["backbone"]
    assert runs_of(SMALL, [run]) == [run]


def test_ours_stand_beside_the_papers_with_the_difference():
    table = comparison(TABLES["table-2-single-epoch"], zoo_runs())
    accuracy = table.rows[0]
    assert accuracy[:4] == ("isolated-small", "split-cifar100", "accuracy", "71.60")
    assert accuracy[4:] == ("64.60 ± 0.14", "-7.00", "2")
    assert table.rows[-1][4:] == ("-", "-", "0")


def test_work_counts_what_is_trained_on():
    def zoo(**learner: float) -> float:
        trial = Trial(method="model-zoo", benchmark="split-cifar100", learner=learner, recipe={"epochs": 2})
        return work(trial)[0] / 5000

    assert zoo() == 1 + 2 + 3 + 4 + 16 * 5
    assert zoo(tasks_per_episode=1) == zoo(replay=0.0) == 20
    assert zoo(replay=0.1) == 1 + 19 * 2
    few = Trial(method="isolated", benchmark="split-mnist", samples_per_class=100, recipe={"epochs": 50})
    assert work(few)[0] == 5 * 200 * 50
    pair = Trial(
        method="multi-head", benchmark="coarse-cifar100", samples_per_class=100, recipe={"epochs": 3}, only=(4, 7)
    )
    assert work(pair) == (2 * 500 * 3, 2 * 500)


def test_an_estimate_is_of_this_machine_and_grows_with_the_work():
    one, two = (seconds(Trial(method="isolated", benchmark="split-mnist", recipe={"epochs": n})) for n in (1, 101))
    assert 1 < one < 10_000
    assert two > 80 * one


def command(runs: list[Results]) -> str:
    """The command of some runs, the digest in its folder's name as D."""
    return re.sub("-[0-9a-f]{6}/", "-D/", run_command(runs))


def test_a_row_wants_its_own_data_and_order_too():
    run = zoo_runs(1)[0]
    assert runs_of(SMALL, [run])
    run.settings["benchmark"] = {"order_seed": 7}
    assert not runs_of(SMALL, [run])
    few = next(row for row in ROWS if row.samples_per_class == 100 and row.name == "isolated-small-20")
    for seed, samples_seed, fits in ((0, 0, True), (1, 1, True), (1, 0, False)):
        settings = {**few.trial(seed).settings()}
        settings["benchmark"] = {**settings["benchmark"], "samples_seed": samples_seed}
        run = replace(finished_run("isolated", seed, few.benchmark), settings=settings)
        assert bool(runs_of(few, [run])) == fits


def test_runs_with_a_part_of_the_data_say_so_and_are_not_mixed_with_others():
    parts = [replace(run, train_samples=[400] * len(run.tasks)) for run in zoo_runs(2)]
    assert runs_of(SMALL, parts) == parts
    assert "400 training rows a task, the paper's 2,500" in reproduction(parts)
    wholes = [replace(run, train_samples=[2500] * len(run.tasks)) for run in zoo_runs(1)]
    assert runs_of(SMALL, [*parts, *wholes]) == wholes
    assert "training rows a task" not in reproduction([*parts, *wholes])


def test_no_folder_has_a_name_that_file_systems_refuse():
    assert all(len(row.trial(10).name.encode()) <= 200 for row in ROWS)


class TestProvenance:
    def test_seeds_in_a_row_are_one_command_and_others_a_loop(self):
        assert run_command(zoo_runs(3)) == "zoo run isolated split-cifar100 --epochs 1 --seeds 3"
        first, _, third = zoo_runs(3)
        assert command([first, third]) == (
            "for seed in 0 2; do zoo run isolated split-cifar100 --epochs 1 --seed $seed "
            "--out runs/isolated-split-cifar100-D/$seed; done"
        )

    def test_bootstraps_pass_their_seed_to_the_data(self):
        runs = zoo_runs()
        for run in runs:
            run.settings["benchmark"] = {"samples_per_class": 100, "samples_seed": run.settings["seed"]}
        assert command(runs) == (
            "for seed in 0 1; do zoo run isolated split-cifar100 --epochs 1 --samples-per-class 100 "
            "--seed $seed --samples-seed $seed --out runs/isolated-split-cifar100-D/$seed; done"
        )

    def test_every_pair_of_seeds_is_named_where_they_are_not_the_same(self):
        runs = zoo_runs(2)
        for place, run in enumerate(runs):
            run.settings |= {"seed": 0, "benchmark": {"order_seed": place + 1}}
        assert command(runs) == "; ".join(
            f"zoo run isolated split-cifar100 --epochs 1 --seed 0 --order-seed {place + 1} "
            f"--out runs/isolated-split-cifar100-D/{place}"
            for place in range(2)
        )

    def test_runs_with_other_settings_have_a_folder_of_their_own(self):
        folders = {
            re.search("--out (.*)", run_command([finished_run("model-zoo", 0, "split-cifar100", replay=replay)]))[1]
            for replay in (0.1, 0.2)
        }
        assert len(folders) == 2

    @pytest.mark.parametrize(
        ("settings", "flags"),
        [
            ({"inherit": "average"}, "--inherit average"),
            ({"weigh": "ranked"}, "--weigh ranked"),
            ({"adoption": True, "replay": 0.5}, "--adoption"),
        ],
    )
    def test_a_run_with_settings_that_were_deleted_says_that_it_cannot_be_repeated(self, settings, flags):
        run = finished_run("model-zoo", 0, "split-cifar100")
        run.settings |= settings
        assert run_command([run]) == f"# no command of this version repeats model-zoo on split-cifar100 with {flags}"

    def test_a_way_to_grow_is_told_by_its_name_and_what_is_not_its_default(self):
        run = finished_run("model-zoo", 0, "split-cifar100", grow=WarmStart(held_out=0.2, all_tasks=False))
        assert "--grow warm-start --no-all-tasks --held-out 0.2 --out" in run_command([run])

    def test_a_trial_of_a_search_names_the_search(self):
        run = zoo_runs(1)[0]
        run.settings["benchmark"] = {"validation": 20}
        assert run_command([run]) == "zoo tune isolated split-cifar100"

    def test_a_name_says_what_is_not_default(self):
        run = finished_run("model-zoo", 2, "split-cifar100", replay=0.1)
        assert run_name(run) == "model-zoo-split-cifar100-epochs1-replay0.1-s2"


class TestReproduction:
    def test_it_is_written_from_runs_and_says_what_is_missing(self):
        text = reproduction(zoo_runs())
        assert "| isolated-small | split-cifar100 | accuracy   | 71.60 | 64.60 ± 0.14 |      -7.00 |     2 |" in text
        assert "01234567" in text
        assert "zoo run isolated split-cifar100 --epochs 1 --seeds 2" in text
        assert "4 of 5 rows not run yet" in text
        assert "`table-a4-weighing`" in text.partition("## Not run yet")[2]
        assert reproduction(zoo_runs()) == text

    @pytest.mark.parametrize(("base", "holds"), [(0.3, "yes"), (0.9, "no")])
    def test_the_finding_is_read_from_the_runs(self, base: float, holds: str):
        assert "The paper's finding" not in reproduction(zoo_runs())
        row = next(row for row in TABLES["published-rows"].rows if row.name == "er tag-2022")
        rival = replace(finished_run("er", 0, "split-cifar100", base=base), settings=row.trial(0).settings())
        finding = reproduction([*zoo_runs(), rival]).partition("The paper's finding")[2].partition("##")[0]
        assert re.search(rf"split-cifar100 \|\s+64.60 \|\s+[\d.]+ \(er tag-2022\) \|\s+1 \|\s+{holds} \|", finding)

    def test_collecting_copies_results_alone_and_the_page_is_made_of_them(self, tmp_path: Path, capsys):
        for seed, run in enumerate(zoo_runs()):
            run.save(tmp_path / "runs" / str(seed))
        (tmp_path / "runs" / "0" / "net.safetensors").write_bytes(b"large")
        finished_run("isolated", 5, "split-cifar100", episodes=2).save(tmp_path / "runs" / "unfinished")
        words = ["--collect", "results", "--write", "REPRODUCTION.md", "--html", "results/index.html"]
        words = [str(tmp_path / word) if not word.startswith("--") else word for word in words]
        main(["paper", "--runs", str(tmp_path / "runs"), *words])
        assert sorted(path.name for path in (tmp_path / "results").rglob("*.*") if path.is_file()) == [
            "index.html",
            "results.json",
            "results.json",
        ]
        assert len(all_runs([tmp_path / "results"])) == 2
        assert "64.60 ± 0.14" in (tmp_path / "REPRODUCTION.md").read_text()
        assert collect([tmp_path / "results"], tmp_path / "again")


class TestCommand:
    def test_it_lists_tables_with_their_rows(self, capsys):
        main(["paper", "--list"])
        out = capsys.readouterr().out
        assert all(name in out for name in TABLES)
        assert "split-cifar100: isolated-small, model-zoo-small" in out

    def test_it_says_what_is_there_and_what_the_rest_would_take(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("zoolearn.cli.paper.seconds", lambda trial: 9000.0 if "backbone" in trial.learner else 60.0)
        for seed, run in enumerate(zoo_runs(3)):
            run.save(tmp_path / str(seed))
        main(["paper", "table-2-single-epoch", "--runs", str(tmp_path), "--estimate"])
        captured = capsys.readouterr()
        assert "isolated-small" not in captured.err  # it is there
        assert "model-zoo-small on split-cifar100: 0 of 3 seeds there, about 1 min" in captured.err
        assert "isolated on split-cifar100: 0 of 3 seeds there, about 2.5 h for each" in captured.err
        assert "only when named" in captured.err
        assert "to run: 6, about 6 min" in captured.err
        assert "64.70 ± 0.20" in captured.out

    def test_it_runs_what_is_missing_once(self, tmp_path, capsys, monkeypatch):
        row = Row("toy", "isolated", "split-digits", {"average_accuracy": 90.0}, {"backbone": "mlp"}, {"epochs": 1})
        monkeypatch.setitem(TABLES, "toy", PaperTable("toy", "Table 0", "Toy", (row,)))
        monkeypatch.setattr("zoolearn.cli.paper.seconds", lambda trial: 1.0)
        words = [
            "paper",
            "toy",
            "--seeds",
            "1",
            "--workers",
            "1",
            "--runs",
            str(tmp_path),
            "--out",
            str(tmp_path / "new"),
        ]
        main(words)
        assert "1 of 1: isolated-split-digits-backbonemlp-epochs1-s0" in capsys.readouterr().err
        main(words)
        captured = capsys.readouterr()
        assert captured.err == ""
        assert "90.00" in captured.out

    def test_an_unknown_table_or_row_is_named(self, capsys):
        for words in (["table-2-single-epochs"], ["table-2-single-epoch", "--rows", "isolated-smal"]):
            with pytest.raises(SystemExit):
                main(["paper", *words])
            assert "did you mean" in capsys.readouterr().err
