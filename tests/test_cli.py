import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from processes import PATIENCE, started
from zoolearn.cli import main
from zoolearn.cli.commands import COMMANDS
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.methods.registry import METHODS, settings_of
from zoolearn.nets.backbones import BACKBONES
from zoolearn.runs.results import Results

pytestmark = pytest.mark.slow  # commands are started

QUICK = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "2"]


def zoo(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(words)
    return capsys.readouterr().out


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code in (1, 2)
    return capsys.readouterr().err


def test_help_names_every_command(capsys):
    out = zoo("--help", capsys=capsys)
    words = " ".join(out.split())
    assert all(command.usage in words and command.summary in words for command in COMMANDS.values())


def test_help_puts_every_command_under_one_of_three_headings(capsys):
    lines = zoo("--help", capsys=capsys).splitlines()
    found = {"": set()}
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            found[line.removesuffix(":")] = set()
        elif line.startswith("  ") and line[2] != " ":
            found[list(found)[-1]].add(line.split()[0])
    assert list(found) == ["", "experiments", "your own zoo", "about"]
    assert found[""] == set()
    assert {"run", "report", "paper"} <= found["experiments"]
    assert {"learn", "predict", "undo", "forget"} <= found["your own zoo"]
    assert found["about"] == {"demo", "list", "data"}
    assert set.union(*found.values()) == COMMANDS.keys()


@pytest.mark.parametrize("words", [["--help"], ["run"], ["sweep"], ["tune"], ["study"], ["learn", "--help"]])
def test_help_fits_a_terminal_of_80_columns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with suppress(SystemExit):
        main(words)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "isolated", *QUICK, "--seed", "1", "--seed", "2"], "--seed was given 2 times; give it once"),
        (["study", "competition", "split-digits", "--first-tasks", "0"], "first_tasks is 0; give 1 or more"),
        (["study", "replay", "split-digits", "--samples-per-class", "-5"], "samples_per_class is -5"),
        (["study", "replay", "split-digits", "--seeds", "0"], "seeds is 0; give 1 or more"),
        (["paper", "table-2-single-epoch", "--seeds", "0"], "seeds is 0; give 1 or more"),
        (["tune", "isolated", *QUICK, "--validation", "0"], "validation is 0 percent"),
        (["sweep", "isolated", *QUICK, "--vary", "seed=1,2"], "give --seeds N"),
        (["run", "isolated", *QUICK, "--threads", "1000000"], "threads is 1000000; give 1 to 1024"),
        (["compare", "my-zoo", "--threads", "-1"], "threads is -1; give 1 to 1024"),
        (["compare", "my-zoo", "--threads", "0"], "threads is 0; give 1 to 1024"),
    ],
)
def test_nonsense_is_refused_before_any_work(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*words, capsys=capsys)
    assert not list(tmp_path.iterdir())


def test_a_misspelt_command_is_corrected(capsys):
    assert "did you mean 'report'?" in refused("reprot", capsys=capsys)


def test_run_help_lists_methods_and_benchmarks(capsys):
    out = zoo("run", "--help", capsys=capsys)
    assert all(name in out for name in [*METHODS, *BENCHMARKS])


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_a_method_and_of_the_recipe_is_a_flag(method, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", method, "--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    settings = settings_of(METHODS[method]())
    for name in (settings.keys() | settings["recipe"].keys()) - {"recipe"}:
        assert f"--{name.replace('_', '-')}" in out


def test_list_shows_every_name(capsys):
    out = zoo("list", capsys=capsys)
    assert all(name in out for name in [*METHODS, *BENCHMARKS, *BACKBONES])


def test_a_run_is_written_shown_and_reported(tmp_path, capsys):
    out = zoo("run", "isolated", *QUICK, "--out", str(tmp_path / "one"), capsys=capsys)
    results = Results.load(tmp_path / "one")
    assert results.finished
    assert results.settings["recipe"]["epochs"] == 1
    assert f"{100 * results.summary()['average_accuracy']:.2f}" in out
    table = zoo("report", str(tmp_path), "--format", "markdown", capsys=capsys)
    assert table.startswith("|")
    assert f"{100 * results.summary()['average_accuracy']:.2f}" in table


def test_flags_reach_the_learner(tmp_path):
    main(["run", "model-zoo", *QUICK, "--weigh", "uniform", "--replay", "0.5", "--seed", "3", "--out", str(tmp_path)])
    settings = Results.load(tmp_path).settings
    assert (settings["weigh"], settings["replay"], settings["seed"]) == ("uniform", 0.5, 3)
    assert settings["benchmark"] == {"first_tasks": 2}


def test_a_finished_run_says_so_and_trains_nothing(tmp_path, capsys):
    main(["run", "isolated", *QUICK, "--out", str(tmp_path)])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert "is finished" in zoo("run", "isolated", *QUICK, "--out", str(tmp_path), capsys=capsys)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == before


def test_other_settings_are_refused_by_name(tmp_path, capsys):
    main(["run", "isolated", *QUICK, "--out", str(tmp_path)])
    message = refused("run", "isolated", *QUICK, "--lr", "0.5", "--out", str(tmp_path), capsys=capsys)
    assert "lr was 0.01, now 0.5" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "model-zo", "split-digits"], "did you mean 'model-zoo'?"),
        (["run", "isolated", "split-digit"], "did you mean 'split-digits'?"),
        (["run", "isolated", "split-digits", "--epochs", "0"], "epochs is 0; it must be 1 or more"),
        (["run", "isolated", "split-digits", "--first-tasks", "9"], "first_tasks is 9, but split-digits has 5 tasks"),
        (["run", "model-zoo", "split-digits", "--replay", "2"], "replay is 2.0; it must be 0 or more and at most 1"),
        (["report", "no-such-folder"], "no-such-folder does not exist"),
        (["data", "--download", "imagenet"], "unknown data set 'imagenet'"),
    ],
)
def test_a_wrong_word_gets_one_clear_line(words, message, capsys):
    err = refused(*words, capsys=capsys)
    assert message in err
    assert err.count("\n") == 1


