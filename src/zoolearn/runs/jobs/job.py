"""Jobs, the events that they cause, and how a process executes one."""

import pickle  # only between a process and the workers it started itself; files are never pickled
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from zoolearn.errors import ZooError
from zoolearn.runs.code import last_own_place


@dataclass(frozen=True, eq=False)
class Job:
    """A piece of work that depends on no other. `work` is found by its name in a worker, so it is a module's function."""

    name: str
    work: Callable[..., Generator[Any, None, Any]]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Shared:
    """An argument that many jobs have in common, as the call that makes it; the work gets what the call gives.

    Every process of this machine makes it once. For a cluster it is made once, here, and the jobs of a node look at one
    copy in shared memory, which is read-only.
    """

    make: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def value(self) -> Any:
        """What the call gives, made by the first who asks."""
        return _made(self)


@lru_cache(maxsize=2)
def _made(shared: Shared) -> Any:
    return shared.make(*shared.arguments)


@dataclass(frozen=True)
class Report:
    """What a job reports while it works."""

    job: Job
    content: Any


@dataclass(frozen=True)
class Done:
    """A job's result."""

    job: Job
    result: Any


@dataclass(frozen=True)
class Failed:
    """The error that ended a job, and where it was raised."""

    job: Job
    error: Exception
    trace: str = ""

    @property
    def why(self) -> str:
        """The error in a line; one that is not ours, as in code of one's own, with its kind and where it was raised."""
        if isinstance(self.error, ZooError):
            return str(self.error)
        return f"{type(self.error).__name__}: {self.error}{last_own_place(self.trace)}"


Event = Report | Done | Failed


def work_off(job: Job) -> Iterator[Event]:
    """The events of a job that is done right here; closing them stops it, and carries out its `finally` clauses."""
    work = None
    try:
        arguments = [value.value() if isinstance(value, Shared) else value for value in job.arguments]
        work = job.work(*arguments)
        while True:
            yield Report(job, next(work))
    except StopIteration as end:
        yield Done(job, end.value)
    except Exception as error:
        yield Failed(job, error, traceback.format_exc())
    finally:
        if work is not None:
            work.close()


def portable(error: Exception) -> Exception:
    """The error if it survives a journey between processes; one with a constructor of its own may not come back."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Torch on this number of threads inside `with`."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
