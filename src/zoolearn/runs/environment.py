"""The environment of a run, and which parts of it decide the bits of its results.

Results are bit-equal on one kind of processor, with the same libraries, settings of their kernels and number of
threads: these decide the order of summation. They are recorded; a run resumed under others says so.
"""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from zoolearn.files import Json

DECISIVE = ("torch", "numpy", "cpu", "gpu", "threads", "kernels")  # entries of an environment that decide the bits
SWITCHES = (
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE",
)  # fmt: skip


def environment() -> dict[str, Json]:
    """Versions, the commit of the source if it is a checkout, processor, GPU and threads."""
    return {
        "zoolearn": _version("zoolearn"),
        "commit": _own_commit(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "kernels": _kernels(),
    }


def _kernels() -> dict[str, Json]:
    """Settings that decide which kernels torch's libraries choose."""
    return {
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "onednn": bool(torch.backends.mkldnn.enabled),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **{name: os.environ[name] for name in SWITCHES if name in os.environ},
    }


def differences(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """Changes between two environments that decide the bits, in words; entries missing in one are ignored.

    >>> differences({"threads": 1, "torch": "2.13.0"}, {"threads": 2, "torch": "2.13.0"})
    ['threads was 1, now 2']
    """
    known = [name for name in DECISIVE if name in before and name in now]
    old, new = _flat(before, known), _flat(now, known)
    return [
        f"{name} was {old.get(name)}, now {new.get(name)}" for name in {**old, **new} if old.get(name) != new.get(name)
    ]


def _flat(environment: Mapping[str, Json], names: Sequence[str]) -> dict[str, Json]:
    flat = {name: environment[name] for name in names if name != "kernels"}
    return {**flat, **(environment["kernels"] if "kernels" in names else {})}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _own_commit() -> str | None:
    """Asked once: what is committed later is not what this process has imported."""
    return _commit(Path(__file__).resolve().parents[3])


def _commit(source: Path) -> str | None:
    """The commit checked out in this folder itself, with `-dirty` if files differ from it."""
    if not (source / ".git").exists():  # an installed copy inside another checkout has no commit of its own
        return None
    words = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    command = ["git", "--no-optional-locks", *words]  # a lock would stay behind if we are killed
    try:
        answer = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answer.stdout.splitlines()
    heads = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    changed = any(not line.startswith("#") for line in lines)
    return heads[0] + ("-dirty" if changed else "") if heads else None


def _cpu_model(listing: Path) -> str | None:
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or None
