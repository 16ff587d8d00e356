"""The README's list of rooms is made of their own first sentences; `python tests/test_readme.py` writes it again."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- rooms -->\n", "<!-- end of rooms -->\n"
ROOMS = ("data", "nets", "training", "methods", "beyond", "runs", "zoo", "lab", "cli")
GROUND = "errors, names, seeds, cores, files, locks"


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


def readme_with_rooms() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{rooms()}{END}{after}"


def test_the_readme_names_every_room_with_what_it_is() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8") == readme_with_rooms()


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in (ROOT / "src").rglob("*.py") if not first_sentence(path)]
    assert silent == []


if __name__ == "__main__":
    (ROOT / "README.md").write_text(readme_with_rooms(), encoding="utf-8")
