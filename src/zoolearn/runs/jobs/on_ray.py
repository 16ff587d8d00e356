"""Jobs on a Ray cluster (extra `ray`): the only module that knows of Ray.

Ray places each job, starts processes and moves data; here is what it leaves open. Reports travel in bundles through one
queue on the driver's node, which makes jobs wait when the driver cannot keep up. A job whose process or node is lost is
handed in again: it finds its folder with all that was kept and goes on from there. A job that raises an error of its own
has failed, and is not tried again.
"""

import os
import pickle  # between the driver and the processes that it had started
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from zoolearn.cores import usable_cores
from zoolearn.errors import InUse, SettingsError, WorkerDied
from zoolearn.runs.jobs.job import Done, Event, Failed, Job, Report, Shared, portable, torch_threads, work_off
from zoolearn.runs.jobs.place import Ray

SECONDS_BETWEEN_REPORTS = 0.5  # what a job says in between travels together
SECONDS_BETWEEN_LOOKS = 1.0  # at which jobs have come to an end without a word
SECONDS_TO_STOP = 10.0  # how long a job may take to put its things in order before it is killed
SECONDS_OF_SILENCE = 10.0  # of a cluster's head, until it is taken for gone
MOST_BUNDLES = 1000  # that wait for the driver before jobs wait too
LEAST_HANDED_IN = 1000  # jobs of a list that Ray knows of at a time, so that an autoscaler sees what is wanted
MOST_ATTEMPTS = 5  # of one job, when processes are lost under it
QUIET = ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "RAY_DEDUP_LOGS")  # switched off


def on_ray(jobs: Iterable[Job | None], place: Ray) -> Iterator[Event]:
    """Works off jobs on a cluster."""
    with _connection(place):
        driver = _Driver(place)
        try:
            yield from driver.events(jobs)
        finally:
            if not driver.head.is_gone:  # else there is no cluster that could end them
                driver.stop()


@contextmanager
def _connection(place: Ray) -> Iterator[None]:
    """A connection to the cluster inside `with`, or the one that the caller has already."""
    for name in QUIET:
        os.environ.setdefault(name, "0")
    try:
        import ray
    except ImportError as error:
        raise SettingsError("jobs on a cluster need Ray; install it with: pip install 'zoolearn[ray]'") from error
    if ray.is_initialized():
        yield
        return
    own = place.address is None and "RAY_ADDRESS" not in os.environ
    settings: dict[str, Any] = {"address": place.address}
    if own:
        settings = {"address": "local", "include_dashboard": False, "num_cpus": usable_cores()}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **settings)
    except Exception as error:  # whatever it is, there is no cluster
        raise SettingsError(
            f"no Ray cluster at {place.address or os.environ.get('RAY_ADDRESS', 'this machine')} ({error}); start one with "
            "`ray start --head`, or leave the address out for one on this machine alone"
        ) from error
    try:
        gpus = ray.cluster_resources().get("GPU", 0)
        if own and gpus < place.gpus:
            raise SettingsError(f"a job asks for {place.gpus:g} GPUs, but this machine has {gpus:g}; give an address")
        yield
    finally:
        ray.shutdown()


@dataclass
class _Attempt:
    """A job under way: by its number, the reference to how it ends, and how often it was handed in."""

    job: Job
    number: int
    attempt: int
    end: Any
    seen: bool = False  # its end is there, but not yet its last report


