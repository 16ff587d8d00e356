"""Independent jobs over worker processes: the one engine under several seeds, several methods, members side by side.

A `Job` is plain data: a name, a generator function of some module, and its arguments. What the generator yields comes
back as `Report`, what it returns as `Done`, what it raises as `Failed`; the other jobs go on. A job must not depend on
where it runs: then the results are the same, bit for bit, for every number of workers.

    for event in map_jobs([Job("seed 0", train, (0,)), Job("seed 1", train, (1,))], workers=2):
        match event:
            case Report(job, content): ...
            case Done(job, result): ...
            case Failed(job, error): ...
"""

import atexit
import os
import pickle  # only between a process and the workers it started itself; files are never pickled
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_all_start_methods, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any

from zoolearn.cores import usable_cores
from zoolearn.errors import SettingsError, WorkerDied

SECONDS_TO_STOP = 10.0  # how long a worker may take to put its things in order before it is killed


@dataclass(frozen=True, eq=False)
class Job:
    """A piece of work that depends on no other. `work` is found by its name in a worker, so it is a module's function."""

    name: str
    work: Callable[..., Generator[Any, None, Any]]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Report:
    """Something that a job has to say while it works."""

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


Event = Report | Done | Failed


def map_jobs(jobs: Sequence[Job], workers: int | None = None, threads: int = 1) -> Generator[Event, None, None]:
    """Works off all jobs, first come first served, on `workers` processes of `threads` threads each.

    `workers` is by default as many as the usable cores carry; one worker (or one job) is this process itself. Events come
    as they happen, and work goes on while the caller handles them. Closing the generator, or Ctrl-C, stops all workers
    where they are; the `finally` clauses of a job are carried out.

    >>> def count(last):
    ...     for number in range(last):
    ...         yield number
    ...     return last
    >>> [type(event).__name__ for event in map_jobs([Job("two", count, (2,))])]
    ['Report', 'Report', 'Done']
    """
    count = workers_for(len(jobs), workers, threads)
    if count > 1:
        yield from _elsewhere(jobs, count, threads)
    else:
        with _torch_threads(threads):
            for job in jobs:
                yield from _here(job)


