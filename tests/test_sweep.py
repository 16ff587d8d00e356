"""`zoo sweep`: every combination in a folder of its own, checked before anything starts, finished ones not run again."""

from pathlib import Path

import pytest

from toys import outcome
from zoolearn.cli import main
from zoolearn.runs.results import Results

pytestmark = pytest.mark.slow  # processes are started

BRIEF = ("--epochs", "1", "--backbone", "mlp-100", "--samples-per-class", "5", "--first-tasks", "2", "--device", "cpu")


def sweep(*arguments: str | Path) -> None:
    main([str(word) for word in ("sweep", "model-zoo", "split-digits", *BRIEF, *arguments)])


def test_every_combination_and_seed_is_a_folder_named_by_what_varies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep("--vary", "lr=0.01,0.1", "--vary", "tasks-per-episode=1,2", "--seeds", "2", "--out", tmp_path, "--on", "here")
    names = {f"lr={lr}-tasks_per_episode={b}-seed{seed}" for lr in (0.01, 0.1) for b in (1, 2) for seed in (0, 1)}
    assert {path.name for path in tmp_path.iterdir()} == names
    settings = Results.load(tmp_path / "lr=0.1-tasks_per_episode=2-seed1").settings
    assert (settings["recipe"]["lr"], settings["tasks_per_episode"], settings["seed"]) == (0.1, 2, 1)
    table = capsys.readouterr().out
    assert "lr 0.1" in table or "lr" in table
    assert "seeds 2" in table


def test_what_is_finished_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep("--vary", "lr=0.01", "--out", tmp_path, "--on", "here")
    (tmp_path / "lr=0.01-seed0" / "members" / "0001.safetensors").unlink()  # would be missed by a run that continues
    sweep("--vary", "lr=0.01,0.02", "--out", tmp_path, "--on", "here")
    assert "1 of 2 runs are finished" in capsys.readouterr().out
    assert Results.load(tmp_path / "lr=0.02-seed0").finished


def test_a_sweep_runs_what_zoo_run_runs(tmp_path: Path) -> None:
    sweep("--vary", "nesterov=False,True", "--vary", "weigh=uniform", "--out", tmp_path / "sweep", "--workers", "2")
    words = ["--no-nesterov", "--weigh", "uniform", "--out", str(tmp_path / "run")]
    main(["run", "model-zoo", "split-digits", *BRIEF, *words])
    assert outcome(tmp_path / "sweep" / "nesterov=False-weigh=uniform-seed0") == outcome(tmp_path / "run")


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        (["--vary", "lrr=0.1"], "unknown setting 'lrr'; did you mean 'lr'?"),
        (["--vary", "lr=fast"], "lr cannot be 'fast'; it takes a number"),
        (
            ["--vary", "weigh=boosted,heavy"],
            "weigh cannot be 'heavy'; it takes one of boosted, released, uniform",
        ),
        (["--vary", "epochs=0"], "epochs is 0; it must be 1 or more"),
        (["--vary", "first_tasks=2,9"], "first_tasks is 9, but split-digits has 5 tasks"),
        (["--vary", "lr"], "no values; write --vary lr=VALUE,VALUE"),
        (["--vary", "lr=0.1", "--vary", "lr=0.2"], "lr varies twice"),
        ([], "nothing varies"),
        (["--vary", "lr=0.1", "--address", "auto"], "--address is about a cluster"),
        (["--vary", "chains=2,3"], "chains is 2, but it counts with --grow warm-start only"),
    ],
)
def test_a_wrong_word_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], vary: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        sweep(*vary, "--out", tmp_path / "none")
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "--value" not in error, "a flag that nobody gave"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("methods", ["er,ewc", "mine.py:Lwf,mine.py:Er"])
def test_one_method_is_swept_and_the_way_to_run_several_is_told(
    capsys: pytest.CaptureFixture[str], methods: str
) -> None:
    with pytest.raises(SystemExit):
        main(["sweep", methods, "split-digits", "--vary", "lr=0.1"])
    assert f"{methods} are 2 methods, and this command takes one; `zoo run {methods}" in capsys.readouterr().err


def test_a_run_that_diverges_does_not_stop_the_others_and_stands_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(
            [
                "sweep",
                "fine-tune",
                "split-digits",
                *BRIEF,
                "--vary",
                "lr=0.01,1e25",
                "--out",
                str(tmp_path),
                "--on",
                "here",
            ]
        )
    said = capsys.readouterr()
    assert "0, 1 of 1 diverged" in " ".join(said.out.split())
    assert "lr=1e+25-seed0: training on task" in said.err
    assert Results.load(tmp_path / "lr=1e+25-seed0").diverged
