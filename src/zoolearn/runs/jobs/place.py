"""Where jobs are done: in this process, in worker processes of this machine, or on a Ray cluster."""

from dataclasses import dataclass

from zoolearn.cores import check_threads, usable_cores
from zoolearn.errors import SettingsError


@dataclass(frozen=True)
class Local:
    """This machine: `workers` processes (by default as many as the cores carry) of `threads` threads each.

    One worker is this process itself.
    """

    workers: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise SettingsError(f"workers is {self.workers}; give 1 or more")
        check_threads(self.threads)

    def workers_for(self, jobs: int | None = None) -> int:
        """The number of workers for n jobs: what was asked for, or what the cores carry, and at most one a job."""
        carried = self.workers or max(1, usable_cores() // self.threads)
        return carried if jobs is None else min(jobs, carried)


@dataclass(frozen=True)
class Ray:
    """A Ray cluster and what a job takes of it; without an address, one that is started on this machine and ends with the jobs.

    `cpus` and `gpus` are what Ray sets aside for a job, and may be fractions.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    threads: int = 1

    def __post_init__(self) -> None:
        check_threads(self.threads)
        if self.cpus < 0 or self.gpus < 0 or not self.cpus + self.gpus:
            raise SettingsError(f"a job on {self.cpus:g} CPUs and {self.gpus:g} GPUs; give it some of one of them")


Place = Local | Ray
ALL_CORES = Local()
