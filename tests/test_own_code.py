"""One's own methods, backbones and benchmarks, named on the command line by where they are."""

import linecache
import math
import re
import sys
from pathlib import Path

import pytest

import zoolearn
from toys import outcome
from zoolearn.cli import main
from zoolearn.errors import SettingsError, StoreError
from zoolearn.files import load_json
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.report import find_runs
from zoolearn.runs import own
from zoolearn.runs.jobs import job
from zoolearn.runs.own import Own
from zoolearn.runs.results import Results

METHODS = """
from dataclasses import dataclass, field
from zoolearn import FineTune, Isolated, Learner

@dataclass(kw_only=True, eq=False)
class Mine(FineTune):
    strength: float = field(default=1.0, metadata={"help": "of nothing"})

class Alone(Isolated):
    pass

class Fragile(FineTune):
    def _train(self, task):
        if self.seed == 1 and self.episode:
            raise KeyError(task.name)
        return (yield from super()._train(task))

class Unmade(FineTune):
    def __init__(self, **settings):
        1 / 0

class Half(Learner):
    pass

def function():
    pass

renamed = function
number = 3
"""
NETS = """
from torch import nn

def wide(shape, dropout=0.0):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
"""
BENCH = """
import zoolearn

def thin(benchmark):
    return benchmark.per_class(6)

def stream(data=None, class_order=None):
    return zoolearn.Benchmark("own", thin(zoolearn.benchmark("split-digits", class_order=class_order)).tasks)

def long(tasks=7):
    return stream()

def bleach(x, kinds, rng):
    return x * 0

def shrink(x, kinds, rng):
    return x[:, :, 1:]

def nothing():
    return 3

def wants(folder):
    return stream()

def varied(rows: int = 6, kinds: tuple[str, ...] = ("a",), clean=True, seed: int = 0, part: int | None = 5):
    assert isinstance(kinds, tuple) and part
    return zoolearn.Benchmark("varied", zoolearn.benchmark("split-digits").per_class(rows, seed).tasks)

def needs(rows: int):
    return varied(rows)

def filed():
    return varied(int(open("rows.txt").read()))

def breaks():
    return {}["key"]
"""
FILES = {"own_methods.py": METHODS, "own_nets.py": NETS, "own_bench.py": BENCH, "own_package/__init__.py": ""}
BRIEF = ("--epochs", "1", "--backbone", "own_nets.py:wide", "--first-tasks", "2", "--device", "cpu")
MINE = ("own_methods.py:Mine", "own_bench.py:stream")


def forget_code() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    linecache.checkcache()
    own._benchmark.cache_clear()
    job._made.cache_clear()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with code, which is what the command line is given in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in {**FILES, "own_package/methods.py": METHODS}.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    yield tmp_path
    forget_code()


def zoo(*words: str | Path) -> None:
    main([str(word) for word in words])


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    with pytest.raises(SystemExit):
        zoo(*words)
    return " ".join(capsys.readouterr().err.split())


def test_a_run_from_files_is_the_run_that_python_makes() -> None:
    zoo("run", *MINE, *BRIEF, "--strength", "2", "--out", "files")
    zoo("run", "own_package.methods:Mine", "own_bench.py:stream", *BRIEF, "--strength", "2", "--out", "module")
    from own_bench import stream
    from own_methods import Mine
    from own_nets import wide

    learner = Mine(backbone=wide, strength=2.0, recipe=zoolearn.Recipe(epochs=1, device="cpu"))
    in_python = zoolearn.run(learner, stream()[:2], "python")
    assert outcome(Path("files")) == outcome(Path("module"))
    results = Results.load(Path("files"))
    assert results.accuracy == in_python.accuracy
    assert (results.method, results.benchmark, results.settings["backbone"]) == ("Mine", "own", "wide")
    assert [*results.source] == ["Mine", "backbone wide", "benchmark stream"]
    assert [len(group.runs) for group in group_by_settings([*find_runs(["files", "python"]).values()])] == [1], (
        "they are one run"
    )