class _Driver:
    """Hands jobs in, and makes events of what comes back."""

    def __init__(self, place: Ray) -> None:
        import ray

        self.ray, self.place = ray, place
        self.work = ray.remote(_work)
        self.under_way: dict[int, _Attempt] = {}
        self.shared: dict[Shared, Any] = {}
        self.count = self.slots = 0
        self.looked = time.monotonic()
        self.queue = ray.remote(_Queue).options(**_beside_the_driver(place)).remote(MOST_BUNDLES)
        self.pending: Any = None
        self.head = _Head(ray.get_runtime_context().gcs_address)

    def events(self, jobs: Iterable[Job | None]) -> Iterator[Event]:
        supply, listed = iter(jobs), isinstance(jobs, Sized)
        self.slots = self._slots()
        while True:
            self.head.wait()
            at_once = max(LEAST_HANDED_IN, 2 * self.slots) if listed else self.slots
            while len(self.under_way) < at_once and (job := next(supply, None)) is not None:
                with self._failure_of(job) as failures:
                    self._hand_in(job)
                yield from failures
            if not self.under_way:
                return
            yield from self._listen()
            if time.monotonic() - self.looked > SECONDS_BETWEEN_LOOKS:
                yield from self._find_lost()

    @contextmanager
    def _failure_of(self, job: Job) -> Iterator[list[Failed]]:
        """Gathers the error of a job that cannot be sent."""
        failures: list[Failed] = []
        try:
            yield failures
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            reason = SettingsError(f"{job.name} cannot be sent to a cluster ({error})")
            failures.append(Failed(job, reason, traceback.format_exc()))

    def _slots(self) -> int:
        """How many jobs the cluster carries now."""
        there = self.ray.cluster_resources()
        wanted = {"CPU": self.place.cpus, "GPU": self.place.gpus}
        fits = (there.get(kind, 0) / each for kind, each in wanted.items() if each)
        return max(1, int(min(fits)))

    def _hand_in(self, job: Job, attempt: int = 1) -> None:
        pickle.dumps((job.work, job.arguments))  # plain, as for a worker of this machine: functions by name
        arguments = [self._reference(value) if isinstance(value, Shared) else value for value in job.arguments]
        number, self.count = self.count, self.count + 1
        work = self.work.options(num_cpus=self.place.cpus, num_gpus=self.place.gpus, max_retries=0)
        end = work.remote(self.queue, number, attempt, self.place, job.work, *arguments)
        self.under_way[number] = _Attempt(job, number, attempt, end)

    def _reference(self, shared: Shared) -> Any:
        """What many jobs need goes into the object store once; on each node they share one copy."""
        if shared not in self.shared:
            self.shared[shared] = self.ray.put(shared.value())
        return self.shared[shared]

    def _listen(self) -> Iterator[Event]:
        """Waits a while for messages, and reads them."""
        if self.pending is None:
            self.pending = self.queue.take.remote()
        if not self.ray.wait([self.pending], timeout=SECONDS_BETWEEN_LOOKS)[0]:
            return
        messages: list[bytes] = []
        with suppress(self.ray.exceptions.RayError):  # a queue that was lost is replaced: reports are, ends are not
            messages = self.ray.get(self.pending)
        self.pending = None
        for message in messages:
            number, contents, last = pickle.loads(message)  # noqa: S301 (our own worker)
            attempt = self.under_way.get(number)
            if attempt is None:
                continue
            for content in contents:
                yield Report(attempt.job, pickle.loads(content))  # noqa: S301
            if last:
                yield from self._end(attempt)

    def _find_lost(self) -> Iterator[Event]:
        """Finds jobs that ended without saying so: their process was killed, their node is gone, or their message was lost."""
        self.head.wait()  # what is asked next would wait for it, and end this process in the end
        self.looked, self.slots = time.monotonic(), self._slots()
        by_end = {attempt.end: attempt for attempt in self.under_way.values()}
        ended, _ = self.ray.wait(list(by_end), num_returns=len(by_end), timeout=0, fetch_local=False)
        for end in ended:
            if by_end[end].seen:
                yield from self._end(by_end[end])
            else:
                by_end[end].seen = True  # its last report may still be on its way

    def _end(self, attempt: _Attempt) -> Iterator[Event]:
        del self.under_way[attempt.number]
        job, errors = attempt.job, self.ray.exceptions
        try:
            ended = pickle.loads(self.ray.get(attempt.end))  # noqa: S301 (our own worker)
        except errors.RayTaskError as error:  # outside of the job itself: it could not even be read there
            ended = (None, SettingsError(_unreadable(job, error)), str(error))
        except errors.RayError as error:
            ended = (None, WorkerDied(_lost(job, attempt.attempt, error)), "")
        result, failure, trace = ended
        if failure is None:
            yield Done(job, result)
        elif isinstance(failure, WorkerDied | InUse) and attempt.attempt < MOST_ATTEMPTS:
            self._hand_in(job, attempt.attempt + 1)
        else:
            yield Failed(job, failure, trace)

    def stop(self) -> None:
        """Ends what is still under way, at first gently."""
        ends = [attempt.end for attempt in self.under_way.values()]
        with suppress(self.ray.exceptions.RayError):
            for end in ends:
                self.ray.cancel(end)
            _, rest = self.ray.wait(ends, num_returns=len(ends), timeout=SECONDS_TO_STOP) if ends else ([], [])
            for end in rest:
                self.ray.cancel(end, force=True)
        self.ray.kill(self.queue)


