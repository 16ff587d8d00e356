"""The README's tree is made of the modules' own first sentences; `python tests/test_readme.py` writes it anew."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- tree -->\n", "<!-- end of tree -->\n"


def first_sentence(path: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.A-Z])[.;] ", text)[0].rstrip(".")


def lines(folder: Path, indent: str = "  ") -> list[str]:
    found = []
    for path in sorted(folder.glob("*.py"), key=lambda path: (path.stem != "__init__", path.name)):
        found.append(f"{indent + path.name:<26}{first_sentence(path)}".rstrip())
    for below in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        found += [f"{indent}{below.name}/", *lines(below, indent + "  ")]
    return found


def tree() -> str:
    return "\n".join(["```", "src/zoolearn/", *lines(ROOT / "src" / "zoolearn"), "```"]) + "\n"


def readme_with_tree() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tree()}{END}{after}"


def test_the_readme_shows_every_file_with_what_it_is() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8") == readme_with_tree()


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in (ROOT / "src").rglob("*.py") if not first_sentence(path)]
    assert silent == []


if __name__ == "__main__":
    (ROOT / "README.md").write_text(readme_with_tree(), encoding="utf-8")