def workers_for(jobs: int, workers: int | None = None, threads: int = 1) -> int:
    """How many workers so many jobs get: what was asked for, or what the cores carry, but no more than there are jobs."""
    if workers is not None and workers < 1:
        raise SettingsError(f"workers is {workers}; give 1 or more")
    if threads < 1:
        raise SettingsError(f"threads is {threads}; give 1 or more")
    return min(jobs, workers or max(1, usable_cores() // threads))


class _torch_threads:  # noqa: N801 (read as a verb)
    """Torch on so many threads inside `with`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __enter__(self) -> None:
        import torch

        self.before = torch.get_num_threads()
        torch.set_num_threads(self.threads)

    def __exit__(self, *_: object) -> None:
        import torch

        torch.set_num_threads(self.before)


def _here(job: Job) -> Iterator[Event]:
    work = job.work(*job.arguments)
    try:
        while True:
            yield Report(job, next(work))
    except StopIteration as end:
        yield Done(job, end.value)
    except Exception as error:
        yield Failed(job, error, traceback.format_exc())
    finally:
        work.close()


def _elsewhere(jobs: Sequence[Job], workers: int, threads: int) -> Iterator[Event]:
    pool = _Pool(jobs, workers, threads)
    thread = Thread(target=pool.run, name="zoolearn jobs", daemon=True)
    atexit.register(pool.stop)  # before multiprocessing waits for its children
    thread.start()
    try:
        while (event := pool.events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        pool.stop()
        thread.join()
        atexit.unregister(pool.stop)


class _Pool:
    """Gives waiting jobs to workers and listens to them, in a thread of its own, so that no worker waits for the caller."""

    def __init__(self, jobs: Sequence[Job], workers: int, threads: int) -> None:
        self.waiting = deque(jobs)
        self.workers, self.threads = workers, threads
        self.events: SimpleQueue[Event | BaseException | None] = SimpleQueue()
        self.busy: dict[Connection, tuple[BaseProcess, Job]] = {}
        self.stopped, self.stopper = Pipe(duplex=False)
        self.context = _context()

    def stop(self) -> None:
        """May be called from any thread, more than once."""
        if not self.stopper.closed:
            self.stopper.close()

    def run(self) -> None:
        resource_tracker.ensure_running()
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C is for the caller alone: workers inherit that it is blocked
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(self.workers):
                self._occupy(*self._new_worker())
            while self.busy:
                ready = wait([self.stopped, *self.busy])
                if self.stopped in ready:
                    break
                for connection in ready:
                    self._listen(connection)  # type: ignore[arg-type]
        except BaseException as error:
            self.events.put(error)
        finally:
            self._dismiss()
            self.events.put(None)

    def _new_worker(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = Pipe()
        process = self.context.Process(
            target=_serve, args=(theirs, self.threads, dict(os.environ)), name="zoolearn worker"
        )
        process.start()
        theirs.close()
        return ours, process

    def _occupy(self, connection: Connection, process: BaseProcess) -> None:
        """Gives a worker the next job, or lets it go when there is none."""
        while self.waiting:
            job = self.waiting.popleft()
            try:
                message = pickle.dumps((job.work, job.arguments))
            except Exception as error:
                self.events.put(Failed(job, _cannot_send(job, error), traceback.format_exc()))
                continue
            self.busy[connection] = (process, job)
            with suppress(OSError):  # it has died: `_listen` will see the end of its connection
                connection.send_bytes(message)
            return
        connection.close()
        process.join()

    def _listen(self, connection: Connection) -> None:
        process, job = self.busy[connection]
        try:
            kind, content = pickle.loads(connection.recv_bytes())  # noqa: S301 (our own worker)
        except (EOFError, OSError):
            del self.busy[connection]
            process.join()
            self.events.put(Failed(job, _died(job, process.exitcode)))
            if self.waiting:
                self._occupy(*self._new_worker())
            return
        if kind == "report":
            self.events.put(Report(job, content))
            return
        del self.busy[connection]
        self.events.put(Done(job, content) if kind == "done" else Failed(job, *content))
        self._occupy(connection, process)

    def _dismiss(self) -> None:
        for process, _ in self.busy.values():
            process.terminate()
        for connection, (process, _) in self.busy.items():
            process.join(SECONDS_TO_STOP)
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()


def _context() -> Any:
    """Workers come from a helper that has imported torch but run nothing: a copy of a process with threads may hang."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["zoolearn.public"])
    return context


def _serve(connection: Connection, threads: int, environment: dict[str, str]) -> None:
    """The life of a worker: a job, its reports, its end; the next job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    Thread(target=_leave_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS=str(threads))
    try:
        while True:
            message = connection.recv_bytes()
            with _torch_threads(threads):
                for answer in _answers(message):
                    connection.send_bytes(answer)
    except (EOFError, OSError, KeyboardInterrupt):  # dismissed, or nobody listens any more
        connection.close()


def _answers(message: bytes) -> Iterator[bytes]:
    try:
        function, arguments = pickle.loads(message)  # noqa: S301 (from the process that started us)
        for event in _here(Job("", function, arguments)):
            match event:
                case Report(_, content):
                    yield pickle.dumps(("report", content))
                case Done(_, result):
                    yield pickle.dumps(("done", result))
                case Failed(_, error, trace):
                    yield _failure(error, trace)
    except Exception as error:  # the job or something that it said cannot be sent between processes
        yield _failure(error, traceback.format_exc())


def _failure(error: Exception, trace: str) -> bytes:
    try:
        message = pickle.dumps(("failed", (error, trace)))
        pickle.loads(message)  # noqa: S301 (an error with a constructor of its own may not come back)
    except Exception:
        message = pickle.dumps(("failed", (RuntimeError(f"{type(error).__name__}: {error}"), trace)))
    return message


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _cannot_send(job: Job, error: Exception) -> SettingsError:
    return SettingsError(
        f"{job.name} cannot be sent to a worker process ({error}); define its functions at the top of a module, "
        "or use one worker"
    )


def _died(job: Job, code: int | None) -> WorkerDied:
    reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return WorkerDied(
        f"the worker process of {job.name} ended by itself ({reason}). Out of memory? Use fewer workers. In a script, "
        'start the work under `if __name__ == "__main__":`, since workers import the script'
    )