class _Head:
    """The head of a cluster. Ray notices after a minute that it is gone, and then ends this process; we ask it ourselves."""

    def __init__(self, address: str) -> None:
        self.address, self.is_gone = address, False

    def wait(self) -> None:
        """Comes back once the head takes a connection; gives up when it has not for a while."""
        host, _, port = self.address.rpartition(":")
        until = time.monotonic() + SECONDS_OF_SILENCE
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=SECONDS_OF_SILENCE).close()
                return
            except OSError as error:
                if time.monotonic() > until:
                    self.is_gone = True
                    raise WorkerDied(
                        f"the head of the Ray cluster ({self.address}) is gone; what was done is kept. Start the cluster "
                        "again: the same command continues"
                    ) from error
                time.sleep(0.5)


def _beside_the_driver(place: Ray) -> dict[str, Any]:
    """How the queue is placed: on the node of the driver where that is one of the cluster, and again when it is lost."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 10_000}
    if not (place.address or "").startswith("ray://"):
        here = ray.get_runtime_context().get_node_id()
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=True)
    return options


class _Queue:
    """Messages of many jobs to one driver."""

    def __init__(self, most: int) -> None:
        import asyncio

        self.most = most
        self.messages: deque[bytes] = deque()
        self.change = asyncio.Condition()

    async def put(self, message: bytes) -> None:
        """Adds a message; the sender waits while there are too many."""
        async with self.change:
            await self.change.wait_for(lambda: len(self.messages) < self.most)
            self.messages.append(message)
            self.change.notify_all()

    async def take(self) -> list[bytes]:
        """All messages, as soon as there is one."""
        async with self.change:
            await self.change.wait_for(lambda: self.messages)
            messages = list(self.messages)
            self.messages.clear()
            self.change.notify_all()
        return messages


def _work(queue: Any, number: int, attempt: int, place: Ray, function: Callable[..., Any], *arguments: Any) -> bytes:
    """A job in a process of the cluster: what it reports goes to the queue; returns its result, its error and where that was."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as below `nohup ... &`; but Ray cancels by an interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
    time.sleep(2 * (attempt - 1))  # its former self may not have let go of its folder yet
    sender = _Sender(queue, number)
    ended = b""
    try:
        with torch_threads(place.threads):
            for event in work_off(Job("", function, arguments)):
                match event:
                    case Report(_, content):
                        sender.add(content)
                    case Done(_, result):
                        ended = pickle.dumps((result, None, ""))
                    case Failed(_, error, trace):
                        ended = pickle.dumps((None, portable(error), trace))
    except Exception as error:  # a report cannot be pickled
        ended = pickle.dumps((None, portable(error), traceback.format_exc()))
    sender.send(last=True)
    return ended


class _Sender:
    """What a job reports, gathered and sent now and then."""

    def __init__(self, queue: Any, number: int) -> None:
        self.queue, self.number = queue, number
        self.contents: list[bytes] = []
        self.sent = 0.0

    def add(self, content: Any) -> None:
        self.contents.append(pickle.dumps(content))  # as it is now: the object may change afterwards
        if time.monotonic() - self.sent > SECONDS_BETWEEN_REPORTS:
            self.send()

    def send(self, *, last: bool = False) -> None:
        import ray

        message = pickle.dumps((self.number, self.contents, last))
        with suppress(ray.exceptions.RayError):  # the queue was lost: so are these reports, but not the job
            ray.get(self.queue.put.remote(message))
        self.contents, self.sent = [], time.monotonic()


def _unreadable(job: Job, error: Any) -> str:
    reason = str(error.cause or error).strip().partition("\n")[0]
    return f"{job.name} cannot be begun on the cluster ({reason}); all nodes need the same code and libraries as the driver"


def _lost(job: Job, attempts: int, error: Exception) -> str:
    reason = str(error).strip().partition("\n")[0]
    return (
        f"the process of {job.name} was lost {attempts} times ({type(error).__name__}: {reason}). Out of memory? "
        "Give each job more of a node (--cpus-per-job)"
    )
