"""Orders of tasks, classes and pixels from the command line: recorded, checked before any work, averaged like seeds."""

from pathlib import Path

import pytest

from published_files import write_mnist
from zoolearn.cli import main
from zoolearn.data.benchmarks import benchmark
from zoolearn.data.fingerprint import fingerprint_of_data
from zoolearn.lab.differences import pair_groups
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.report import find_runs, report
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

pytestmark = pytest.mark.slow  # commands are run

BRIEF = ("--epochs", "1", "--backbone", "mlp-100", "--samples-per-class", "5", "--device", "cpu", "--on", "here")


def zoo(*words: str | Path) -> None:
    main([str(word) for word in words])


def names_in(folder: Path, *names: str) -> Path:
    folder.joinpath("order.txt").write_text("\n".join(names) + "\n\n")
    return folder / "order.txt"


def test_orders_are_seeds_or_files_and_are_recorded(tmp_path: Path) -> None:
    file = names_in(tmp_path, *"9876543210")
    zoo(
        "run",
        "fine-tune",
        "split-digits",
        *BRIEF,
        "--class-order",
        file,
        "--classes-per-task",
        "5",
        "--out",
        tmp_path / "a",
    )
    zoo("run", "fine-tune", "split-digits", *BRIEF, "--class-order", "3", "--out", tmp_path / "b")
    tasks = names_in(tmp_path, "8-9", "0-1", "2-3", "6-7", "4-5")
    zoo("run", "fine-tune", "split-digits", *BRIEF, "--task-order", tasks, "--out", tmp_path / "c")
    runs = [Results.load(tmp_path / name) for name in "abc"]
    said = [{name: v for name, v in run.spec.options.items() if not name.startswith("samples")} for run in runs]
    order = ["8-9", "0-1", "2-3", "6-7", "4-5"]
    assert said == [
        {"classes_per_task": 5, "class_order": list("9876543210")},
        {"class_order": 3},
        {"task_order": order},
    ]
    assert runs[2].tasks == order
    assert "--class-order 9,8,7,6,5,4,3,2,1,0" in runs[0].spec.command
    zoo(*runs[0].spec.command.split()[1:], "--on", "here", "--out", tmp_path / "again")
    assert Results.load(tmp_path / "again").identity == runs[0].identity


@pytest.mark.parametrize(
    ("flag", "names", "said"),
    [
        ("--class-order", "012345678", "class_order of split-digits leaves out '9'; name each of its 10 classes once"),
        ("--class-order", "", "class_order of split-digits leaves out '0'"),
        ("--task-order", ["0-1", "2-3"], "task_order of split-digits leaves out '4-5'; name each of its 5 tasks once"),
        ("--task-order", ["0-1", "9-8"], "leaves out '2-3'"),
    ],
)
def test_an_order_that_leaves_something_out_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, names: str, said: str
) -> None:
    with pytest.raises(SystemExit):
        zoo("run", "er", "split-digits", "--seeds", "2", flag, names_in(tmp_path, *names), "--out", tmp_path / "none")
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "none").exists()


def test_what_is_neither_a_seed_nor_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo("run", "er", "split-digits", "--class-order", "shuffled", "--out", tmp_path / "none")
    assert "--class-order shuffled is neither a seed nor a file" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["class_order", "task_order"])
def test_orders_are_averaged_like_seeds_and_called_orders(tmp_path: Path, option: str, capsys) -> None:
    zoo("sweep", "fine-tune", "split-digits", *BRIEF, "--vary", f"{option}=1,2,3", "--out", tmp_path)
    assert "seeds 3 orders" in " ".join(capsys.readouterr().out.split())
    (group,) = group_by_settings([*find_runs([tmp_path]).values()])
    assert len(group.runs) == 3
    difference = pair_groups(group, group)
    assert difference is not None
    assert not difference.one_order
    assert difference.interval.endswith("over 3 orders")
    zoo("run", "fine-tune", "split-digits", *BRIEF, "--out", tmp_path / "as listed")
    assert len(report([*find_runs([tmp_path]).values()]).rows) == 2, "the order of the benchmark itself is another row"


def test_streams_of_permuted_pixels_are_of_the_same_data_and_other_data_is_not(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    streams = [benchmark("permuted-mnist", tmp_path, permutation_seed=seed, tasks=3) for seed in (0, 1)]
    assert len({fingerprint_of_data(stream) for stream in streams}) == 1
    assert fingerprint_of_data(streams[0]) != fingerprint_of_data(streams[0][:2])
    zoo("sweep", "fine-tune", "permuted-mnist", *BRIEF[:4], "--data", tmp_path, "--vary", "permutation_seed=0,1",
        "--tasks", "2", "--device", "cpu", "--on", "here", "--out", tmp_path / "runs")  # fmt: skip
    runs = [*find_runs([tmp_path / "runs"]).values()]
    assert [group.seeds for group in group_by_settings(runs)] == ["2 orders"]


def test_classes_in_other_orders_are_of_the_same_data() -> None:
    whole = [benchmark("split-digits", class_order=seed) for seed in (1, 2)]
    other = benchmark("split-digits", class_order=1, samples_per_class=5)
    assert fingerprint_of_data(whole[0]) == fingerprint_of_data(whole[1]) != fingerprint_of_data(other)


def test_angles_and_digits_of_a_rotated_stream_are_flags_and_are_recorded(tmp_path: Path) -> None:
    words = ("fine-tune", "rotated-digits", "--angles", "0", "45.5", "--digits-per-class", "2", "--device", "cpu")
    zoo("run", *words, "--epochs", "1", "--backbone", "mlp-100", "--out", tmp_path / "run")
    results = Results.load(tmp_path / "run")
    assert (results.tasks, results.train_samples) == (["rotated-0", "rotated-45.5"], [20, 20])
    assert results.spec.options == {"angles": [0.0, 45.5], "digits_per_class": 2}
    assert "--digits-per-class 2 --angles 0 45.5" in results.spec.command
    assert RunSpec("er", "rotated-digits", {}, {"angles": (0, 10, 20, 30, 40), "digits_per_class": 10}).options == {}