def test_missing_data_is_named_with_the_way_to_get_it(tmp_path, capsys):
    err = refused(
        "run", "isolated", "split-cifar100", "--data", str(tmp_path), "--out", str(tmp_path / "out"), capsys=capsys
    )
    assert "train.bin" in err
    assert "zoo data --download cifar-100" in err
    assert not (tmp_path / "out").exists()


def test_data_shows_what_is_missing_and_what_comes_with_us(tmp_path, capsys):
    out = zoo("data", "--data", str(tmp_path), capsys=capsys)
    assert "missing" in out
    assert "zoo data --download" in out
    assert "digits" in out


def test_the_demo_ends_in_a_table_and_says_what_to_try_next(capsys):
    out = zoo("demo", "--epochs", "1", capsys=capsys)
    assert all(f"\n{name} " in out for name in ("model-zoo", "isolated", "fine-tune", "multi-head"))
    assert all(word in out for word in ("forgetting", "forward", "backward", "stored", "params", "seconds"))
    assert "zoo run model-zoo" in out


WAITING = """
import time
from pathlib import Path
import zoolearn

class Waiting(zoolearn.Isolated):
    def _train(self, task):
        while self.classes and not Path(__file__).with_name("go").exists():
            time.sleep(0.01)
        return (yield from super()._train(task))
"""
IGNORING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def waiting(tmp_path, monkeypatch):
    """A run that waits after its first task until there is a file `go`: it can be stopped there on any machine."""
    (tmp_path / "own.py").write_text(WAITING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # a comma in a path would part two methods
    command = ["-m", "zoolearn", "run", "own.py:Waiting", "split-digits", "--backbone", "mlp-100"]
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield [*command, "--epochs", "1", "--out", str(tmp_path / "run")]
    sys.modules.pop("own", None)


def stopped(command: list[str], name: str) -> None:
    with started(command) as process:
        assert "1 of 5 tasks" in process.stdout.readline()
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "The same command continues" in err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_says_how_to_continue_and_the_same_command_does(waiting, tmp_path, capsys, name):
    stopped(["-c", IGNORING, sys.executable, *waiting], name)  # even where Ctrl-C was ignored at the start
    assert len(list(Path(tmp_path / "run" / "episodes").iterdir())) == 1
    (tmp_path / "go").touch()
    assert "after episode 1 of 5" in zoo(*waiting[2:], capsys=capsys)
    assert Results.load(tmp_path / "run").finished


LOSING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:  # as libraries do that ask whether another one is there
    pass

def main(arguments):
    print("went on")
"""


def test_an_interrupt_that_an_import_would_lose_ends_the_command(tmp_path):
    (tmp_path / "losing.py").write_text(LOSING, encoding="utf-8")
    begin = "import sys; from zoolearn import cli; cli.commands.Command.module = 'losing'; sys.argv = ['zoo', 'list']"
    with started(["-c", f"{begin}; sys.path.append({str(tmp_path)!r}); cli.main()"]) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "zoo: stopped\n")
