"""The paper's tables: every row can be made, finds its runs, and is written down from them alone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_toys import finished_run
from zoolearn.cli import main
from zoolearn.lab.figures import Figure, Plot
from zoolearn.lab.paper.collect import collect
from zoolearn.lab.paper.compare import all_runs, cells, comparison, remarks, runs_of, tally
from zoolearn.lab.paper.reproduction import front_page, precision_page, table_page, write_reproduction
from zoolearn.lab.paper.rows import ROWS_OF_A_TASK, PaperTable, Row
from zoolearn.lab.paper.tables import TABLES
from zoolearn.lab.studies.study import Study, find_studies
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results, Untold
from zoolearn.runs.spec import RunSpec

ROWS = [row for table in TABLES.values() for row in table.rows]
SMALL = next(row for row in TABLES["table-2-single-epoch"].rows if row.name == "isolated-small")


def zoo_runs(seeds: int = 2) -> list[Results]:
    return [finished_run("isolated", seed, "split-cifar100") for seed in range(seeds)]


def flat_run(row: Row, accuracy: float) -> Results:
    """A run of a row that is always right equally often: nothing is forgotten, forward is the accuracy."""
    run = finished_run(row.spec.method, 0, row.spec.benchmark)
    same = [[accuracy] * (episode + 1) for episode in range(len(run.tasks))]
    return replace(run, accuracy=same, settings=row.run(0).record())


def in_precision(run: Results, precision: str) -> Results:
    """The same run, computed in another precision."""
    return replace(run, settings={**run.settings, "recipe": {**run.settings["recipe"], "precision": precision}})


def numbers_of(table: PaperTable) -> list[tuple[str, str, str]]:
    """The numbers that the paper gives, by its own rows."""
    return [
        (row.name, row.spec.benchmark, measure)
        for row in table.rows
        for measure, value in row.numbers.items()
        if value is not None and not row.stands_in_for
    ]


def test_every_row_is_a_run_that_can_be_made():
    for row in ROWS:
        assert row.spec.method in METHODS
        assert row.spec.benchmark in ROWS_OF_A_TASK
        assert row.run(1).record()["seed"] == 1
        assert all(value is None or 0 <= value <= 100 for value in row.numbers.values())


def test_tables_hold_no_row_twice():
    for table in TABLES.values():
        names = [(row.name, row.spec.benchmark) for row in table.rows]
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


def test_a_row_wants_its_own_data_and_order_too():
    run = zoo_runs(1)[0]
    assert runs_of(SMALL, [run])
    assert not runs_of(SMALL, [replace(run, settings={**run.settings, "benchmark": {"task_order": 7}})])
    few = next(row for row in ROWS if row.bootstraps and row.name == "isolated-small-20")
    for seed, samples_seed, fits in ((0, 0, True), (1, 1, True), (1, 0, False)):
        settings = {**few.run(seed).record()}
        settings["benchmark"] = {**settings["benchmark"], "samples_seed": samples_seed}
        run = replace(finished_run("isolated", seed, few.spec.benchmark), settings=settings)
        assert bool(runs_of(few, [run])) == fits


def test_a_row_is_no_run_of_another_code_or_of_other_data_under_its_name():
    first, second, third = zoo_runs(3)
    assert not runs_of(SMALL, [replace(first, source={"benchmark split_cifar100": "0123"})])
    told = [replace(first, data="aa"), replace(second, data="bb"), replace(third, data="bb")]
    assert runs_of(SMALL, told) == told[1:]
    assert runs_of(SMALL, [first, *told[1:]]) == [first, *told[1:]], "an older record tells no data"


def test_runs_with_a_part_of_the_data_say_so_and_are_not_mixed_with_others():
    parts = [replace(run, train_samples=[400] * len(run.tasks)) for run in zoo_runs(2)]
    assert runs_of(SMALL, parts) == parts
    page = table_page(TABLES["table-2-single-epoch"], parts)
    assert "400 training rows a task, the paper's 2,500" in page
    wholes = [replace(run, train_samples=[2500] * len(run.tasks)) for run in zoo_runs(1)]
    assert runs_of(SMALL, [*parts, *wholes]) == wholes
    assert "training rows a task" not in table_page(TABLES["table-2-single-epoch"], [*parts, *wholes])


def test_no_folder_has_a_name_that_file_systems_refuse():
    assert all(len(row.run(10).name.encode()) <= 200 for row in ROWS)


def test_only_finished_runs_stand_beside_the_papers_numbers(tmp_path):
    for seed, run in enumerate(zoo_runs(2)):
        run.save(tmp_path / str(seed))
    finished_run("isolated", 5, "split-cifar100", episodes=3, base=0.9).save(tmp_path / "under way")
    found = all_runs([tmp_path])
    assert [run.settings["seed"] for run in found] == [0, 1]
    assert comparison(TABLES["table-2-single-epoch"], found).rows[0][4:] == ("64.60 ± 0.14", "-7.00", "2")
    assert all_runs([tmp_path, tmp_path / "1"]) == found, "what is found twice counts once"


class TestReproduction:
    def test_it_is_written_from_runs_and_says_what_is_missing(self):
        table = TABLES["table-2-single-epoch"]
        text = table_page(table, zoo_runs())
        assert "| isolated-small | split-cifar100 | accuracy   | 71.60 | 64.60 ± 0.14 |      -7.00 |     2 |" in text
        assert "01234567" in text
        assert (
            "zoo run isolated split-cifar100 --epochs 1\nzoo run isolated split-cifar100 --epochs 1 --seed 1\n" in text
        )
        missing = text.partition("## Not run: 4 of 5 rows")[2]
        assert re.search(r"\| model-zoo\s+\| split-cifar100 \| accuracy\s+\| 57.67 \|", missing)
        assert "isolated-small" not in missing
        assert table_page(table, zoo_runs()) == text

    def test_what_stands_in_the_way_of_a_row_that_was_not_run_is_said_beside_it(self):
        missing = table_page(TABLES["published-rows"], []).partition("## Not run")[2]
        for method in ("lwf", "derpp"):
            assert re.search(
                rf"- {method} der-2020 on split-cifar10: .*it needs the full ResNet18 and 50 epochs", missing
            )

    @pytest.mark.parametrize(
        ("accuracy", "verdicts"),
        [  # of 71.60, 0.00 and 71.60: accuracy, forgetting and forward
            (0.7255, {"within a point": 3, "not run": 12}),
            (0.7261, {"within a point": 1, "above": 2, "not run": 12}),
            (0.7059, {"within a point": 1, "below": 2, "not run": 12}),
        ],
    )
    def test_a_cell_counts_by_how_far_ours_is_from_the_papers(self, accuracy: float, verdicts: dict[str, int]):
        assert tally(TABLES["table-2-single-epoch"], [flat_run(SMALL, accuracy)]) == verdicts

    def test_a_number_that_several_rows_answer_counts_once_and_a_stand_in_reproduces_nothing(self):
        table = TABLES["table-a3-100-samples"]
        paper, *stand_ins = [
            row for row in table.rows if (row.spec.method, row.spec.benchmark) == ("isolated", "split-mnist")
        ]
        assert tally(table, [flat_run(row, 0.97) for row in stand_ins]) == {"stand-in": 1, "not run": 17}
        assert tally(table, [flat_run(row, 0.97) for row in (paper, *stand_ins)]) == {
            "within a point": 1,
            "not run": 17,
        }
        part = replace(flat_run(SMALL, 0.716), train_samples=[400] * 4)
        assert tally(TABLES["table-2-single-epoch"], [part]) == {"stand-in": 3, "not run": 12}

    def test_the_front_page_counts_the_papers_cells_and_leads_to_every_table(self, tmp_path: Path):
        file = tmp_path / "REPRODUCTION.md"
        write_reproduction(file, [flat_run(SMALL, 0.72)])
        front = file.read_text(encoding="utf-8")
        cells = {(table.name, *key) for table in TABLES.values() if table.of_paper for key in numbers_of(table)}
        assert f"**3 of {len(cells)} cells of the paper within one point**; 0 above, 0 below" in front
        links = re.findall(r"\]\((docs/reproduction/[^)]*)\)", front)
        assert len(links) == len(TABLES) + 3, "and one for the board, for figures and for precision"
        assert all((tmp_path / link).read_text(encoding="utf-8").startswith("# ") for link in links)

    @pytest.mark.parametrize(("base", "holds"), [(0.3, "yes"), (0.9, "no")])
    def test_the_finding_is_read_from_the_runs(self, base: float, holds: str):
        assert "isolated is better" not in front_page(zoo_runs())
        row = next(row for row in TABLES["published-rows"].rows if row.name == "er tag-2022")
        rival = replace(finished_run("er", 0, "split-cifar100", base=base), settings=row.run(0).record())
        finding = front_page([*zoo_runs(), rival]).partition("The paper's finding")[2].partition("##")[0]
        assert re.search(
            rf"split-cifar100 \|\s+64.60 \|\s+[\d.]+ \(er tag-2022, one seed\) \|\s+1 \|\s+{holds} \|", finding
        )

    def test_collecting_keeps_results_alone_and_the_pages_are_made_of_them(self, tmp_path: Path, capsys):
        for seed, run in enumerate(zoo_runs()):
            run.save(tmp_path / "runs" / str(seed))
        (tmp_path / "runs" / "0" / "net.safetensors").write_bytes(b"large")
        finished_run("isolated", 5, "split-cifar100", episodes=2).save(tmp_path / "runs" / "unfinished")
        words = ["--collect", "results", "--write", "REPRODUCTION.md", "--html", "page.html"]
        words = [str(tmp_path / word) if not word.startswith("--") else word for word in words]
        main(["paper", "--runs", str(tmp_path / "runs"), *words])
        assert [path.name for path in (tmp_path / "results").iterdir()] == ["split-cifar100.jsonl"]
        assert all_runs([tmp_path / "results"]) == zoo_runs()
        page = tmp_path / "docs" / "reproduction" / "table-2-single-epoch.md"
        assert "64.60 ± 0.14" in page.read_text(encoding="utf-8")
        assert "2 runs" in capsys.readouterr().err


def test_a_difference_is_told_only_where_net_epochs_tasks_and_data_are_the_papers():
    table = TABLES["table-a3-100-samples"]
    paper, small, fifty, _ = (
        row for row in table.rows if (row.spec.method, row.spec.benchmark) == ("isolated", "split-mnist")
    )
    told = {row.name: cells(row, [flat_run(row, 0.98)])[0].difference for row in (paper, small, fifty)}
    assert told == {"isolated": "+0.89", "isolated-small": "(net)", "isolated-small-50": "(net, epochs)"}
    part = replace(flat_run(SMALL, 0.716), train_samples=[400] * 4)
    assert cells(SMALL, [part])[0].difference == "(data)"


def test_of_two_runs_of_one_row_and_seed_the_one_counts_whose_source_is_known_then_the_later():
    older, later = (
        replace(flat_run(SMALL, share), environment={"commit": "0" * 40}, sittings=[sitting(day)])
        for share, day in ((0.6, "2026-01-01"), (0.7, "2026-01-02"))
    )
    unknown = replace(flat_run(SMALL, 0.8), environment={}, sittings=[sitting("2026-01-03")])
    for order in ([older, later, unknown], [unknown, later, older]):
        assert runs_of(SMALL, order) == [later]
    assert runs_of(SMALL, [unknown]) == [unknown]


def sitting(day: str) -> dict[str, object]:
    return {"begun": day, "episodes": 0, "environment": {}, "command": "", "code": []}


def test_pages_tell_accuracy_on_unique_rows_and_without_the_task_where_runs_have_it():
    plain = flat_run(SMALL, 0.7)
    also = replace(
        plain,
        unique=dict.fromkeys(plain.tasks, 0.6),
        untold=Untold(accuracy=dict.fromkeys(plain.tasks, 0.1), inferred=None, rows_asked=1),
    )
    table = TABLES["table-2-single-epoch"]
    assert "not told | seeds" not in table_page(table, [plain])
    assert re.search(r"difference \| +unique \| +not told \| +seeds", table_page(table, [also]))
    assert re.search(r"70.00 \| +-1.60 \| +60.00 \| +10.00 \| +1 \|", table_page(table, [also]))


class TestCollect:
    def test_what_is_new_is_added_what_is_equal_replaced_and_nothing_dropped(self, tmp_path: Path):
        runs, kept = tmp_path / "runs", tmp_path / "kept"
        first, second = zoo_runs(2)
        first.save(runs / "a")
        finished_run("isolated", 0, "split-mnist").save(runs / "b")
        assert vars(collect([runs], kept)) == {"records": 2, "new": 2, "replaced": 0}
        before = (kept / "split-mnist.jsonl").read_bytes()
        again = replace(first, num_parameters=77)
        again.save(tmp_path / "later" / "x")
        second.save(tmp_path / "later" / "y")
        assert vars(collect([tmp_path / "later"], kept)) == {"records": 3, "new": 1, "replaced": 1}
        assert all_runs([kept / "split-cifar100.jsonl"]) == [again, second]
        assert (kept / "split-mnist.jsonl").read_bytes() == before
        assert vars(collect([tmp_path / "later", kept], kept)) == {"records": 3, "new": 0, "replaced": 0}

    def test_the_folder_that_is_collected_to_may_lie_among_the_runs(self, tmp_path: Path):
        first, second = zoo_runs(2)
        first.save(tmp_path / "runs" / "a")
        collect([tmp_path], tmp_path / "kept")
        second.save(tmp_path / "runs" / "b")
        assert vars(collect([tmp_path], tmp_path / "kept")) == {"records": 2, "new": 1, "replaced": 0}

    def test_runs_on_a_part_of_the_data_are_kept_beside_whole_ones(self, tmp_path: Path):
        (whole,) = zoo_runs(1)
        part = replace(whole, train_samples=[400] * 4)
        for name, run in (("whole", whole), ("part", part)):
            run.save(tmp_path / "runs" / name)
        collect([tmp_path / "runs"], tmp_path / "kept")
        assert {tuple(run.train_samples) for run in all_runs([tmp_path / "kept"])} == {(), (400,) * 4}

    def test_of_a_study_only_rows_are_taken_and_the_study_itself(self, tmp_path: Path):
        zoo_runs(1)[0].save(tmp_path / "runs" / "study" / "row")
        finished_run("isolated", 0, "split-cifar100", epochs=7).save(tmp_path / "runs" / "study" / "other")
        figure = Figure(
            "replay", "", "", {"": Plot([], "")}, commands=[f"zoo study replay x --out {tmp_path} --seeds 2"]
        )
        study = Study("replay", "split-cifar100", {"epochs": 1}, [figure], environment={})
        study.save(tmp_path / "runs" / "study")
        collect([tmp_path / "runs"], tmp_path / "kept")
        assert all_runs([tmp_path / "kept"]) == zoo_runs(1)
        anywhere = replace(study, figures=[replace(figure, commands=["zoo study replay x --seeds 2"])])
        assert list(find_studies([tmp_path / "kept"]).values()) == [anywhere]


class TestPrecision:
    def test_runs_of_another_precision_answer_for_a_row_and_say_so(self):
        runs = [in_precision(run, "bfloat16") for run in zoo_runs(2)]
        assert runs_of(SMALL, runs) == runs
        assert remarks(SMALL, runs) == [
            "isolated-small on split-cifar100: trained in mixed precision (bfloat16), the paper's is mixed too"
        ]
        assert "trained in mixed precision (bfloat16)" in table_page(TABLES["table-2-single-epoch"], runs)
        assert remarks(SMALL, zoo_runs()) == []

    @pytest.mark.parametrize(("exact", "mixed", "answering"), [(2, 1, "auto"), (1, 2, "bfloat16"), (2, 2, "auto")])
    def test_one_precision_answers_alone_that_of_most_seeds(self, exact: int, mixed: int, answering: str):
        runs = [*(in_precision(run, "bfloat16") for run in zoo_runs(mixed)), *zoo_runs(exact)]
        assert {run.settings["recipe"]["precision"] for run in runs_of(SMALL, runs)} == {answering}
        assert len(cells(SMALL, runs_of(SMALL, runs))[0].ours) == 2

    def test_float32_by_name_is_what_a_cpu_does_by_itself_and_a_seed_counts_once(self):
        named = [in_precision(run, "float32") for run in zoo_runs(3)]
        assert [run.settings["seed"] for run in runs_of(SMALL, [*zoo_runs(2), *named])] == [0, 1, 2]

    def test_a_gpu_left_to_itself_is_not_averaged_with_a_cpu(self):
        on_gpu = [replace(run, environment={"gpu": "a card"}) for run in zoo_runs(3)]
        assert runs_of(SMALL, [*zoo_runs(2), *on_gpu]) == on_gpu

    def test_what_precision_changes_is_told_seed_by_seed(self):
        exact, mixed = zoo_runs(2), [in_precision(run, "bfloat16") for run in zoo_runs(3)]
        mixed[0].accuracy[-1] = [value + 0.02 for value in mixed[0].accuracy[-1]]
        alone = in_precision(finished_run("isolated", 0, "split-mnist"), "bfloat16")
        (line,) = re.findall(r"\| isolated .*", precision_page([*exact, *mixed, alone]))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1:] == ["split-cifar100", "4", "bfloat16", "2", "64.60", "65.60", "+1.00 ± 1.41"]
        assert "There are none yet" in precision_page([*exact, alone])
        part = replace(exact[0], train_samples=[400] * 4)
        assert "There are none yet" in precision_page([part, *mixed]), "a part of the data is another benchmark"

    def test_of_equal_runs_the_newest_is_compared(self):
        old, new = zoo_runs(1)[0], zoo_runs(1)[0]
        old.sittings, new.sittings = [{"begun": "2026-01-01"}], [{"begun": "2026-02-01"}]
        old.accuracy[-1] = [value - 0.1 for value in old.accuracy[-1]]
        mixed = in_precision(zoo_runs(1)[0], "bfloat16")
        assert precision_page([old, new, mixed]).split("```")[0] == precision_page([new, old, mixed]).split("```")[0]
        assert "+0.00" in precision_page([new, old, mixed])

    def test_seeds_that_lack_are_missing_unless_one_precision_has_them_all(self, tmp_path: Path, capsys):
        words = ["paper", "table-2-single-epoch", "--runs", str(tmp_path)]
        for seed, run in enumerate(zoo_runs(3)):
            in_precision(run, "bfloat16").save(tmp_path / f"mixed-{seed}")
        main(words)
        assert "isolated-small" not in capsys.readouterr().err
        main([*words, "--seeds", "4"])
        assert "isolated-small on split-cifar100: 0 of 4 seeds there" in capsys.readouterr().err


class TestCommand:
    def test_it_lists_tables_with_their_rows(self, capsys):
        main(["paper", "--list"])
        out = capsys.readouterr().out
        assert all(name in out for name in TABLES)
        assert "split-cifar100: isolated-small, model-zoo-small" in out

    def test_it_says_what_is_there_what_lacks_and_how_long_the_others_took(self, tmp_path, capsys):
        for seed, run in enumerate(zoo_runs(3)):
            run.save(tmp_path / str(seed))
        finished_run("model-zoo", 1, "split-cifar100").save(tmp_path / "zoo")
        main(["paper", "table-2-single-epoch", "--runs", str(tmp_path)])
        captured = capsys.readouterr()
        assert "isolated-small" not in captured.err  # it is there
        assert "model-zoo-small on split-cifar100: 1 of 3 seeds there; they took 14 s each" in captured.err
        assert "isolated on split-cifar100: 0 of 3 seeds there\n" in captured.err
        assert "64.70 ± 0.20" in captured.out

    def test_it_runs_what_is_missing_once(self, tmp_path, capsys, monkeypatch):
        row = Row(
            "toy", RunSpec("isolated", "split-digits", {"backbone": "mlp", "epochs": 1}), {"average_accuracy": 90.0}
        )
        monkeypatch.setitem(TABLES, "toy", PaperTable("toy", "Table 0", "Toy", (row,)))
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
        assert not (tmp_path / "new").exists(), "nothing was named"
        main([*words, "--rows", "toy"])
        assert "isolated-split-digits-backbonemlp-epochs1-s0: done" in capsys.readouterr().err
        main([*words, "--rows", "all"])
        captured = capsys.readouterr()
        assert captured.err == ""
        assert "90.00" in captured.out

    def test_an_unknown_table_or_row_is_named(self, capsys):
        for words in (["table-2-single-epochs"], ["table-2-single-epoch", "--rows", "isolated-smal"]):
            with pytest.raises(SystemExit):
                main(["paper", *words])
            assert "did you mean" in capsys.readouterr().err
