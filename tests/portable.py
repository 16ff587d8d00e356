"""Runs parts of the tests as machines of other kinds would: `python tests/portable.py [WORD ...]`, a few minutes in all.

Each condition changes several things at once that do not depend on each other: what the processor may do, threads, the
width and encoding of output, paths, signals, limits, who runs it, load, and the order of tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBERS = (
    "tests/test_train.py", "tests/test_nets_by_hand.py", "tests/test_model_zoo.py", "tests/test_fromp.py", "tests/test_ogd.py",
    "tests/test_gem.py", "tests/test_ewc.py", "tests/test_sgd.py", "tests/test_files.py",
)  # fmt: skip
CONTRACT = ("tests/test_contract.py", "-k", "(check_runs or check_loaded) and (ogd or fromp or vcl or hat or zoo)")
WORDS = (
    "tests/test_cli.py",
    "tests/test_output.py",
    "tests/test_watch.py",
    "tests/test_report.py",
    "tests/test_zoo_cli.py",
)
PROCESSES = ("tests/test_cli.py", "tests/test_jobs.py", "tests/test_workers.py", "tests/test_serve.py")
FILES = ("tests/test_store.py", "tests/test_zoo_folder.py")
BURN = "while True: pass"
IGNORING = "trap '' INT HUP; ulimit -n 256; exec \"$@\""


@dataclass(frozen=True)
class Condition:
    """A kind of machine, and the tests that must pass there."""

    name: str
    tests: Sequence[Sequence[str]]
    variables: Mapping[str, str | None] = field(default_factory=dict)  # None: not set
    prefix: Sequence[str] = ()
    folder: str = ""  # name of the temporary folder
    burners: int = 0


CONDITIONS = (
    Condition(
        "oldest instructions, one thread",
        (NUMBERS, CONTRACT),
        {
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "MKL_CBWR": "COMPATIBLE",
            "OMP_NUM_THREADS": "1",
        },
    ),
    Condition(
        "AVX2, two threads",
        (NUMBERS, CONTRACT),
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait by spinning starve each other on few cores
            "PYTHONHASHSEED": "1",
        },
    ),
    Condition(
        "narrow output, C locale, no HOME, long folder with spaces and umlauts",
        (WORDS,),
        {"COLUMNS": "40", "LC_ALL": "C", "HOME": None, "PYTHONHASHSEED": "2"},
        folder="ein Ordner mit Umlauten wie äöü und einem Namen, der " + "sehr " * 12 + "lang ist",
    ),
    Condition(
        "wide output in ASCII", (WORDS[1:4],), {"COLUMNS": "200", "PYTHONIOENCODING": "ascii", "PYTHONHASHSEED": "3"}
    ),
    Condition(
        "SIGINT and SIGHUP ignored, 256 files, two burners, random order",
        ((*PROCESSES, "tests/test_store.py", "--random-order"),),
        prefix=("bash", "-c", IGNORING, "bash"),
        burners=2,
    ),
    Condition("not root", (FILES, ("tests/test_output.py",)), {"HOME": None}, prefix=("other-user",)),
)


def as_another_user(folder: Path) -> Sequence[str] | None:
    """A prefix that runs a command without the powers of root, as nobody or without capabilities; None if neither can."""
    if os.geteuid() != 0:
        return ()
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    for prefix, owner in ((nobody, 65534), (("setpriv", "--bounding-set=-all", "--inh-caps=-all"), 0)):
        os.chown(folder, owner, owner)
        if shutil.which("setpriv") and _runs_a_test(prefix, folder):
            return prefix
    return None


def _runs_a_test(prefix: Sequence[str], folder: Path) -> bool:
    """Whether pytest and its workers start under this prefix: the clone or its Python may be barred to other users."""
    command = [
        *prefix,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "1",
        "-p",
        "no:cacheprovider",
        "tests/test_metrics.py",
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many processes that do nothing, busily."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.callback(subprocess.Popen([sys.executable, "-c", BURN]).kill)
        yield


def passes(condition: Condition) -> bool:
    """Whether the tests pass under a condition, without a terminal and standard input; what they say is shown."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name, value in condition.variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    with tempfile.TemporaryDirectory() as above, burning(condition.burners):
        folder = Path(above) / (condition.folder or "tmp")
        folder.mkdir()
        Path(above).chmod(0o755)
        environment["TMPDIR"] = str(folder)
        prefix = as_another_user(folder) if condition.prefix == ("other-user",) else condition.prefix
        if prefix is None:
            print("   left out: no other user can run this clone's Python", flush=True)
            return True
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
        alone = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        codes = [
            subprocess.run([*prefix, *pytest, *tests], cwd=ROOT, env=environment, check=False, **alone).returncode
            for tests in condition.tests
        ]
    return not any(codes)


def main(words: Sequence[str]) -> int:
    """Tries the conditions whose name holds one of the words, or all; 1 if one fails."""
    failed = []
    for condition in CONDITIONS:
        if not words or any(word in condition.name for word in words):
            print(f"\n== {condition.name}", flush=True)
            started = time.monotonic()
            if not passes(condition):
                failed.append(condition.name)
            print(f"   {time.monotonic() - started:.0f} s", flush=True)
    print("\nfailed: " + "; ".join(failed) if failed else "\nportable: all conditions passed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
