"""`zoo tune`: judged by training data that was set aside, weak trials stopped, continued by the same command."""

import json
import shutil
from pathlib import Path
from statistics import median

import pytest
import torch

from toys import pictures
from zoolearn.cli import main
from zoolearn.data.stream import sample_per_class, validation_split
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import load_json, save_json
from zoolearn.lab.presets import find_preset, save_preset
from zoolearn.lab.published import Preset
from zoolearn.lab.tune.search import Search
from zoolearn.lab.tune.space import PAPER, Choice, Range, part_of_space
from zoolearn.lab.tune.trials import rungs
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

pytest.importorskip("optuna")
pytest.importorskip("nevergrad")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")]

BRIEF = ("--epochs", "1", "--backbone", "mlp-100", "--samples-per-class", "20", "--device", "cpu", "--on", "here")
SEARCHES = pytest.mark.parametrize("search", ["optuna", "nevergrad"])


def tune(*arguments: str | Path) -> None:
    main([str(word) for word in ("tune", "fine-tune", "split-digits", *BRIEF, *arguments)])


def trials(folder: Path) -> list[dict[str, object]]:
    return [load_json(path) for path in sorted(folder.glob("trial-*.json"))]


def rows(x: torch.Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in x}


def test_what_judges_comes_from_the_training_data_alone() -> None:
    task = pictures(per_class=20)
    split = validation_split(task, 20)
    assert rows(split.train.x) | rows(split.test.x) == rows(task.train.x)
    assert not rows(split.train.x) & rows(split.test.x)
    assert not rows(split.test.x) & rows(task.test.x)
    assert torch.bincount(split.test.y).tolist() == [4, 4]
    assert rows(validation_split(task, 20).test.x) == rows(split.test.x)
    with pytest.raises(DataError, match="one training example"):
        validation_split(sample_per_class(task, 1, 0), 20)


def test_a_search_stops_weak_trials_and_names_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune("--trials", "8", "--space", "lr=1e-4..0.3", "--batch-size", "4", "--out", tmp_path)
    found = trials(tmp_path)
    states = [trial["state"] for trial in found]
    assert len(found) == 8
    assert "done" in states
    assert "stopped" in states
    best = max((t for t in found if t["state"] == "done"), key=lambda trial: trial["values"][-1])
    results = Results.load(tmp_path / f"trial-{best['number']:04d}")
    assert results.settings["benchmark"]["validation"] == 20
    row = results.accuracy[-1]
    assert best["values"][-1] == pytest.approx(sum(row) / len(row))
    said = capsys.readouterr().out
    assert f"zoo run fine-tune split-digits --preset {tmp_path / 'best.json'}" in said
    preset = find_preset(str(tmp_path / "best.json"), "fine-tune", "rotated-digits")
    assert preset.spec.settings["lr"] == best["settings"]["lr"]
    command = next(line for line in said.splitlines() if line.strip().startswith("zoo run") and "--lr" in line).split()
    assert float(command[command.index("--lr") + 1]) == preset.spec.settings["lr"]
    main(["run", "fine-tune", "split-digits", "--preset", str(tmp_path / "best.json"), "--out", str(tmp_path / "run")])
    assert Results.load(tmp_path / "run").settings["recipe"] == results.settings["recipe"]


