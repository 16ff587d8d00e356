"""SIGKILL at any instant leaves the old zoo or the new one; `python tests/zoo_kills.py 200` tries many more instants."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # programs are killed

INSTANTS = os.environ.get("ZOO_KILLS", "7")
OPERATIONS = os.environ.get("ZOO_KILL_OPERATIONS", "1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_program_that_is_killed_leaves_the_zoo_before_or_after_its_change() -> None:
    script = Path(__file__).with_name("zoo_kills.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), INSTANTS, OPERATIONS],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing lost" in done.stdout
