"""A real Ray cluster of two nodes on this machine: what `--on here` gives, bit for bit, also when things are killed."""

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from processes import eventually, started
from test_jobs import random_walk, say_a_lambda, stumble, wait_to_be_stopped
from toys import learner_of, outcome, pictures
from zoolearn.cli import main
from zoolearn.data.fingerprint import fingerprint
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.errors import DataError
from zoolearn.methods.registry import METHODS, settings_of
from zoolearn.runs.execute import Plan, execute
from zoolearn.runs.jobs import Done, Event, Failed, Job, Local, Ray, Report, Shared, map_jobs
from zoolearn.runs.results import Results
from zoolearn.runs.run import run
from zoolearn.runs.spec import RunSpec
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # a cluster is started; Ray's own warnings

BRIEF = ("--epochs", "2", "--backbone", "mlp-100", "--samples-per-class", "10", "--first-tasks", "2", "--device", "cpu")
LONG = Recipe(epochs=12, batch_size=8, lr=0.01, device="cpu")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head node that only drives, and two nodes of one CPU each; everything in this process is connected to it."""
    tests, paths = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    settings = {
        "PYTHONPATH": os.pathsep.join([tests, paths] if paths else [tests]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_register_timeout_seconds": "600",  # the machine may be busy
        "RAY_agent_register_timeout_ms": "600000",
        "RAY_health_check_period_ms": "300",  # a node is gone at the fifth that fails; one that is slow has 10 s for each
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_idle_worker_killing_time_threshold_ms": "600000",  # the next test has use for them
        "RAY_worker_niceness": "0",  # Ray's 15 lets workers starve beside other programs
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        cluster = new_cluster()
        yield cluster
        stopped(cluster)


def new_cluster(attempts: int = 3) -> Any:
    """A cluster that this process is connected to; a machine that is very busy may need more than one attempt."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # whatever Ray's processes died of
        stopped(cluster)
        if attempts == 1:
            pytest.skip(f"Ray cannot start a cluster on this machine: {error}")
        time.sleep(5)
        return new_cluster(attempts - 1)
    return cluster


def stopped(cluster: Any) -> None:
    import ray

    ray.shutdown()
    cluster.shutdown()


def shared_memory(task: Task, _: int) -> Generator[None, None, tuple[str, bool]]:
    """What a job sees of a task, and whether the pixels lie in the node's shared memory."""
    yield
    address = task.train.x.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return fingerprint(Benchmark("one", (task,))), "/dev/shm" in line or "plasma" in line
    raise AssertionError("memory that is nowhere")


def large_task() -> Task:
    return pictures("large", per_class=1000, shape=(3, 16, 16))


def ends(events: list[Event]) -> dict[str, Any]:
    return {event.job.name: event for event in events if not isinstance(event, Report)}


WALKS = [Job(f"walk {seed}", random_walk, (seed,)) for seed in range(4)]
LOOKS = [Job(f"look {n}", shared_memory, (Shared(large_task), n)) for n in range(3)]


@pytest.fixture(scope="module")
def there(cluster: Any) -> list[Event]:
    """What happens when jobs of all kinds are given to the cluster at once."""
    bad = [Job("bad", stumble, (DataError("no pixels"),)), Job("talker", say_a_lambda)]
    return [*map_jobs([*bad, *WALKS, *LOOKS], Ray())]


def test_jobs_give_what_they_give_here(there: list[Event]) -> None:
    here = [*map_jobs(WALKS, Local(1))]
    for walk in WALKS:
        own = [event for event in there if event.job is walk]
        assert [type(event) for event in own] == [Report, Report, Report, Done]
        assert [event.content for event in own[:3]] == [
            event.content for event in here if event.job is walk and isinstance(event, Report)
        ]
        assert torch.equal(ends(there)[walk.name].result, ends(here)[walk.name].result)


def test_a_job_that_fails_says_so_and_the_others_go_on(there: list[Event]) -> None:
    failed = ends(there)["bad"]
    assert isinstance(failed.error, DataError)
    assert "stumble" in failed.trace
    assert isinstance(ends(there)["talker"], Failed)
    assert {name for name, end in ends(there).items() if isinstance(end, Failed)} == {"bad", "talker"}


def test_data_is_shared_without_copies(there: list[Event]) -> None:
    whole = fingerprint(Benchmark("one", (large_task(),)))
    assert [ends(there)[look.name].result for look in LOOKS] == [(whole, True)] * len(LOOKS)


def test_jobs_may_depend_on_how_others_ended(cluster: Any) -> None:
    ended: list[str] = []

    def supply() -> Iterator[Job | None]:
        yield Job("first", random_walk, (0,))
        while not ended:
            yield None
        yield Job(f"after {ended[0]}", random_walk, (1,))

    for event in map_jobs(supply(), Ray()):
        if isinstance(event, Done):
            ended.append(event.job.name)
    assert ended == ["first", "after first"]


def stream() -> Benchmark:
    return Benchmark("toys", (pictures("stripes"), pictures("dots")))