@SEARCHES
def test_the_same_command_continues_and_other_settings_are_refused(
    search: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--first-tasks", "2", "--search", search, "--out", tmp_path)
    tune("--trials", "2", *words)
    first = trials(tmp_path)
    record = json.loads((tmp_path / "trial-0002.json").read_text())
    tune("--trials", "4", *words)
    assert trials(tmp_path)[:2] == first
    assert len({str(trial["settings"]) for trial in trials(tmp_path)}) == 4
    assert len(trials(tmp_path)) == 4
    assert json.loads((tmp_path / "trial-0002.json").read_text()) == record
    with pytest.raises(SystemExit):
        tune("--trials", "4", "--first-tasks", "3", "--search", search, "--out", tmp_path)
    assert "is another search: first_tasks was 2, now 3." in " ".join(capsys.readouterr().err.split())


@SEARCHES
def test_a_trial_that_was_cut_off_is_taken_up(search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoolearn.lab.tune.trials import Tuning

    count = Tuning._count
    seen: list[str] = []

    def stumble(self: Tuning, *arguments: object) -> None:
        seen.append(arguments[1].job.name)  # type: ignore[attr-defined]
        if len(seen) == 3:
            raise KeyboardInterrupt
        count(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Tuning, "_count", stumble)
        with pytest.raises(SystemExit):
            tune("--trials", "3", "--search", search, "--out", tmp_path)
    assert "under way" in [trial["state"] for trial in trials(tmp_path)]
    tune("--trials", "3", "--search", search, "--out", tmp_path)
    assert "under way" not in [trial["state"] for trial in trials(tmp_path)]


@SEARCHES
@pytest.mark.parametrize("cut", [1, 12])
def test_a_search_that_is_taken_up_goes_on_as_if_it_had_never_been_cut(search: str, cut: int) -> None:
    space = {"lr": Range(1e-4, 1e-1), "batch_size": Range(8, 64), "backbone": Choice(("mlp", "small-conv"))}

    def values(settings: dict[str, object]) -> list[float]:
        return [0.5 - abs(settings["lr"] - 0.01), 0.6 - abs(settings["lr"] - 0.01) - settings["batch_size"] / 1000]

    def tried(by: Search, settings: dict[str, object] | None = None) -> dict[str, object]:
        trial, found = by.ask(settings)
        reached = [value for rung, value in enumerate(values(found)) if rung == 0 or by.goes_on(trial, rung, value)]
        by.tell(trial, reached[-1], stopped=len(reached) < 2)
        return found

    whole, first, second = (Search(space, search, seed=3, trials=16) for _ in range(3))
    expected = [tried(whole) for _ in range(16)]
    begun = [tried(first) for _ in range(cut)]
    assert [tried(second, settings) for settings in begun] == begun
    assert begun + [tried(second) for _ in range(16 - cut)] == expected
    assert len({str(settings) for settings in expected}) == 16


@pytest.mark.parametrize("search", ["optuna", "nevergrad"])
def test_a_search_comes_near_to_what_has_the_largest_value(search: str) -> None:
    by, proposed = Search({"share": Range(0.0, 1.0)}, search, seed=0, trials=40), []
    for _ in range(40):
        trial, settings = by.ask()
        proposed.append(settings["share"])
        by.tell(trial, -abs(settings["share"] - 0.8), stopped=False)
    assert abs(median(proposed[20:]) - 0.8) < 0.1


def test_of_trials_at_one_rung_the_better_go_on() -> None:
    by = Search({"share": Range(0.0, 1.0)}, "optuna", seed=0, trials=9)
    trials = [by.ask()[0] for _ in range(9)]
    assert [by.goes_on(trial, 1, value) for trial, value in zip(trials, (5, 4, 3, 2, 1, 6, 7, 0, 8), strict=True)] == [
        True, False, False, False, False, True, True, False, True,
    ]  # fmt: skip


def test_files_that_a_killed_search_left_of_a_trial_are_deleted(tmp_path: Path) -> None:
    tune("--trials", "1", "--space", "lr=1e-3..0.1", "--out", tmp_path)
    (tmp_path / "trial-0001" / "members").mkdir()
    (tmp_path / "trial-0001" / "episode.json").touch()
    tune("--trials", "1", "--space", "lr=1e-3..0.1", "--out", tmp_path)
    assert [path.name for path in (tmp_path / "trial-0001").iterdir()] == ["results.json"]


def test_a_training_that_diverges_counts_for_nothing(tmp_path: Path) -> None:
    tune("--trials", "3", "--space", "lr=0.01,1e25", "--seed", "1", "--first-tasks", "2", "--out", tmp_path)
    for trial in trials(tmp_path):
        assert (trial["state"] == "diverged") == (trial["settings"]["lr"] > 1)


def test_the_space_is_the_papers_unless_another_is_given() -> None:
    space = dict(
        part_of_space(text, lambda name, value: (int if name == "batch_size" else float)(value)) for text in PAPER
    )
    assert space["lr"] == Range(1e-4, 1e-2)
    assert space["batch_size"] == Range(8, 64)
    assert [name for name, part in space.items() if isinstance(part, Range) and part.logarithmic] == [
        "lr",
        "weight_decay",
    ]
    assert part_of_space("weigh=a,b", lambda _, value: value) == ("weigh", Choice(("a", "b")))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--space", "lrr=0..1"], "unknown setting 'lrr'"),
        (["--space", "lr=1..0"], "lr=1..0 is no range"),
        (["--space", "nesterov=False..True"], "is no range"),
        (["--space", "first_tasks=1..3"], "first_tasks is of the benchmark"),
        (["--space", "lr"], "says not what lr may be"),
        (["--space", "dropout=0.5..1.5"], "dropout is 1.5; it must be 0 or more and below 1"),
        (["--space", "batch_size=0,16"], "batch_size is 0; it must be 1 or more"),
        (["--tune-on", "split-digit"], "did you mean 'split-digits'?"),
        (["--trials", "0"], "trials is 0"),
        (["--seeds", "2"], "Unrecognized options: --seeds"),
    ],
)
def test_a_wrong_word_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        tune(*words, "--out", tmp_path / "none")
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "none").exists()


