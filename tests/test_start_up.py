"""Nothing heavy is imported before it is needed, and the public names are all there."""

import subprocess
import sys
from pathlib import Path

import pytest

import zoolearn
from zoolearn import public
from zoolearn.nets.backbones import small_conv
from zoos import TASKS, small_zoo


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_help_the_package_itself_and_the_engine_of_jobs_do_not_import_torch() -> None:
    """A cluster starts a process for the messages of each command; it does without."""
    program = """
import sys, zoolearn, zoolearn.runs.jobs.on_ray
from zoolearn.cli import main
main(["--help"])
print("torch" in sys.modules)
"""
    assert python(program).splitlines()[-1] == "False"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_what_a_training_frees_is_kept_for_its_next_step() -> None:
    """Large blocks that come and go are cleared by the system once, and not at every step."""
    program = """
import resource
from zoolearn.cores import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        len(b"x" * (40 << 20))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), keep_freed_memory(), faults())
"""
    given_back, _, kept = python(program).split()
    assert int(kept) < int(given_back) / 4


def test_every_public_name_is_given_and_listed() -> None:
    for name in public.__all__:
        assert getattr(zoolearn, name) is getattr(public, name)
        assert name in dir(zoolearn)
    assert zoolearn.__all__ == public.__all__


def test_a_submodule_is_found_by_its_name() -> None:
    assert zoolearn.runs.metrics.__name__ == "zoolearn.runs.metrics"


def test_an_unknown_name_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="'zoolearn' has no attribute 'model_zoo'"):
        zoolearn.model_zoo  # noqa: B018


def test_a_zoo_answers_without_loading_a_compiler(tmp_path: Path) -> None:
    """Members are compared with a net without weights first, and arithmetic on those would cost a second of imports."""
    folders = small_zoo(tmp_path / "flat").path, small_zoo(tmp_path / "deep", TASKS[:1], backbone=small_conv).path
    program = f"""
import sys, zoolearn
for folder in {[*map(str, folders)]}:
    zoo = zoolearn.open(folder)
    zoo.predict(zoo.task("stripes").test.x, "stripes")
print("torch._dynamo" in sys.modules)
"""
    assert python(program).strip() == "False"
