"""What commands write where nobody looks: one message is one line, plain, whatever the stream and its encoding."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toys import forked_zoo as zoo
from zoolearn.cli import output
from zoolearn.cli.output import UNFOLDED

pytestmark = pytest.mark.slow  # commands are started

LONG = "a folder with a rather long name, as temporary folders have on some machines " * 2


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A short run in a folder whose path is longer than any terminal is wide."""
    folder = tmp_path_factory.mktemp("runs") / LONG.strip() / "run"
    done = zoo("run", "fine-tune", "split-digits", "--backbone", "mlp", "--epochs", "1", "--first-tasks", "2",
               "--out", folder, folder=folder.parents[2], COLUMNS="40", FORCE_COLOR="1")  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    (folder.parent / "said").write_bytes(done.stdout)
    return folder


def test_a_message_is_one_line_however_long_and_whatever_the_columns(run):
    said = (run.parent / "said").read_text(encoding="utf-8")
    assert f"written to {run}" in said.splitlines()[-1]
    assert "\x1b" not in said


def test_a_path_in_a_table_of_commands_is_never_broken_or_cut(run, tmp_path):
    (run.parent / "broken").mkdir(exist_ok=True)
    (run.parent / "broken" / "run.json").write_text("{", encoding="utf-8")
    said = zoo("watch", run.parent, folder=tmp_path, COLUMNS="40").stdout.decode()
    assert any(str(run.parent / "broken" / "run.json") in line for line in said.splitlines())
    assert "…" not in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_that_lacks_our_signs_gets_plain_ones(run, tmp_path, encoding):
    told = zoo("report", run, folder=tmp_path, encoding=encoding)
    assert told.returncode == 0, told.stderr.decode()
    said = told.stdout.decode(encoding)
    assert re.search(r"^-+$", said, re.MULTILINE)  # the line under the header
    helped = zoo("run", "ewc", "split-digits", "--help", folder=tmp_path, encoding=encoding)
    assert helped.returncode == 0, helped.stderr.decode()
    assert "--epochs" in helped.stdout.decode(encoding)


def test_names_that_a_stream_cannot_show_stay_distinct(tmp_path):
    names = ["größe", "grôße"]
    told = [zoo("show", name, folder=tmp_path, encoding="ascii").stderr.decode("ascii") for name in names]
    assert told[0] != told[1]
    assert all("\\x" in line and "Traceback" not in line for line in told)


def test_a_console_is_made_for_the_stream_as_it_is(capsys):
    output.console().print("word " * 100)
    assert capsys.readouterr().out == "word " * 100 + "\n"
    assert output.console(stderr=True).width == UNFOLDED
    assert output.width() is None


@pytest.mark.parametrize("words", [("--help",), ("list",)])
def test_a_reader_that_has_seen_enough_is_told_nothing(tmp_path, words):
    reading, writing = os.pipe()
    os.close(reading)  # nobody will read a word
    with os.fdopen(writing, "wb") as pipe:
        command = [sys.executable, "-m", "zoolearn", *words]
        done = subprocess.run(command, cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b""