def test_rungs_are_a_ninth_a_third_and_all() -> None:
    assert rungs(20) == [3, 7, 20]
    assert rungs(1) == [1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {"lr": "fast"}}, "lr cannot be 'fast'"),
        ({"settings": {"speed": 1}}, "unknown setting 'speed'"),
        ({"method": "er"}, "is a preset for er, not for fine-tune"),
        ({"colour": "red"}, "is not a preset: Object contains unknown field `colour`"),
    ],
)
def test_a_preset_file_is_checked_like_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], said: str
) -> None:
    file = tmp_path / "mine.json"
    save_preset(Preset("mine", RunSpec("fine-tune", "split-digits", {"epochs": 1}), "", ""), file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(SystemExit):
        main(["run", "fine-tune", "split-digits", "--preset", str(file), "--out", str(tmp_path / "none")])
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_missing_preset_file_is_named() -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.json is no preset"):
        find_preset("nowhere.json", "er", "split-digits")


def test_a_method_that_answers_only_at_the_end_is_compared_there(tmp_path: Path) -> None:
    main([str(word) for word in ("tune", "multi-head", "split-digits", *BRIEF, "--trials", "2", "--out", tmp_path)])
    assert [(trial["state"], len(trial["values"])) for trial in trials(tmp_path)] == [("done", 1)] * 2  # type: ignore[arg-type]


def test_a_trial_that_failed_with_its_machine_is_tried_again(tmp_path: Path) -> None:
    tune("--trials", "1", "--out", tmp_path)
    record = load_json(tmp_path / "trial-0001.json")
    save_json(tmp_path / "trial-0001.json", {**record, "state": "failed", "values": []})
    shutil.rmtree(tmp_path / "trial-0001")
    tune("--trials", "1", "--out", tmp_path)
    assert trials(tmp_path) == [record]


def test_what_is_judged_are_the_other_tasks_in_the_same_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune("--trials", "1", "--first-tasks", "2", "--task-order", "7", "--out", tmp_path)
    said = " ".join(capsys.readouterr().out.split())
    assert "--task-order 7" in said
    assert "--after-tasks 2" in said
    assert find_preset(str(tmp_path / "best.json"), "fine-tune", "split-digits").spec.options == {
        "task_order": 7,
        "after_tasks": 2,
    }