def test_training_images_are_varied_by_a_function_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "fine-tune", "split-digits", *BRIEF, "--augment", "yes", "--augment-by")
    zoo(*words, "own_bench.py:bleach", "--out", "bleached")
    results = Results.load(Path("bleached"))
    assert results.episodes[0].loss == pytest.approx(math.log(2), abs=0.02), "it has seen nothing of its images"
    assert results.settings["recipe"]["augment_by"] == "bleach"
    assert [*results.source] == ["backbone wide", "augment_by bleach"]
    said = refused(capsys, *words, "own_bench.py:shrink", "--out", "shrunk")
    assert re.search(r"augment_by shrink gave \(\d+, 1, 7, 8\) .* for images .* it must keep shape and dtype", said)


def test_a_seed_that_fails_stands_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo("run", "own_methods.py:Fragile", "split-digits", *BRIEF, "--seeds", "3", "--on", "here", "--out", "runs")
    said = capsys.readouterr()
    assert "seeds 2, 1 of 3 failed" in said.out
    assert "Fragile on split-digits, seed 1, failed: KeyError: '2-3'" in said.out
    assert re.search(r"Fragile-split-digits-seed1: KeyError: '2-3' \(.*own_methods.py, line \d+\)", said.err)
    zoo("report", "runs")
    assert "seeds 2, 1 of 3 failed" in capsys.readouterr().out, "and later too"


def test_parameters_of_a_benchmark_are_flags_and_belong_to_what_a_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*BRIEF, "--kinds", "a", "b", "--no-clean", "--on", "here")
    zoo("sweep", "fine-tune", "own_bench.py:varied", *words, "--vary", "rows=6,7", "--out", "sweep")
    six, seven = (Results.load(Path("sweep") / f"rows={rows}-seed0") for rows in (6, 7))
    assert seven.settings["benchmark"] == {"clean": False, "first_tasks": 2, "kinds": ["a", "b"], "rows": 7}
    assert "rows" not in six.settings["benchmark"], "as usual"
    assert len(group_by_settings([six, seven])) == 2
    zoo("run", "fine-tune", "own_bench.py:varied", "--rows", "7", *words, "--out", "run")
    assert outcome(Path("run")) == outcome(Path("sweep/rows=7-seed0"))
    zoo("run", "fine-tune", "own_bench.py:needs", "--rows=7", *BRIEF, "--out", "needs")
    assert Results.load(Path("needs")).accuracy == seven.accuracy
    said = refused(capsys, "run", "fine-tune", "own_bench.py:varied", *words, "--out", "run")
    assert "benchmark.rows was 7, now not set" in said


def test_the_help_of_a_benchmark_of_ones_own_tells_its_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo("run", "fine-tune", "own_bench.py:long", "--backbone", "own_nets.py:wide", "--help")
    said = " ".join(re.sub("[│╭╰─╮╯]", " ", capsys.readouterr().out).split())
    assert "--tasks N a parameter of own_bench.py:long (default: 7)" in said
    assert "own_nets.py:wide" in said
    assert not re.search("own_bench.py:long[,}]", said), "it is no backbone"


def test_a_comma_in_the_path_of_a_file_parts_nothing() -> None:
    Path("a,b").mkdir()
    for name in ("own_methods.py", "own_bench.py"):
        Path(name).rename(f"a,b/own_,{name}")
    zoo(
        "run",
        "a,b/own_,own_methods.py:Mine,er",
        "a,b/own_,own_bench.py:stream",
        *BRIEF,
        "--on",
        "here",
        "--out",
        "runs",
    )
    assert {folder.name for folder in Path("runs").iterdir()} == {"Mine-own-seed0", "er-own-seed0"}


def test_an_error_in_ones_own_code_is_shown_from_there_on_with_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", "own_methods.py:Fragile", "split-digits", *BRIEF, "--seed", "1", "--out", "run")
    shown, _, line = said.partition("zoo: ")
    assert re.fullmatch(
        r'Traceback .* File "\S*own_methods.py", line \d+, in _train raise KeyError\(task.name\) .*', shown
    )
    assert "cli" not in shown, "none of our frames"
    assert line.startswith("Fragile failed in episode 2, 2-3: KeyError: '2-3' (/")
    assert "1 of 2 episodes are kept in run. The same command continues" in line
    said = refused(capsys, "run", "own_methods.py:Unmade", "split-digits", *BRIEF, "--out", "none")
    assert "zoo: code of your own failed: ZeroDivisionError" in said


