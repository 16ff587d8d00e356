"""The wheel as strangers get it: installed into a folder of its own and used far from the repository."""

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from servers import Client
from toys import pictures

pytestmark = pytest.mark.slow  # an environment is made

pytest.importorskip("hatchling")

ROOT = Path(__file__).parent.parent
PIP = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
OF_THE_CALLER = ("PYTHONPATH", "PYTHONHOME", "ZOO_TOKEN", "FORCE_COLOR", "COLUMNS")  # variables that would leak in
COMMANDS = """
import shlex, sys
from zoolearn.cli import main
for command in sys.argv[1:]:
    main(shlex.split(command))
"""


@dataclass(frozen=True)
class Installed:
    """The package in a folder, with the libraries it needs beside the interpreter; commands start in another folder."""

    package: Path
    elsewhere: Path

    def start(self, *words: str) -> "subprocess.Popen[str]":
        kept = {name: value for name, value in os.environ.items() if name not in OF_THE_CALLER}
        environment = {**kept, "PYTHONPATH": str(self.package.parent), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, cwd=self.elsewhere, env=environment, text=True, **pipes)

    def python(self, *words: str) -> str:
        with self.start(sys.executable, *words) as process:
            out, err = process.communicate()
        assert process.returncode == 0, err
        return out

    def zoo(self, *commands: str) -> str:
        """What commands say, one after the other in one process."""
        return self.python("-c", COMMANDS, *commands)

    def read(self, name: str) -> str:
        return (self.package / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, cwd=folder, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "install", "--no-index", "--no-deps", "--target", str(folder), str(wheel)], check=True)
    return Installed(folder / "zoolearn", tmp_path_factory.mktemp("elsewhere"))


def test_it_holds_every_file_of_the_package_that_git_tracks_and_nothing_else(wheel):
    if not (ROOT / ".git").exists():
        pytest.skip("only a clone can tell which files belong to the package")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src/zoolearn"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    tracked = {path.removeprefix("src/") for path in listed.split("\0") if path}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == tracked
    assert {Path(name).suffix for name in tracked} >= {".typed", ".css", ".js", ".html"}, "data files are told apart"


def test_what_runs_is_what_was_installed_and_not_the_repository(installed):
    assert Path(installed.python("-c", "import zoolearn; print(zoolearn.__file__)").strip()).parent == installed.package
    with installed.start(sys.executable, str(installed.package.parent / "bin" / "zoo"), "--version") as script:
        assert script.communicate() == (installed.python("-m", "zoolearn", "--version"), "")


def test_the_demo_compares_all_its_learners(installed):
    out = installed.zoo("demo --epochs 1")
    assert all(f"\n{name} " in out for name in ("model-zoo", "isolated", "fine-tune", "multi-head"))


def test_the_page_of_a_run_carries_its_figures_its_script_and_its_style(installed):
    pytest.importorskip("matplotlib")
    run = "run model-zoo split-digits --backbone mlp-100 --epochs 1 --out run"
    installed.zoo(run, "report run --html page.html")
    page = (installed.elsewhere / "page.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 4
    assert page.count("<svg") >= 4
    assert installed.read("lab/pages/page.js") in page
    assert installed.read("lab/pages/page.css") in page


def test_a_zoo_learns_and_is_served_with_its_pages(installed):
    task = pictures()
    np.savez(installed.elsewhere / "stripes.npz", x=task.train.x, y=task.train.y)
    installed.zoo("new zoo --backbone mlp-100 --epochs 1", "learn zoo stripes stripes.npz")
    with installed.start(sys.executable, "-m", "zoolearn", "serve", "zoo", "--port", "0") as server:
        try:
            port = re.search(r"zoo: 1 task at http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
            assert port is not None, server.stderr.read()
            client = Client(None, int(port[1]))
            for path, script in (("/", "zoo.js"), ("/docs", "docs.js")):
                page = client.get(path)
                assert page.status == 200
                for name in ("page.css", "common.js", script):
                    assert installed.read(f"zoo/serve/page/{name}") in page.body.decode()
            answer = client.rows("stripes", task.test.x[:2].tolist())
            assert answer.status == 200, answer.body
            for row in answer.json["predictions"]:
                assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        finally:
            server.terminate()
            _, complaints = server.communicate()
        assert "Traceback" not in complaints
