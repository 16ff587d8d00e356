"""Breaks the library in one place at a time, in a copy, and reports the breaks that no test notices.

    python tests/mutate.py [WORD ...] [--workers N]

The lists under `tests/mutants/` hold the breaks: the kind of wrong line that gives plausible wrong numbers. Each entry has
`file` (below `src/zoolearn`), `line` (text that stands there exactly once), `becomes` (what to write in its place),
`tests` (what to run, as pytest takes it) and `why` (what a user would get). With words, only entries that contain one.

Other libraries are imported once, in this process; the tests of each break run in a fork of it.
"""

import argparse
import gc
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PATIENCE = 600  # seconds for the tests of one mutant; one that hangs is noticed too
LIBRARIES = (
    "torch", "torch._dynamo", "numpy", "scipy.stats", "safetensors.torch", "sklearn", "PIL.Image", "msgspec", "rich.console",
    "tyro", "hypothesis", "pytest",
)  # fmt: skip


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
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name in ("src", "tests"):
            shutil.copytree(entry, folder / entry.name)  # compiled files too: a broken one is newer than its own
        elif entry.name not in (".pytest_cache", ".hypothesis"):
            (folder / entry.name).symlink_to(entry)
    return folder


def begin_tests(folder: Path, tests: list[str], patience: int) -> int:
    """Starts tests on a copy, in a fork of this process; what they say goes to a file in the copy."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    code = 3
    try:
        os.setsid()
        signal.alarm(patience)
        for stream, path in enumerate((os.devnull, folder / "said", folder / "said")):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), stream)
        os.chdir(folder / "tests")
        os.environ["PYTHONPATH"] = sys.path[0] = str(folder / "src")  # which was the folder of this script
        sys.modules["__main__"] = ModuleType("__main__")  # workers that tests start would import this script
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait_for_tests() -> tuple[int, int]:
    """The first process to end and its exit code, or minus the signal that ended it; whatever it has started ends too."""
    process, status = os.wait()
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return process, os.waitstatus_to_exitcode(status)


def read_said(folder: Path) -> str:
    """What the tests on a copy have printed: which failed first, or the end of it."""
    said = (folder / "said").read_text(encoding="utf-8", errors="replace")
    (folder / "said").unlink()
    return next((line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), said[-2000:])


def check_unbroken(folder: Path, mutants: list[Mutant]) -> None:
    """All tests pass while nothing is broken."""
    begin_tests(folder, sorted({test for mutant in mutants for test in mutant.tests.split()}), patience=0)
    _, code = wait_for_tests()
    said = read_said(folder)
    if code:
        raise SystemExit(f"the tests fail without any mutant (pytest ends with {code}): {said}")


def try_mutants(mutants: list[Mutant], copies: list[Path]) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant with its verdict and what noticed it, as they come; one copy for each that is tried at a time."""
    waiting, under_way = mutants[::-1], dict[int, tuple[Mutant, Path, str]]()
    while waiting or under_way:
        while waiting and copies:
            mutant, folder = waiting.pop(), copies[-1]
            path = folder / "src" / "zoolearn" / mutant.file
            original = path.read_text(encoding="utf-8") if path.is_file() else ""
            if original.count(mutant.line) != 1:
                yield mutant, "STALE", f"the text stands there {original.count(mutant.line)} times"
                continue
            path.write_text(original.replace(mutant.line, mutant.becomes), encoding="utf-8")
            process = begin_tests(copies.pop(), mutant.tests.split(), PATIENCE)
            under_way[process] = (mutant, folder, original)
        if under_way:
            process, code = wait_for_tests()
            mutant, folder, original = under_way.pop(process)
            (folder / "src" / "zoolearn" / mutant.file).write_text(original, encoding="utf-8")
            copies.append(folder)
            told = read_said(folder)
            if code == -signal.SIGALRM:
                yield mutant, "killed", "no end in time"
            elif code in (0, 1):
                yield mutant, "killed" if code else "SURVIVED", told if code else mutant.why
            else:
                yield mutant, "UNTRIED", f"pytest {mutant.tests} ended with {code}: {told}"


def main() -> int:
    """Tries the mutants; 1 if any survives, no longer fits the source or cannot be tried."""
    parser = argparse.ArgumentParser(description="Which one-line breaks of the library does no test notice?")
    parser.add_argument("words", nargs="*", help="only mutants that contain one of these")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    mutants = list(read_mutants(given.words))
    for name in ("OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        os.environ[name] = "1"
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()  # forks share what they do not touch
    verdicts = []
    with tempfile.TemporaryDirectory() as temporary:
        copies = [copy_project(Path(temporary) / str(number)) for number in range(given.workers)]
        check_unbroken(copies[0], mutants)
        for mutant, verdict, told in try_mutants(mutants, copies):
            verdicts.append(verdict)
            print(f"{len(verdicts):4d} of {len(mutants)}  {verdict:8s}  {mutant}\n{'':16s}{told}", flush=True)
    print(", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("killed", "SURVIVED", "STALE", "UNTRIED")))
    return int(set(verdicts) != {"killed"})


if __name__ == "__main__":
    sys.exit(main())
