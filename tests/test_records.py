"""Finished runs as lines of few files: read back as they were, wherever runs are looked for; damage is named by its line."""

import json
from pathlib import Path
from shutil import copyfile

import pytest

from evidence_toys import finished_run
from zoolearn.cli import main
from zoolearn.errors import StoreError
from zoolearn.files import load_json
from zoolearn.lab.paper.compare import all_runs
from zoolearn.lab.paper.reproduction import PAGES, write_reproduction
from zoolearn.lab.report import find_runs, gather
from zoolearn.lab.studies.study import find_studies
from zoolearn.runs.execute import Plan, execute_all
from zoolearn.runs.records import ENDING, JUDGED, STUDIES, iter_records, iter_runs, load_records, save_records
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

ROOT = Path(__file__).parents[1]


def contents(folder: Path, *runs: Results) -> dict[str, dict]:
    """The content of the files that the runs would leave, by names."""
    found = {}
    for number, run in enumerate(runs):
        run.save(folder / str(number))
        found[f"run {number}"] = load_json(folder / str(number) / "results.json")
    return found


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A file of three runs, of which one has a setting that no version has."""
    odd = finished_run("model-zoo", 0)
    odd.settings["inherit"] = "average"
    file = tmp_path / "kept" / f"split-digits{ENDING}"
    save_records(file, contents(tmp_path / "made", finished_run(seed=10), finished_run(seed=9), odd))
    return file


def test_what_was_written_comes_back_equal_with_its_checksum(tmp_path, records):
    made = contents(tmp_path / "made", finished_run(seed=10), finished_run(seed=9))
    assert {name: load_records(records)[name] for name in made} == made
    line = next(json.loads(line) for line in records.read_text().splitlines() if '"run 0"' in line)
    assert {"name": "run 0", **json.loads((tmp_path / "made" / "0" / "results.json").read_text())} == line


def test_lines_are_ordered_by_settings_and_seed_whatever_the_order_given(records):
    assert [name for name, _ in iter_records(records)] == ["run 2", "run 1", "run 0"]
    before = records.read_bytes()
    save_records(records, dict(reversed(load_records(records).items())))
    assert records.read_bytes() == before


def test_runs_are_found_in_files_as_in_folders(tmp_path, records, capsys):
    run = finished_run(seed=11)
    run.save(tmp_path / "kept" / "folder")
    assert [found.settings["seed"] for _, found in iter_runs(tmp_path / "kept")] == [11, 0, 9, 10]
    assert list(find_runs([records])) == [records / name for name in ("run 2", "run 1", "run 0")]
    assert find_runs([tmp_path / "kept"])[tmp_path / "kept" / "folder"] == run
    assert len(gather([tmp_path / "kept"])[0]) == len(all_runs([tmp_path / "kept"])) == 4
    main(["report", str(records)])
    assert "average" in capsys.readouterr().out, "a setting that was deleted is still told"


def test_a_run_that_is_on_record_is_not_run_again(tmp_path):
    spec, run = RunSpec("isolated", "split-digits", {"epochs": 1}, seed=4), finished_run("isolated", 4)
    save_records(tmp_path / f"split-digits{ENDING}", contents(tmp_path / "made", run))
    kept = tmp_path / f"split-digits{ENDING}"
    (end,) = execute_all({"one": spec}, tmp_path / "new", Plan(), reuse=[kept])
    assert (end.job.name, end.result) == ("one", run)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda line: line[: len(line) // 2], "is damaged"),
        (lambda line: b"<<<<<<< HEAD", "is damaged"),
        (lambda line: b"", "is damaged"),
        (lambda line: line.replace(b"model-zoo", b"\xff\xfe"), "is damaged"),
        (lambda line: line.replace(b"0.6", b"0.9", 1), "was altered"),
        (lambda line: line.replace(b'"name"', b'"nom"'), "is not a record of a run: it lacks a name"),
        (lambda line: b"[1, 2]", "is not a record of a run: it lacks a name"),
        (lambda line: line.replace(b'"run 1"', b'"run 2"'), "has the name of line 1"),
    ],
)
def test_a_damaged_line_is_named_by_file_and_number(records, damage, complaint):
    lines = records.read_bytes().splitlines()
    lines[1] = damage(lines[1])
    records.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(StoreError) as caught:
        all_runs([records.parent])
    assert f"{records}, line 2, {complaint}" in str(caught.value)


class TestWhatIsCheckedIn:
    """The runs that the repository holds, and the pages made of them."""

    def test_results_are_few_files_in_order_and_every_line_is_a_run(self, tmp_path):
        files = sorted((ROOT / "results").iterdir())
        assert len(files) <= 12
        for file in files:
            records = load_records(file)
            save_records(tmp_path / file.name, records)
            assert records
            assert (tmp_path / file.name).read_bytes() == file.read_bytes()
            if file.name not in (STUDIES, JUDGED):
                runs = [Results.from_json(content, name) for name, content in records.items()]
                assert all(run.finished and run.benchmark == file.stem for run in runs)

    def test_the_pages_of_the_reproduction_are_those_that_the_results_give(self, tmp_path):
        folders = [ROOT / "results"]
        copyfile(ROOT / "README.md", tmp_path / "README.md")
        pages = write_reproduction(tmp_path / "REPRODUCTION.md", all_runs(folders), find_studies(folders).values())
        written = {page.relative_to(tmp_path) for page in pages}
        there = {page.relative_to(ROOT) for page in (ROOT / PAGES).iterdir()}
        assert written == {Path("REPRODUCTION.md"), Path("README.md"), *there}
        for page in written:
            assert (ROOT / page).read_text(encoding="utf-8") == (tmp_path / page).read_text(encoding="utf-8"), (
                f"{page} is not what results/ gives; run `make figures`"
            )
        assert len((ROOT / "REPRODUCTION.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_what_is_checked_in_names_no_folder_of_a_machine() -> None:
    for file in (Path(__file__).parents[1] / "results").glob("*.jsonl"):
        assert " --out /" not in file.read_text(encoding="utf-8"), file.name
