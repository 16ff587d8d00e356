"""The guides for people's own data and methods: every command and every line of Python in them is run, in its order."""

import ast
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import zoolearn
from zoolearn import cli
from zoolearn.errors import SettingsError

pytestmark = pytest.mark.slow  # every command of the guides is run

DOCS = Path(__file__).parents[1] / "docs"


def blocks(language: str, guide: str = "your-data.md") -> list[str]:
    text = (DOCS / guide).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def pictures(folder: Path, classes: int, count: int, side: int = 10) -> None:
    """Colour images, each class with its own bright corner, in a colour of their folder's."""
    rng = np.random.default_rng(sum(map(ord, folder.name)))
    colour = sum(map(ord, folder.name)) % 3
    for place in range(classes):
        name = ("heron", "stork", "crane")[place] if folder.name == "birds" else f"{folder.name} {place}"
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 90, (side, side, 3), dtype=np.uint8)
            pixels[..., colour] += 75
            pixels[5 * (place // 2) : 5 * (place // 2) + 5, 5 * (place % 2) : 5 * (place % 2) + 5] += 90
            Image.fromarray(pixels).save(folder / name / f"{number:04}.png")


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """What the guide's reader has at hand."""
    monkeypatch.chdir(tmp_path)
    for name in ("birds", "flowers", "boats"):
        pictures(tmp_path / name, 2, 10)
    pictures(tmp_path / "new-pictures", 1, 3, side=30)
    pictures(tmp_path / "more-birds", 2, 6, side=12)
    for place, name in enumerate(("heron", "crane")):
        (tmp_path / "more-birds" / f"more-birds {place}").rename(tmp_path / "more-birds" / name)
    (tmp_path / "right.csv").write_text("row,label\n1,stork\n2,\n")
    (tmp_path / "boats" / "boats 0" / "broken.jpg").write_bytes(b"not an image")
    rng = np.random.default_rng(0)
    rows = [
        f"{kind},{a + 3 * (kind == 'red'):.3f},{b:.3f},fine"
        for kind, (a, b) in zip(["red", "white"] * 12, rng.normal(size=(24, 2)), strict=True)
    ]
    (tmp_path / "wine.csv").write_text("\n".join(["kind,acid,sugar,note", *rows]))
    return tmp_path


def test_every_command_of_the_guide_works(data, capsys) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) > 15
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "zoo"
        cli.main(words)
    out = capsys.readouterr().out
    assert "heron" in out
    assert "1 row left out" in out
    assert (data / "flowers.onnx").stat().st_size > 10_000


def test_every_line_of_python_in_the_guide_works(data) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(block, names)  # our own text
    assert list(names["zoo"].tasks) == ["flowers"]


def test_ones_own_method_backbone_and_benchmark_work_as_the_guide_says(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks("python", "your-method.md"):
        exec(block, names)  # our own text
    results, learner = names["results"], names["learner"]
    assert all(each.summary()["average_accuracy"] > 0.9 for each in results.values())
    task = zoolearn.benchmark("split-digits")[0]
    right = zoolearn.accuracy(learner.predict_proba(task.test.x, task.name), task.test.y)
    assert right == results["DerPlusPlus"].accuracy[-1][0], "what was loaded answers as what was run"
    settings = {"backbone": zoolearn.mlp, "recipe": names["recipe"]}
    again = zoolearn.run(names["Lwf"](**settings), zoolearn.benchmark("split-digits"), "runs/Lwf")
    assert again.accuracy == results["Lwf"].accuracy
    with pytest.raises(SettingsError, match=r"strength was 1\.0, now 2\.0"):
        zoolearn.run(names["Lwf"](strength=2.0, **settings), zoolearn.benchmark("split-digits"), "runs/Lwf")
    zoo = zoolearn.load("runs/gauges", names={"wide": names["wide"]})
    assert list(zoo.classes) == ["gauge 0", "gauge 1", "gauge 2"]
    capsys.readouterr()
    cli.main(["report"])
    out = capsys.readouterr().out
    assert "Lwf" in out
    assert "DerPlusPlus" in out
    assert "gauges" in out


def test_ones_own_code_runs_from_a_file_as_the_guide_says(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    written = ast.parse("".join(blocks("python", "your-method.md")))
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    written.body = [part for part in written.body if isinstance(part, kinds)]
    Path("mine.py").write_text(ast.unparse(written), encoding="utf-8")
    said = []
    for command in "".join(blocks("sh", "your-method.md")).splitlines():
        cli.main(shlex.split(command)[1:])
        said.append(" ".join(capsys.readouterr().out.split()))
    alone, compared, against, orders, tuned = said
    assert "Lwf on gauges" in alone
    assert "seeds 3" in compared
    assert "the 95 % interval of their mean over seeds that both have" in against
    assert "DerPlusPlus" in against
    assert "seeds 3 orders" in orders
    assert "zoo run mine.py:Lwf split-digits --backbone mlp --strength" in tuned


def test_the_methods_of_the_guide_take_less_than_50_lines_each() -> None:
    text = "".join(blocks("python", "your-method.md"))
    methods = re.findall(r"^@dataclass\(.*?^check_learner\(\w+\)$", text, re.MULTILINE | re.DOTALL)
    assert [len(method.splitlines()) < 50 for method in methods] == [True, True]
