"""Where a command's jobs are done: the flags that `zoo run`, `sweep`, `tune`, `study` and `paper` share."""

from dataclasses import dataclass
from typing import Literal

from zoolearn.cli.flags import flag
from zoolearn.cores import default_threads
from zoolearn.errors import SettingsError
from zoolearn.runs.jobs import Local, Place, Ray


@dataclass
class PlaceOptions:
    """Where the work is done."""

    on: Literal["local", "here", "ray"] = flag(
        "local: worker processes; here: one job after another; ray: a cluster (docs/cluster.md)", default="local"
    )
    workers: int | None = flag("processes that work side by side, on this machine", "N", "the usable cores")
    threads: int | None = flag("threads of each process", "N", "$OMP_NUM_THREADS, else 1")
    address: str | None = flag("of the Ray cluster: auto, or ray://...", "ADDRESS", "one on this machine alone")
    cpus_per_job: float | None = flag("CPUs of the cluster that a job takes, also less than 1", "N", "1")
    gpus_per_job: float | None = flag("GPUs of the cluster that a job takes, also less than 1", "N", "0")

    def place(self, few: bool = False) -> Place:
        """What the flags mean; with `few`, one worker unless more are asked for."""
        threads = default_threads() if self.threads is None else self.threads
        if self.on == "ray":
            if self.workers is not None:
                raise SettingsError("--workers is for this machine; a cluster has what --cpus-per-job leaves room for")
            cpus = 1.0 if self.cpus_per_job is None else self.cpus_per_job
            return Ray(self.address, cpus, self.gpus_per_job or 0.0, threads)
        for name in ("address", "cpus_per_job", "gpus_per_job"):
            if getattr(self, name) is not None:
                flag = name.replace("_", "-")
                raise SettingsError(f"--{flag} is about a cluster, but the work is done {self.on}: add --on ray")
        if self.on == "here":
            if self.workers not in (None, 1):
                raise SettingsError(f"--on here is one process, but --workers is {self.workers}; leave one out")
            return Local(1, threads)
        return Local(1 if few and self.workers is None else self.workers, threads)
