"""A run tells on what it was worked on, and says so when it is continued under conditions that change its bits."""

import subprocess
from pathlib import Path

import pytest
import torch

import toys
import zoolearn
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.files import load_json, save_json
from zoolearn.lab.report import report
from zoolearn.methods.registry import METHODS
from zoolearn.runs.environment import DECISIVE, differences, environment
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, run

pytestmark = pytest.mark.slow  # processes are started


def learner():
    return toys.learner_of(METHODS["fine-tune"])


def begun(folder: Path, **changes: object) -> Path:
    """A run of three tasks that was left after the first, on a machine that differed in this from ours."""
    stopped = episodes(learner(), toys.benchmark(3), folder)
    next(stopped)
    stopped.close()
    on_another_machine(folder, **changes)
    return folder


def on_another_machine(run: Path, **changes: object) -> None:
    """Writes into a run that its first sitting was under other conditions."""
    sitting = run / "sittings" / "0001.json"
    content = load_json(sitting)
    save_json(sitting, {**content, "environment": {**content["environment"], **changes}})


def test_a_run_lists_when_it_was_worked_on_and_after_which_episode(tmp_path):
    results = run(learner(), toys.benchmark(3), begun(tmp_path))
    assert [sitting["episodes"] for sitting in results.sittings] == [0, 1]
    assert all(sitting["environment"]["threads"] == torch.get_num_threads() for sitting in results.sittings)
    assert results.changes == []
    assert Results.load(tmp_path).sittings == results.sittings
    again = run(learner(), toys.benchmark(3), tmp_path)
    assert again.sittings == results.sittings, "to look at a finished run is no sitting"


def test_a_run_in_memory_has_one_sitting():
    (sitting,) = run(learner(), toys.benchmark(2)).sittings
    assert sitting["episodes"] == 0


def test_to_continue_under_other_conditions_is_told_in_one_line_and_in_the_results(tmp_path, caplog):
    results = run(learner(), toys.benchmark(3), begun(tmp_path, threads=99, torch="1.0"))
    (line,) = caplog.messages
    assert f"{tmp_path} was begun under other conditions" in line
    assert f"torch was 1.0, now {torch.__version__}; threads was 99, now {torch.get_num_threads()}" in line
    assert "\n" not in line
    assert results.environment["threads"] == 99, "the environment is that of the beginning"
    assert Results.load(tmp_path).changes == [
        f"after episode 1 torch was 1.0, now {torch.__version__}",
        f"after episode 1 threads was 99, now {torch.get_num_threads()}",
    ]
    assert any("continued under other conditions: after episode 1" in note for note in report([results]).notes)


def test_exact_refuses_before_anything_is_done(tmp_path):
    folder = begun(tmp_path, threads=99)
    before = toys.contents(folder)
    with pytest.raises(SettingsError, match=r"threads was 99, now .* Restore them, or continue without exact"):
        run(learner(), toys.benchmark(3), folder, exact=True)
    assert toys.contents(folder) == before
    assert run(learner(), toys.benchmark(3), begun(tmp_path / "same"), exact=True).finished


def test_the_command_line_tells_it_and_refuses_with_exact(tmp_path, capsys, caplog):
    command = ["run", "isolated", "split-digits", "--backbone", "mlp-100"]
    command += ["--epochs", "1", "--first-tasks", "2", "--out", str(tmp_path / "run")]
    main(command)
    for file in ("episodes/0002.json", "results.json"):
        (tmp_path / "run" / file).unlink()
    on_another_machine(tmp_path / "run", threads=99)
    with pytest.raises(SystemExit) as refused:
        main([*command, "--exact"])
    assert refused.value.code == 1
    assert "threads was 99, now" in capsys.readouterr().err
    main(command)
    assert [line for line in caplog.messages if "threads was 99, now" in line]
    main(["report", str(tmp_path)])
    assert "after episode 1 threads was 99, now" in capsys.readouterr().out


def test_what_decides_the_bits_is_recorded(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    found = environment()
    assert set(DECISIVE) <= set(found)
    assert found["kernels"]["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert found["kernels"]["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    assert differences(found, environment()) == ["ONEDNN_MAX_CPU_ISA was AVX2, now None"]


def test_older_records_without_an_entry_are_silent_about_it():
    now = environment()
    assert differences({name: value for name, value in now.items() if name != "kernels"}, now) == []


def test_a_checkout_knows_its_commit():
    root = Path(zoolearn.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert str(environment()["commit"]).startswith(head.strip())


def test_a_run_begun_again_before_it_saved_anything_forgets_its_first_sitting(tmp_path):
    stopped = episodes(learner(), toys.benchmark(3), tmp_path)
    next(stopped)
    stopped.close()
    for name in ("episodes", "net", "results.json"):
        path = tmp_path / name
        if path.is_dir():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    other = toys.learner_of(METHODS["fine-tune"])
    other.seed = 5
    assert [sitting["episodes"] for sitting in run(other, toys.benchmark(3), tmp_path).sittings] == [0]