def trained(out: Path, place: Local | Ray, kill: Callable[[int], None]) -> list[Progress]:
    """Carries out a run in a folder; in its eighth epoch, `kill` is told the process that it is in."""
    learner = learner_of(METHODS["model-zoo"], LONG)
    spec, plan = RunSpec.of_record("model-zoo", "toys", settings_of(learner)), Plan(out=out, checkpoint_every=1)
    killed = out.with_name("killed")
    steps = []
    with closing(map_jobs([Job("run", told_by, (spec, plan, Shared(stream), killed))], place)) as events:
        for event in events:
            assert not isinstance(event, Failed), event
            if isinstance(event, Report) and isinstance(event.content[1], Progress):
                process, content = event.content
                steps.append(content)
                if content.epoch == 8 and not killed.exists():
                    kill(process)
                    killed.touch()
    return steps


def told_by(spec: RunSpec, plan: Plan, whole: Benchmark, killed: Path) -> Generator[tuple[int, Any], None, None]:
    """A run that says which process it is in, and in its eighth epoch waits to be killed."""
    for event in execute(spec, plan, whole):
        yield os.getpid(), event
        while isinstance(event, Progress) and event.epoch == 8 and not killed.exists():
            time.sleep(0.1)
            yield os.getpid(), event


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the run leaves when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(learner_of(METHODS["model-zoo"], LONG), stream(), folder)
    return outcome(folder)


def epochs_lost(steps: list[Progress]) -> int:
    """How far the training fell back when it was taken up again."""
    backwards = [
        before.epoch - after.epoch
        for before, after in pairwise(steps)
        if before.what == after.what and after.epoch < before.epoch
    ]
    return max(backwards, default=0)


def test_a_killed_process_costs_an_epoch_and_changes_nothing(cluster: Any, tmp_path: Path, undisturbed: Any) -> None:
    steps = trained(tmp_path / "run", Ray(), lambda process: os.kill(process, signal.SIGKILL))
    assert epochs_lost(steps) <= 1
    assert outcome(tmp_path / "run") == undisturbed


def test_a_killed_node_costs_an_epoch_and_changes_nothing(cluster: Any, tmp_path: Path, undisturbed: Any) -> None:
    def kill(process: int) -> None:
        node = next(node for node in cluster.worker_nodes if process_below(process, node))
        cluster.remove_node(node, allow_graceful=False)

    steps = trained(tmp_path / "run", Ray(), kill)
    cluster.add_node(num_cpus=1)
    assert epochs_lost(steps) <= 1
    assert outcome(tmp_path / "run") == undisturbed


def process_below(process: int, node: Any) -> bool:
    """Whether a process was started by a node's raylet."""
    raylets = {info.process.pid for infos in node.all_processes.values() for info in infos}
    while process > 1:
        if process in raylets:
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def test_closing_stops_jobs_where_they_are(cluster: Any, tmp_path: Path) -> None:
    events = map_jobs([Job(f"wait {n}", wait_to_be_stopped, (tmp_path, n)) for n in range(2)], Ray())
    heard = set()
    while len(heard) < 2:
        event = next(events)
        assert isinstance(event, Report), event
        heard.add(event.job.name)
    events.close()
    assert sorted(path.name for path in tmp_path.glob("in-order-*")) == ["in-order-0", "in-order-1"]


def test_a_driver_that_was_killed_is_continued_by_the_same_command(cluster: Any, tmp_path: Path) -> None:
    words = ["split-digits", *BRIEF, "--vary", "lr=0.01,0.02", "--seeds", "2", "--out"]
    there = [*words, str(tmp_path / "there"), "--on", "ray", "--address", cluster.address]
    with started(["-m", "zoolearn", "sweep", "fine-tune", *there]) as driver:
        eventually(lambda: any((tmp_path / "there").glob("*/episodes/0001.json")) or driver.poll() is not None)
    main(["sweep", "fine-tune", *there])
    main(["sweep", "fine-tune", *words, str(tmp_path / "here"), "--on", "here"])
    folders = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert folders == [f"lr={lr}-seed{seed}" for lr in (0.01, 0.02) for seed in (0, 1)]
    for folder in folders:
        there_found = outcome(tmp_path / "there" / folder)
        there_found.pop(".heartbeat", None)  # of one that was killed when all was done but this
        assert there_found == outcome(tmp_path / "here" / folder)


OWN = """
import zoolearn

class RayMethod(zoolearn.FineTune):
    pass

def ray_stream():
    return zoolearn.Benchmark("own", zoolearn.benchmark("split-digits", samples_per_class=5, first_tasks=2).tasks)
"""


def test_code_of_ones_own_is_found_on_the_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("ray_code.py").write_text(OWN)
    words = ["run", "ray_code.py:RayMethod", "ray_code.py:ray_stream", "--epochs", "1", "--backbone", "mlp-100"]
    for on in ("here", "ray"):
        main([*words, "--device", "cpu", "--seeds", "2", "--on", on, "--out", on])
    for seed in (0, 1):
        title = f"RayMethod-own-seed{seed}"
        assert outcome(tmp_path / "ray" / title) == outcome(tmp_path / "here" / title)
        untold = Results.load(tmp_path / "ray" / title).untold
        assert untold is not None, "accuracy without the task told is measured there too"
        assert {*untold.accuracy} == {"0-1", "2-3"}
    Path("ray_code.py").rename("moved.py")
    with pytest.raises(SystemExit):
        main([*words, "--device", "cpu", "--seed", "2", "--seeds", "2", "--on", "ray", "--out", "gone"])
    assert "ray_code.py:RayMethod: " in capsys.readouterr().err
