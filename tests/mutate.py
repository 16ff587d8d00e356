"""Breaks the library in one place at a time, in a copy, and reports the breaks that no test notices.

    python tests/mutate.py [WORD ...] [--workers N]

The lists under `tests/mutants/` hold the breaks: the kind of wrong line that gives plausible wrong numbers. Each entry has
`file` (below `src/zoolearn`), `line` (text that stands there exactly once), `becomes` (what to write in its place),
`tests` (what to run, as pytest takes it) and `why` (what a user would get). With words, only entries that contain one.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[1]
PATIENCE = 600  # seconds for the tests of one mutant; one that hangs is noticed too


@dataclass(frozen=True)
class Mutant:
    """One break, and the tests that must notice it."""

    file: str
    line: str
    becomes: str
    tests: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.line.split())} -> {' '.join(self.becomes.split()) or '(nothing)'}"


def read_mutants(words: list[str]) -> Iterator[Mutant]:
    """The listed mutants that contain one of the words, or all."""
    for path in sorted((ROOT / "tests" / "mutants").glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            if not words or any(word in str(value) for value in (path.stem, *entry.values()) for word in words):
                yield Mutant(**entry)


def copy_project(folder: Path) -> Path:
    """A copy whose source may be broken; what tests only read is linked."""
    for entry in ROOT.iterdir():
        if entry.name in ("src", "tests"):
            shutil.copytree(entry, folder / entry.name)  # compiled files too: a broken one is newer than its own
        elif entry.name not in (".pytest_cache", ".hypothesis"):
            (folder / entry.name).symlink_to(entry)
    return folder


def run_tests(folder: Path, tests: list[str], patience: float | None = PATIENCE) -> tuple[bool, str]:
    """Whether the tests pass on the copy, and the end of what they print."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=folder / "tests",
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, "no end in time"
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest {' '.join(tests)} could not run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[0] if failed else done.stdout[-300:]


def try_mutant(copies: "Queue[Path]", mutant: Mutant) -> tuple[Mutant, str, str]:
    """The mutant with its verdict and what noticed it."""
    folder = copies.get()
    path = folder / "src" / "zoolearn" / mutant.file
    try:
        original = path.read_text(encoding="utf-8") if path.is_file() else ""
        if original.count(mutant.line) != 1:
            return mutant, "STALE", f"the text stands there {original.count(mutant.line)} times"
        path.write_text(original.replace(mutant.line, mutant.becomes), encoding="utf-8")
        passed, told = run_tests(folder, mutant.tests.split())
        path.write_text(original, encoding="utf-8")
        return mutant, "SURVIVED" if passed else "killed", mutant.why if passed else told
    finally:
        copies.put(folder)


def main() -> int:
    """Tries the mutants; 1 if any survives or no longer fits the source."""
    parser = argparse.ArgumentParser(description="Which one-line breaks of the library does no test notice?")
    parser.add_argument("words", nargs="*", help="only mutants that contain one of these")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    mutants = list(read_mutants(given.words))
    with tempfile.TemporaryDirectory() as temporary:
        copies: Queue[Path] = Queue()
        for number in range(given.workers):
            (folder := Path(temporary) / str(number)).mkdir()
            copies.put(copy_project(folder))
        tests = sorted({test for mutant in mutants for test in mutant.tests.split()})
        clean, told = run_tests(Path(temporary) / "0", tests, patience=None)
        if not clean:
            raise SystemExit(f"the tests fail without any mutant: {told}")
        with ThreadPoolExecutor(given.workers) as pool:
            verdicts = []
            for mutant, verdict, told in pool.map(partial(try_mutant, copies), mutants):
                verdicts.append(verdict)
                print(f"{len(verdicts):4d} of {len(mutants)}  {verdict:8s}  {mutant}\n{'':16s}{told}", flush=True)
    print(", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("killed", "SURVIVED", "STALE")))
    return int(set(verdicts) != {"killed"})


if __name__ == "__main__":
    sys.exit(main())
