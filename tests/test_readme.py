"""The README says what is so: its commands print that, its numbers were measured, its tests and files are there.

Its Python is a doctest. The list of rooms in CONTRIBUTING is made of their own first sentences; `python
tests/test_readme.py` writes it again.
"""

import ast
import re
import shlex
from pathlib import Path

import numpy as np
from PIL import Image

from zoolearn import cli
from zoolearn.lab.paper.compare import all_runs
from zoolearn.lab.report import report
from zoolearn.methods.registry import METHODS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- rooms -->\n", "<!-- end of rooms -->\n"
ROOMS = ("data", "nets", "training", "features", "methods", "beyond", "runs", "zoo", "lab", "cli")
GROUND = "errors, names, settings, seeds, cores, files, locks"


def first_sentence(path: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.A-Z])[.;] ", text)[0].rstrip(".")


def rooms() -> str:
    package = ROOT / "src" / "zoolearn"
    listed = [f"| `{name}/` | {first_sentence(package / name / '__init__.py')} |" for name in ROOMS]
    return (
        "\n".join(["| room | what is in it |", "|---|---|", f"| {GROUND} | what every room stands on |", *listed])
        + "\n"
    )


def contributing_with_rooms() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{rooms()}{END}{after}"


def test_contributing_names_every_room_with_what_it_is() -> None:
    assert (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8") == contributing_with_rooms()


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in (ROOT / "src").rglob("*.py") if not first_sentence(path)]
    assert silent == []


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def pictures(folder: Path, classes: list[str], count: int = 5) -> None:
    """Colour images of 32x32 pixels, each class a little brighter than the one before."""
    rng = np.random.default_rng(len(classes))
    for place, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(30 * place, 30 * place + 100, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def shape(text: str) -> str:
    """A text without what depends on the data: numbers, the class that wins, and how wide columns are."""
    words = re.sub(r"\w+_tree", "CLASS", re.sub(r"[+-]?\d[\d,]*(?:\.\d+)?", "NUMBER", text))
    return "\n".join(" ".join(line.split()) for line in words.strip().splitlines())


def test_its_commands_print_what_it_shows(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zoolearn.zoo.auto_epochs.MOST_EPOCHS", 1)
    monkeypatch.setattr("zoolearn.zoo.auto_epochs.FEWEST_EPOCHS", 1)
    trees = [f"{kind}_tree" for kind in ("maple", "oak", "palm", "pine", "willow")]
    pictures(tmp_path / "pictures" / "trees", trees)
    pictures(tmp_path / "pictures" / "flowers", ["orchid", "poppy", "rose", "sunflower", "tulip"])
    (tmp_path / "new").mkdir()
    for number, tree in enumerate(trees[:3], 1):
        (tmp_path / "pictures" / "trees" / tree / "0.png").rename(tmp_path / "new" / f"{number}.png")
    block = re.findall(r"^```console\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL)
    sessions = re.findall(r"^\$ zoo (.*)\n((?:(?!\$ ).*\n)*)", "".join(block), re.MULTILINE)
    assert [shlex.split(command)[0] for command, _ in sessions] == ["learn", "learn", "predict"]
    for command, promised in sessions:
        cli.main(shlex.split(command, comments=True))
        printed = shape(capsys.readouterr().out)
        pattern = re.escape(shape(promised)).replace(re.escape("...\n"), r"(?:.*\n)+?")
        assert re.fullmatch(pattern, printed), printed


def test_its_numbers_are_those_of_the_recorded_runs() -> None:
    measured = {cell for row in report(all_runs([ROOT / "results"])).rows for cell in row}
    table = readme().partition("## Measured")[2].partition("##")[0]
    typed = table.partition("<!-- board -->")[0]  # what follows is written by `zoo paper`
    shown = re.findall(r"\d+\.\d+ ± \d+\.\d+", typed)
    assert len(shown) == 7
    assert {*shown} <= measured


def test_it_counts_the_methods() -> None:
    assert f"{len(METHODS)} methods" in readme()


def test_every_promise_names_a_test_that_is_there() -> None:
    promised = re.findall(r"`(test_\w+\.py)::(test_\w+)`", readme())
    assert len(promised) == 5
    for file, name in promised:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (file, name)


def test_what_it_links_to_is_there() -> None:
    places = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)|(?:src|srcset)=\"([^\"]+)\"", readme())
    assert len(places) > 10
    assert [place for pair in places for place in pair if place and not (ROOT / place).exists()] == []


def test_it_can_be_read_in_a_few_minutes() -> None:
    assert len(readme().splitlines()) <= 130


if __name__ == "__main__":
    (ROOT / "CONTRIBUTING.md").write_text(contributing_with_rooms(), encoding="utf-8")