@pytest.mark.slow  # processes are started
def test_workers_find_the_code_again() -> None:
    words = ("--vary", "backbone=own_nets.py:wide,mlp-100", "--epochs", "1", "--first-tasks", "2", "--device", "cpu")
    zoo("sweep", *MINE, *words, "--workers", "2", "--out", "workers")
    zoo("sweep", *MINE, *words, "--on", "here", "--out", "here")
    for name in ("backbone=own_nets.wide-seed0", "backbone=mlp-100-seed0"):
        assert outcome(Path("workers") / name) == outcome(Path("here") / name)


@pytest.mark.slow  # processes are started
def test_a_learner_of_ones_own_that_is_sent_to_workers_arrives() -> None:
    for workers in (1, 2):
        zoo("run", "own_methods.py:Alone", "own_bench.py:stream", *BRIEF, "--workers", workers, "--out", f"{workers}")
    assert outcome(Path("1")) == outcome(Path("2"))


def test_code_that_is_gone_is_named() -> None:
    place = Own.at("own_nets.py:wide")
    assert place.load().__name__ == "wide"
    forget_code()
    Path("own_nets.py").unlink()
    with pytest.raises(SettingsError, match=r"own_nets.py:wide: .* sees no file .*own_nets.py; .* all machines see"):
        place.load()


def test_nothing_that_a_run_says_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    zoo("run", *MINE, *BRIEF, "--out", "runs/mine")
    forget_code()
    zoo("report", "runs")
    assert "Mine" in capsys.readouterr().out
    with pytest.raises(StoreError, match=r"unknown method 'Mine'.*names=\{'Mine': ...\}"):
        zoolearn.load("runs/mine")
    assert not [name for name in sys.modules if name.startswith("own_")]
    names = {place.name: place.load() for place in map(Own.at, ("own_methods.py:Mine", "own_nets.py:wide"))}
    assert list(zoolearn.load("runs/mine", names=names).classes) == ["0-1", "2-3"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("own_methods.py", "strength: float", "power: int = 1\n    strength: float", "the source of Mine was changed"),
        ("own_nets.py", "nn.ReLU()", "nn.GELU()", "the source of backbone wide was changed"),
        ("own_bench.py", "data=None, class", "data=None,  class", "the source of benchmark stream was changed"),
        ("own_bench.py", "per_class(6)", "per_class(7)", "the source of benchmark stream was changed"),
    ],
)
def test_changed_code_never_gives_the_old_number(
    capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, said: str
) -> None:
    words = ("run", *MINE, *BRIEF, "--seeds", "2", "--on", "here", "--out", "runs")
    zoo(*words)
    forget_code()
    zoo(*words)
    assert "2 of 2 runs are finished" in capsys.readouterr().out
    forget_code()
    Path(file).write_text(Path(file).read_text().replace(old, new))
    assert said in refused(capsys, *words)


