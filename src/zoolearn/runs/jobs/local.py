"""Jobs on the cores of this machine: worker processes that are given one job after another."""

import atexit
import logging
import os
import pickle  # only between a process and the workers it started itself; files are never pickled
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from multiprocessing import Pipe, get_all_start_methods, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from tempfile import gettempdir
from threading import Thread
from typing import Any

from zoolearn.cores import keep_freed_memory
from zoolearn.errors import SettingsError, WorkerDied
from zoolearn.runs.jobs.job import Done, Event, Failed, Job, Report, portable, torch_threads, work_off

log = logging.getLogger(__name__)

LONGEST_FOLDER = 60  # bytes of the temporary folder's path; a socket's has 107 at most, and Python adds to it
SECONDS_TO_STOP = 10.0  # how long a worker may take to put its things in order before it is killed


def on_cores(jobs: Iterable[Job | None], workers: int, threads: int) -> Iterator[Event]:
    """Executes jobs in worker processes; those of a list are handed over at once, those of a generator when a worker is free."""
    supply, at_once = iter(jobs), len(jobs) if isinstance(jobs, Sized) else workers
    pool = _Pool(workers, threads)
    thread = Thread(target=pool.run, name="zoolearn jobs", daemon=True)
    atexit.register(pool.stop)  # before multiprocessing waits for its children
    thread.start()
    try:
        under_way = 0
        while True:
            while under_way < at_once and (job := next(supply, None)) is not None:
                pool.add(job)
                under_way += 1
            if not under_way:
                return
            event = pool.events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            under_way -= not isinstance(event, Report)
    finally:
        pool.stop()
        thread.join()
        atexit.unregister(pool.stop)


class _Pool:
    """Gives waiting jobs to workers and listens to them, in a thread of its own, so that no worker waits for the caller."""

    def __init__(self, workers: int, threads: int) -> None:
        self.waiting: deque[Job] = deque()
        self.workers, self.threads = workers, threads
        self.events: SimpleQueue[Event | BaseException] = SimpleQueue()
        self.busy: dict[Connection, tuple[BaseProcess, Job]] = {}
        self.idle: list[tuple[Connection, BaseProcess]] = []
        self.caller, self.wakeup = Pipe(duplex=False)  # written to for a new job, closed to stop
        self.context = _context()

    def add(self, job: Job) -> None:
        self.waiting.append(job)
        self.wakeup.send_bytes(b"")

    def stop(self) -> None:
        """May be called from any thread, more than once."""
        if not self.wakeup.closed:
            self.wakeup.close()

    def run(self) -> None:
        resource_tracker.ensure_running()
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C is for the caller alone: workers inherit that it is blocked
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while True:
                ready = wait([self.caller, *self.busy])
                if self.caller in ready and not self._has_job():
                    break
                for connection in ready:
                    if connection in self.busy:
                        self._listen(connection)
                self._assign()
        except BaseException as error:
            self.events.put(error)
        finally:
            self._shut_down()

    def _has_job(self) -> bool:
        """Whether the caller has a new job; else it needs no more."""
        try:
            self.caller.recv_bytes()
        except EOFError:
            return False
        return True

    def _assign(self) -> None:
        """Gives waiting jobs to workers without one, as far as there may be more."""
        while self.waiting and (self.idle or len(self.busy) < self.workers):
            job = self.waiting.popleft()
            try:
                message = pickle.dumps((job.work, job.arguments))
            except Exception as error:
                self.events.put(Failed(job, _cannot_send(job, error), traceback.format_exc()))
                continue
            connection, process = self.idle.pop() if self.idle else self._new_worker()
            self.busy[connection] = (process, job)
            with suppress(OSError):  # it has died: `_listen` will see the end of its connection
                connection.send_bytes(message)

    def _new_worker(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = Pipe()
        process = self.context.Process(
            target=_serve, args=(theirs, self.threads, dict(os.environ)), name="zoolearn worker"
        )
        process.start()
        theirs.close()
        return ours, process

    def _listen(self, connection: Connection) -> None:
        process, job = self.busy[connection]
        try:
            kind, content = pickle.loads(connection.recv_bytes())  # noqa: S301 (our own worker)
        except (EOFError, OSError):
            del self.busy[connection]
            process.join()
            self.events.put(Failed(job, _died(job, process.exitcode)))
            return
        if kind == "report":
            self.events.put(Report(job, content))
            return
        del self.busy[connection]
        self.idle.append((connection, process))
        self.events.put(Done(job, content) if kind == "done" else Failed(job, *content))

    def _shut_down(self) -> None:
        for process, _ in self.busy.values():
            process.terminate()
        for connection, process in self.idle:
            connection.close()  # it leaves by itself
            process.join()
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
    if len(os.fsencode(gettempdir())) > LONGEST_FOLDER:
        log.warning(
            "%s has too long a name for sockets; workers start more slowly. Set TMPDIR to another", gettempdir()
        )
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["zoolearn.public"])
    return context


def _serve(connection: Connection, threads: int, environment: dict[str, str]) -> None:
    """The loop of a worker process: it receives a job, sends its reports and its end, and waits for the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    Thread(target=_leave_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS=str(threads))
    keep_freed_memory()
    try:
        while True:
            message = connection.recv_bytes()
            with torch_threads(threads):
                for answer in _answers(message):
                    connection.send_bytes(answer)
    except (EOFError, OSError, KeyboardInterrupt):  # the parent closed the connection, or is gone
        connection.close()


def _answers(message: bytes) -> Iterator[bytes]:
    try:
        function, arguments = pickle.loads(message)  # noqa: S301 (from the process that started us)
        for event in work_off(Job("", function, arguments)):
            match event:
                case Report(_, content):
                    yield pickle.dumps(("report", content))
                case Done(_, result):
                    yield pickle.dumps(("done", result))
                case Failed(_, error, trace):
                    yield pickle.dumps(("failed", (portable(error), trace)))
    except Exception as error:  # the job or one of its reports cannot be pickled
        yield pickle.dumps(("failed", (portable(error), traceback.format_exc())))


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
