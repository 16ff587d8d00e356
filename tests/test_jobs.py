"""The engine: the same results for any number of workers, failures apart, and Ctrl-C that stops all."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from processes import PATIENCE, eventually, started
from zoolearn.cores import default_threads, free_threads, idle_cores, usable_cores
from zoolearn.errors import DataError, SettingsError, WorkerDied
from zoolearn.runs.jobs import Done, Event, Failed, Job, Local, Report, Shared, map_jobs, on_ray

pytestmark = pytest.mark.slow  # processes are started


def test_a_cluster_whose_head_is_gone_is_said_to_be_so_with_the_way_on(monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        head = on_ray._Head(address)
        head.wait()
    monkeypatch.setattr(on_ray, "SECONDS_OF_SILENCE", 0.0)
    with pytest.raises(WorkerDied, match=rf"head of the Ray cluster \({address}\) is gone.*the same command continues"):
        head.wait()
    assert head.is_gone


def random_walk(seed: int, steps: int = 3) -> Generator[float, None, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    place = torch.zeros(4)
    for _ in range(steps):
        place = place + torch.randn(4, generator=rng)
        yield float(place.sum())
    return place


def threads() -> Generator[None, None, int]:
    yield
    return torch.get_num_threads()


def stumble(error: Exception) -> Generator[str, None, None]:
    yield "so far so good"
    raise error


class Odd(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def vanish() -> Generator[None, None, None]:
    yield
    os.kill(os.getpid(), signal.SIGKILL)


def say_a_lambda() -> Generator[object, None, None]:
    yield lambda: None


def wait_to_be_stopped(folder: Path, number: int) -> Generator[int, None, None]:
    """Says that it has begun, then waits for ever; puts its things in order when it is stopped."""
    try:
        (folder / f"begun-{number}").touch()
        while True:
            time.sleep(0.01)
            yield number
    finally:
        (folder / f"in-order-{number}").write_text(str(os.getpid()))


def results(events: list[Event]) -> dict[str, torch.Tensor]:
    return {event.job.name: event.result for event in events if isinstance(event, Done)}


def walks(count: int) -> list[Job]:
    return [Job(f"walk {seed}", random_walk, (seed,)) for seed in range(count)]


def test_two_workers_give_what_one_gives_bit_for_bit() -> None:
    alone, together = results([*map_jobs(walks(5), Local(1))]), results([*map_jobs(walks(5), Local(2))])
    assert alone.keys() == together.keys()
    assert all(torch.equal(alone[name], together[name]) for name in alone)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_reports_in_order_and_then_is_done(workers: int) -> None:
    events = [*map_jobs(walks(2), Local(workers))]
    for name in ("walk 0", "walk 1"):
        own = [type(event) for event in events if event.job.name == name]
        assert own == [Report, Report, Report, Done]


def test_events_carry_the_very_job_that_was_given() -> None:
    jobs = walks(2)
    assert {id(event.job) for event in map_jobs(jobs, Local(2))} == {id(job) for job in jobs}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_has_the_threads_it_is_given(workers: int) -> None:
    before = torch.get_num_threads()
    jobs = [Job("first", threads), Job("second", threads)]
    assert set(results([*map_jobs(jobs, Local(workers))]).values()) == {1}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_fails_is_reported_and_the_others_go_on(workers: int) -> None:
    jobs = [Job("bad", stumble, (DataError("no pixels"),)), *walks(3)]
    events = [*map_jobs(jobs, Local(workers))]
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.job.name == "bad"
    assert isinstance(failed.error, DataError)
    assert str(failed.error) == "no pixels"
    assert "stumble" in failed.trace
    assert len(results(events)) == 3


def test_an_error_that_cannot_travel_arrives_by_its_name() -> None:
    events = [*map_jobs([Job("odd", stumble, (ValueError("fine"),)), Job("odder", raise_odd)], Local(2))]
    errors = {event.job.name: event.error for event in events if isinstance(event, Failed)}
    assert str(errors["odder"]) == "Odd: 1 and 2"


def raise_odd() -> Generator[None, None, None]:
    yield
    raise Odd(1, 2)


def test_a_worker_that_dies_is_named_and_replaced() -> None:
    events = [*map_jobs([Job("doomed", vanish), *walks(3)], Local(2))]
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert isinstance(failed.error, WorkerDied)
    assert "doomed ended by itself (signal 9)" in str(failed.error)
    assert len(results(events)) == 3


def test_a_job_or_report_that_cannot_be_sent_is_a_failure_of_that_job_alone() -> None:
    jobs = [Job("lambda", lambda: iter(())), Job("talker", say_a_lambda), *walks(2)]  # type: ignore[arg-type, return-value]
    events = [*map_jobs(jobs, Local(2))]
    errors = {event.job.name: event.error for event in events if isinstance(event, Failed)}
    assert isinstance(errors["lambda"], SettingsError)
    assert set(errors) == {"lambda", "talker"}
    assert len(results(events)) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_may_depend_on_how_others_ended(workers: int) -> None:
    ended: list[str] = []

    def supply() -> Generator[Job | None, None, None]:
        yield from walks(3)
        while len(ended) < 3:
            yield None
        yield Job(f"after {len(ended)}", random_walk, (9,))

    for event in map_jobs(supply(), Local(workers)):
        if isinstance(event, Done):
            ended.append(event.job.name)
    assert sorted(ended) == ["after 3", "walk 0", "walk 1", "walk 2"]


def made(name: str) -> list[str]:
    return [name]


def holds(values: list[str]) -> Generator[None, None, int]:
    yield
    values.append("once more")
    return len(values)


def test_what_jobs_share_is_made_once_by_a_process() -> None:
    shared = Shared(made, ("one",))
    assert [
        event.result
        for event in map_jobs([Job(str(n), holds, (shared,)) for n in range(3)], Local(1))
        if isinstance(event, Done)
    ] == [2, 3, 4]
    assert (
        sum(isinstance(event, Done) for event in map_jobs([Job(str(n), holds, (shared,)) for n in range(3)], Local(2)))
        == 3
    )


def test_closing_stops_the_workers_where_they_are(tmp_path: Path) -> None:
    jobs = [Job(f"wait {number}", wait_to_be_stopped, (tmp_path, number)) for number in range(2)]
    events = map_jobs(jobs, Local(2))
    heard = set()
    while len(heard) < 2:
        heard.add(next(events).job.name)
    events.close()  # type: ignore[attr-defined]
    for number in range(2):
        assert not alive(int((tmp_path / f"in-order-{number}").read_text()))
    assert not [thread for thread in threading.enumerate() if thread.name == "zoolearn jobs"]


SCRIPT = """
import sys
from pathlib import Path
from test_jobs import wait_to_be_stopped
from zoolearn.runs.jobs import Job, Local, map_jobs

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        for event in map_jobs([Job(str(n), wait_to_be_stopped, (folder, n)) for n in range(2)], Local(2)):
            pass
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_caller(tmp_path: Path, kill: signal.Signals) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with started([script, tmp_path], PYTHONPATH=os.pathsep.join(paths)) as caller:
        eventually(lambda: len([*tmp_path.glob("begun-*")]) == 2)
        if kill == signal.SIGINT:
            os.killpg(caller.pid, signal.SIGINT)  # as a terminal does: to the caller and all its workers
        else:
            caller.kill()
        output, errors = caller.communicate(timeout=PATIENCE)
        eventually(lambda: len([*tmp_path.glob("in-order-*")]) == 2)
        eventually(lambda: not any(alive(int(path.read_text() or 0)) for path in tmp_path.glob("in-order-*")))
    if kill == signal.SIGINT:
        assert (output, errors) == ("stopped\n", "")


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_workers_are_never_more_than_jobs_or_than_the_cores_carry() -> None:
    assert Local(8).workers_for(1) == 1
    assert Local().workers_for(100) == usable_cores()
    assert Local(threads=usable_cores()).workers_for(100) == 1
    with pytest.raises(SettingsError, match="workers is 0"):
        Local(0)


@pytest.mark.parametrize(("asked", "given"), [("", 1), ("1", 1), ("9999", usable_cores()), ("1,2", 1), ("many", 1)])
def test_threads_are_one_unless_asked_for(monkeypatch: pytest.MonkeyPatch, asked: str, given: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert default_threads() == given


@pytest.mark.parametrize(
    ("after", "idle"),
    [
        ("cpu0 0 20 0 0 0", 0),  # a nice program gives way in part only
        ("cpu0 0 0 0 1 -1", 1),  # the kernel took waiting for a disk back
        ("cpu0 20 0 0 0 0\ncpu1 0 0 0 20 0", 0),
        ("cpu1 20 0 0 0 0", 1),  # went offline meanwhile
    ],
)
def test_a_core_is_idle_where_nothing_else_ran(after: str, idle: int) -> None:
    assert idle_cores("cpu0 0 0 0 0 0", after, cores=[0]) == idle


def test_a_training_that_somebody_waits_for_leaves_busy_cores_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert free_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(usable_cores())]
    try:
        deadline = time.monotonic() + 30
        while free_threads() > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert free_threads() == 1
    finally:
        for other in others:
            other.kill()
            other.wait()