def test_a_changed_file_that_a_benchmark_reads_never_gives_the_old_number(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.txt").write_text("6")
    words = ("run", "fine-tune", "own_bench.py:filed", *BRIEF, "--seeds", "2", "--on", "here", "--out", "runs")
    zoo(*words)
    forget_code()
    zoo(*words)
    assert "2 of 2 runs are finished" in capsys.readouterr().out
    forget_code()
    Path("rows.txt").write_text("7")
    assert "the data of the benchmark is not what the run began with" in refused(capsys, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["own_methods.py:Mien", "split-digits"], "unknown name in own_methods.py 'Mien'; did you mean 'Mine'?"),
        (["own_methods.py:function", "split-digits"], "own_methods.py:function is no learner; derive a class from"),
        (["own_methods.py:Half", "split-digits"], "own_methods.py:Half is no whole learner: it lacks _train"),
        (
            ["own_methods.py:FineTune", "split-digits"],
            "own_methods.py:FineTune is part of zoolearn; give it by its name",
        ),
        (["own_methods.py:renamed", "split-digits"], "own_methods.py:renamed has no name of its own, or another one"),
        (["er,", "ewc", "split-digits"], "'er,' has a comma with nothing behind it; separate names by a comma without"),
        (["own_methods.py", "split-digits"], "'own_methods.py' names no code; write FILE.py:NAME"),
        (["nowhere.py:Mine", "split-digits"], "sees no file"),
        (["nowhere.methods:Mine", "split-digits"], "cannot be loaded (ModuleNotFoundError: No module named 'nowhere')"),
        (["own_broken.py:Mine", "split-digits"], "own_broken.py:Mine cannot be loaded (SyntaxError"),
        (["own_latin.py:Mine", "split-digits"], "own_latin.py:Mine cannot be loaded (SyntaxError"),
        (["own_leaves.py:Mine", "split-digits"], "own_leaves.py:Mine cannot be loaded (SystemExit: 2)"),
        (["math:floor", "split-digits"], "the source of math:floor cannot be read"),
        (["json.py:JSONDecoder", "split-digits"], "a module named 'json' is there already"),
        (["own_methods.py:Mine", "own_bench.py:nothing"], "own_bench.py:nothing gives a int, no Benchmark"),
        (["own_methods.py:Mine", "own_bench.py:wants"], "own_bench.py:wants needs folder; give --folder, for which"),
        (["own_methods.py:Mine", "own_bench.py:needs"], "own_bench.py:needs needs rows; give --rows"),
        (["own_methods.py:Mine", "own_bench.py:breaks"], "own_bench.py:breaks made no benchmark: KeyError: 'key' (/"),
        (
            ["er", "own_bench.py:varied", "--seed", "1"],
            "--seed does not reach own_bench.py:varied, which has a parameter",
        ),
        (["er", "own_bench.py:varied", "--rows", "few"], "'few' is not a whole number"),
        (["er", "own_bench.py:varied", "--part", "None"], "'None' is not a whole number"),
        ([*MINE, "--classes-per-task", "5"], "own_bench.py:stream takes no classes_per_task"),
        ([*MINE, "--backbone", "own_methods.py:number"], "own_methods.py:number has no name of its own"),
        ([*MINE, "--backbone", "own_nets.py:narrow"], "unknown name in own_nets.py 'narrow'"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    Path("own_broken.py").write_text("class Mine:\n  def")
    Path("own_latin.py").write_bytes(b"name = '\xe9'")
    Path("own_leaves.py").write_text("raise SystemExit(2)")
    Path("json.py").write_text("class JSONDecoder: pass")
    assert said in refused(capsys, "run", *words, "--out", "none")
    assert not Path("none").exists()


def test_a_comma_may_end_the_name_of_a_folder_and_no_list_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    zoo("run", *MINE, *BRIEF, "--out", "runs/a,")
    assert Results.load(Path("runs/a,")).finished
    for words in (("sweep", *MINE, "--vary", "strength=1,"), ("tune", *MINE, "--space", "strength=1,")):
        assert "'1,' has a comma with nothing behind it" in refused(capsys, *words, *BRIEF)


def test_a_zoo_with_code_of_ones_own_is_judged_where_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    zoo("run", "model-zoo", "own_bench.py:stream", *BRIEF, "--out", "zoo")
    assert "name the function that made it, or the zoo folder (--benchmark FILE.py:NAME)" in refused(
        capsys, "judge", "zoo"
    )
    named = ("--benchmark", "own_bench.py:stream")
    assert "unknown backbone 'wide'" in refused(capsys, "judge", "zoo", *named)
    zoo("judge", "zoo", *named, "--names", "own_nets.py:wide")
    assert load_json(Path("zoo/judged.json"))["zoo"]["accuracy"] > 0


def test_a_search_names_the_code_and_the_data_in_the_command_that_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    words = ("--trials", "2", "--space", "strength=1..2", "--on", "here", "--data", "somewhere", "--out", "search")
    zoo("tune", *MINE, *BRIEF, *words)
    printed = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  zoo run")]
    assert all(line.startswith("zoo run own_methods.py:Mine own_bench.py:stream --") for line in printed)
    assert all("--backbone own_nets.py:wide" in line and line.endswith("--data somewhere") for line in printed)
    for number, line in enumerate(printed):
        zoo(*line.split()[1:], "--out", f"{number}")
    assert outcome(Path("0")) == outcome(Path("1"))
    Path("own_methods.py").write_text(METHODS.replace("of nothing", "of something"))
    forget_code()
    assert "is another search: Mine was" in refused(capsys, "tune", *MINE, *BRIEF, *words)


def test_tune_has_no_flag_that_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo("tune", "er", "--help")
    assert "--seeds" not in capsys.readouterr().out
