"""The list of mutants fits the source: `python tests/mutate.py` can try each of them."""

import re
from pathlib import Path

from mutate import ROOT, read_mutants


def test_the_line_of_every_mutant_stands_in_the_source_once() -> None:
    assert not [
        str(mutant)
        for mutant in read_mutants([])
        if (ROOT / "src/zoolearn" / mutant.file).read_text(encoding="utf-8").count(mutant.line) != 1
    ]


def test_the_tests_of_every_mutant_exist() -> None:
    for test in {test for mutant in read_mutants([]) for test in mutant.tests.split()}:
        file, *names = re.sub(r"\[.*", "", test).split("::")
        written = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert all(re.search(rf"(def|class) {name}\b", written) for name in names), test
