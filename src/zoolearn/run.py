"""Showing a benchmark to a learner, episode by episode, and writing down what came of it."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from zoolearn.errors import SettingsError
from zoolearn.files import Json, locked
from zoolearn.learner import Learner, name_of
from zoolearn.methods import METHODS
from zoolearn.results import EpisodeRecord, Results, environment
from zoolearn.store import RunFolder, check_results
from zoolearn.task import Benchmark, Task
from zoolearn.train import Checkpoints, Progress


def run(
    learner: Learner, benchmark: Benchmark, out: Path | str | None = None, checkpoint_every: int | None = None
) -> Results:
    """Shows the whole benchmark to a learner; with `out`, everything is kept there and a second call carries on.

    >>> from zoolearn import Isolated, Recipe, benchmark, mlp
    >>> results = run(Isolated(backbone=mlp, recipe=Recipe(epochs=2)), benchmark("split-digits")[:2])
    >>> results.summary()["average_accuracy"] > 0.9
    True
    """
    *_, results = episodes(learner, benchmark, out, checkpoint_every)
    return results


def episodes(
    learner: Learner, benchmark: Benchmark, out: Path | str | None = None, checkpoint_every: int | None = None
) -> Iterator[Results]:
    """`run`, one episode at a time: gives the (same, growing) results after each."""
    for event in progress(learner, benchmark, out, checkpoint_every):
        if isinstance(event, Results):
            yield event


def progress(
    learner: Learner, benchmark: Benchmark, out: Path | str | None = None, checkpoint_every: int | None = None
) -> Iterator[Progress | Results]:
    """`episodes`, with word of how each training goes in between."""
    if learner.episode:
        raise SettingsError(f"the learner has met {learner.episode} task(s) already; give `run` a new one")
    if checkpoint_every is not None and checkpoint_every < 1:
        raise SettingsError(f"checkpoint_every is {checkpoint_every}; it counts epochs, so 1 or more")
    with ExitStack() as stack:
        folder = None
        if out is not None:
            stack.enter_context(locked(Path(out)))
            folder = RunFolder(Path(out))
        yield from _episodes(learner, benchmark, folder, checkpoint_every)


def _episodes(
    learner: Learner, benchmark: Benchmark, folder: RunFolder | None, checkpoint_every: int | None
) -> Iterator[Progress | Results]:
    header = describe(learner, benchmark)
    results = Results(
        method=header["method"],
        benchmark=header["benchmark"],
        tasks=header["tasks"],
        settings=header["settings"],
        environment=environment(),
    )
    if folder is not None:
        folder.begin(header)
        check_results(folder.path)
        _resume(learner, benchmark, folder, results)
        if checkpoint_every is not None:
            learner.checkpoints = Checkpoints(folder.checkpoints, checkpoint_every)
    if results.accuracy:
        yield results
    for number in range(len(results.accuracy) + 1, len(benchmark) + 1):
        record, changed = yield from _one_episode(learner, benchmark, number)
        _add(results, learner, record, changed)
        if results.finished:
            results.ms_per_sample = latency(learner, benchmark)
        if folder is not None:
            folder.commit(number, _to_json(results, changed), learner.save(), grows=learner.grows)
            results.save(folder.path)
        yield results


def _one_episode(
    learner: Learner, benchmark: Benchmark, number: int
) -> Generator[Progress, None, tuple[EpisodeRecord, dict[str, float]]]:
    met = benchmark.tasks[:number]
    started = perf_counter()
    yield from learner.learning(met[-1])
    if number == len(benchmark):
        yield from learner.finishing()
    trained = perf_counter()
    changed = learner.evaluate(met)
    seconds = {"train": trained - started, "evaluate": perf_counter() - trained}
    assert learner.latest is not None
    latest = learner.latest
    weights = None if latest.weights is None else dict(latest.weights)
    return EpisodeRecord(list(latest.tasks), weights, latest.loss, seconds), changed


def _add(results: Results, learner: Learner, record: EpisodeRecord, changed: dict[str, float]) -> None:
    """A new row: what changed, and for the other tasks what the row before said."""
    before = results.accuracy[-1] if results.accuracy else []
    known = dict(zip(results.tasks, before, strict=False))
    results.accuracy.append([changed.get(name, known.get(name)) for name in results.tasks[: len(before) + 1]])
    results.episodes.append(record)
    results.stored_samples = learner.stored_samples
    results.weights = learner.weights


def _to_json(results: Results, changed: dict[str, float]) -> dict[str, Json]:
    record = results.episodes[-1]
    return {
        "tasks": record.tasks,
        "weights": record.weights,
        "loss": record.loss,
        "seconds": record.seconds,
        "accuracy": changed,
        "ms_per_sample": results.ms_per_sample,
    }


def _resume(learner: Learner, benchmark: Benchmark, folder: RunFolder, results: Results) -> None:
    records = folder.episodes()
    if not records:
        return
    met = benchmark.tasks[: len(records)]
    learner.restore(folder.snapshots(records, grows=learner.grows), met, {learner_backbone(learner): learner.backbone})
    for record in records:
        episode = EpisodeRecord(record["tasks"], record["weights"], record["loss"], record["seconds"])
        _add(results, learner, episode, record["accuracy"])
        results.ms_per_sample = record["ms_per_sample"]
    results.save(folder.path)


def learner_backbone(learner: Learner) -> str:
    """The name under which a learner's files record its backbone."""
    return str(learner.settings()["backbone"])


def describe(learner: Learner, benchmark: Benchmark) -> dict[str, Json]:
    """What makes a run this run: compared when it is continued."""
    return {
        "method": name_of(type(learner), METHODS),
        "benchmark": benchmark.name,
        "tasks": [task.name for task in benchmark],
        "settings": {**learner.settings(), "benchmark": dict(benchmark.options)},
        "data": benchmark.fingerprint,
    }


def latency(learner: Learner, benchmark: Benchmark, rows: int = 64) -> float:
    """Milliseconds that an answer takes for one sample, over batches of `rows`, averaged over the tasks."""
    return sum(_milliseconds(learner, task, rows) for task in benchmark) / len(benchmark)


def _milliseconds(learner: Learner, task: Task, rows: int) -> float:
    x = task.test.x[:rows]
    started = perf_counter()
    learner.predict_proba(x, task.name)
    return 1000 * (perf_counter() - started) / len(x)
