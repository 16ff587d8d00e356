"""Shows a benchmark to a learner, episode by episode, and records the results."""

import logging
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch

from zoolearn.data.arrivals import join_parts
from zoolearn.data.fingerprint import fingerprint, fingerprint_of_data
from zoolearn.data.stream import Benchmark
from zoolearn.errors import Diverged, SettingsError, StoreError
from zoolearn.files import Json
from zoolearn.locks import lock_folder
from zoolearn.methods.learner import Episode, Learner, accuracy
from zoolearn.methods.registry import METHODS, settings_of
from zoolearn.names import registered_name
from zoolearn.runs.arrivals import accuracy_by_arrival, count_samples, find_whole_tasks, name_tasks
from zoolearn.runs.class_incremental import class_incremental
from zoolearn.runs.counting import count_rows, measure_answers_cost
from zoolearn.runs.environment import differences, environment
from zoolearn.runs.heartbeat import Heartbeat
from zoolearn.runs.records import STEPS
from zoolearn.runs.results import Results
from zoolearn.runs.results_file import ResultsFile
from zoolearn.runs.settings import flatten
from zoolearn.runs.source import count_parameters, digest_code
from zoolearn.runs.state import restore, save, saved_types
from zoolearn.runs.step_log import Log, StepLog, tensorboard
from zoolearn.runs.store import RunFolder
from zoolearn.runs.under_way import discard_trainings, is_isolated, save_trainings, with_workers
from zoolearn.training.clock import clock
from zoolearn.training.fit import Progress, Work

if TYPE_CHECKING:
    from zoolearn.runs.ahead import PretrainedTasks

log = logging.getLogger(__name__)


def run(
    learner: Learner,
    benchmark: Benchmark,
    out: Path | str | None = None,
    checkpoint_every: int | None = None,
    workers: int = 1,
    exact: bool = False,
) -> Results:
    """Shows the whole benchmark to a learner; with `out`, everything is kept there and a second call resumes it.

    With more `workers`, nets that depend on their own task alone (Isolated's) are trained in parallel; nothing else
    differs. A run resumed with other threads, libraries or on another processor logs a warning or, with `exact`,
    raises.

    >>> from zoolearn import Isolated, Recipe, benchmark, mlp
    >>> results = run(Isolated(backbone=mlp, recipe=Recipe(epochs=2)), benchmark("split-digits")[:2])
    >>> results.summary()["average_accuracy"] > 0.9
    True
    """
    *_, results = episodes(learner, benchmark, out, checkpoint_every, workers, exact)
    return results


def episodes(
    learner: Learner,
    benchmark: Benchmark,
    out: Path | str | None = None,
    checkpoint_every: int | None = None,
    workers: int = 1,
    exact: bool = False,
) -> Iterator[Results]:
    """`run` as a generator: the (same, growing) results after each episode."""
    for event in progress(learner, benchmark, out, checkpoint_every, workers, exact):
        if isinstance(event, Results):
            yield event


def progress(
    learner: Learner,
    benchmark: Benchmark,
    out: Path | str | None = None,
    checkpoint_every: int | None = None,
    workers: int = 1,
    exact: bool = False,
    command: str = "",
    anyway: bool = False,
    log: Log | None = None,
) -> Generator[Progress | Results, None, None]:
    """`episodes`, with the progress of each training in between.

    `command` is the command line to record. With `anyway`, a run is resumed though the caller's code has changed.
    `log` says what is logged within trainings.
    """
    if not isinstance(learner, Learner):
        raise SettingsError(f"{learner!r} is no learner; give one, such as ModelZoo()")
    if not isinstance(benchmark, Benchmark):
        raise SettingsError(f"{benchmark!r} is no Benchmark; `zoolearn.benchmark(name)` gives those that have a name")
    if learner.episode:
        raise SettingsError(f"the learner has met {learner.episode} task(s) already; give `run` a new one")
    if (again := next((task.name for task in benchmark if task.part), None)) is not None:
        learner.check_growth(again)
    if checkpoint_every is not None and checkpoint_every < 1:
        raise SettingsError(f"checkpoint_every is {checkpoint_every}; it counts epochs, so 1 or more")
    if log is not None and log.is_on and out is None:
        raise SettingsError("a log of steps is kept in the folder of its run; give `out`")
    saved_types(type(learner))
    with ExitStack() as stack:
        folder = None
        if out is not None:
            stack.enter_context(lock_folder(Path(out)))
            folder = RunFolder(Path(out))
        heartbeat = Heartbeat(folder.path if folder is not None else None)
        stack.callback(heartbeat.stop)
        if log is not None and log.is_on and folder is not None:
            learner.listener = StepLog(folder.path / STEPS, log, find_whole_tasks(benchmark))
        board = stack.enter_context(tensorboard(folder.path if folder and log and log.tensorboard else None))
        for event in _episodes(learner, benchmark, folder, checkpoint_every, workers, exact, command, anyway):
            if isinstance(event, Progress):
                heartbeat.write(event)
            board()
            yield event


def _episodes(
    learner: Learner,
    benchmark: Benchmark,
    folder: RunFolder | None,
    checkpoint_every: int | None,
    workers: int,
    exact: bool,
    command: str,
    anyway: bool,
) -> Iterator[Progress | Results]:
    header, code = describe(learner, benchmark), list[str]()
    results = Results(
        method=header["method"],
        benchmark=header["benchmark"],
        tasks=header["tasks"],
        arrivals=header.get("arrivals", []),
        settings=header["settings"],
        environment=environment(),
        train_samples=count_samples(benchmark),
        data=fingerprint_of_data(benchmark),
        source=header["source"],
        parameters=header["parameters"],
    )
    if folder is not None:
        _check_functions_have_names(header["settings"])
        code = folder.begin(header, anyway=anyway)
        results.source = folder.header()["source"]  # of the beginning; sittings record changes
        results.sittings = folder.sittings()
        if results.sittings:
            results.environment = results.sittings[0]["environment"]
        _resume(learner, benchmark, folder, results)
    _begin_sitting(results, folder, command, code, exact=exact)
    if folder is not None:
        save_trainings(learner, folder.checkpoints, checkpoint_every)
    if results.accuracy:
        yield results
    with ExitStack() as stack:
        ahead = stack.enter_context(with_workers(learner, benchmark, folder, checkpoint_every, workers))
        file = ResultsFile(results, folder.path) if folder is not None else None
        if file is not None:
            stack.callback(file.complete)
        for number in range(len(results.accuracy) + 1, len(benchmark) + 1):
            try:
                episode, accuracy = yield from _one_episode(learner, benchmark, number, ahead)
            except Exception as error:
                if isinstance(error, Diverged):
                    results.diverged = str(error)
                else:
                    results.failed = f"{type(error).__name__}: {error}"
                if folder is not None:
                    with suppress(StoreError):  # the first error says more
                        results.save(folder.path)
                raise
            changed = _find_changes(results, accuracy)
            _add_row(results, episode, changed)
            _measure_costs(results, learner, benchmark)
            if folder is not None and file is not None:
                under_way = is_isolated(learner) and not results.finished
                kept = (episode, changed, results.costs, save(learner), results.untold, results.unique)
                folder.commit(number, *kept, grows=learner.grows, under_way=under_way)
                file.update()
            discard_trainings(learner, number - 1)
            yield results


def _one_episode(
    learner: Learner, benchmark: Benchmark, number: int, ahead: "PretrainedTasks | None"
) -> Work[tuple[Episode, dict[str, float]]]:
    task, met = benchmark[number - 1], join_parts(benchmark.tasks[:number])
    if ahead is not None:
        yield from ahead.wait(number - 1)
    began = clock.now()
    _, rows = yield from count_rows(learner.iter_learn(task))
    if number == len(benchmark):
        rows += (yield from count_rows(learner.iter_finish()))[1]
    trained = clock.now()
    reached = learner.evaluate(met.values())
    shown = met if number == len(benchmark) else {task.name: met[task.name]}
    apart = {
        name: accuracy_by_arrival(learner, shown[name], benchmark.tasks[:number]) for name in shown if name in reached
    }
    assert learner.latest is not None
    ended = clock.now()
    episode = replace(
        learner.latest,
        seconds={"train": (trained - began).seconds, "evaluate": (ended - trained).seconds},
        processor_seconds=(ended - began).processor_seconds,
        rows_trained=rows["trained"],
        rows_asked=rows["asked"],
        by_arrival={name: shares for name, shares in apart.items() if shares},
    )
    return episode, reached


def _find_changes(results: Results, accuracy: dict[str, float]) -> dict[str, float]:
    """The accuracies that differ from the row before: an episode's record holds only these."""
    known = dict(zip(results.tasks, results.accuracy[-1] if results.accuracy else [], strict=False))
    return {name: value for name, value in accuracy.items() if name not in known or known[name] != value}


def _add_row(results: Results, episode: Episode, changed: dict[str, float]) -> None:
    """Adds a row to the accuracy matrix: changed entries, the others from the row before."""
    before = results.accuracy[-1] if results.accuracy else []
    known = dict(zip(results.tasks, before, strict=False))
    met = len({*results.meetings[: len(results.accuracy) + 1]})
    results.accuracy.append([changed.get(name, known.get(name)) for name in results.tasks[:met]])
    results.episodes.append(episode)


def _measure_costs(results: Results, learner: Learner, benchmark: Benchmark) -> None:
    """Records costs; at the end also class-incremental accuracy, and accuracy on rows without near-duplicates."""
    sample = benchmark[0].train.x[0]
    results.stored_samples = learner.stored_samples
    results.stored_bytes = learner.stored_samples * sample.numel() * sample.element_size()
    results.num_parameters = learner.num_parameters
    if results.finished:
        whole = replace(benchmark, tasks=tuple(join_parts(benchmark).values()))
        results.ms_per_sample, results.passes = measure_answers_cost(learner, whole)
        results.untold = class_incremental(learner, whole)
        results.unique = accuracy_on_unique_rows(learner, whole)


def _resume(learner: Learner, benchmark: Benchmark, folder: RunFolder, results: Results) -> None:
    records = folder.episodes()
    if not records:
        return
    met = benchmark.tasks[: len(records)]
    restore(learner, folder.snapshots(records, grows=learner.grows), met)
    for record in records:
        _add_row(results, record.episode, record.accuracy)
    for name, cost in msgspec.structs.asdict(records[-1].costs).items():
        setattr(results, name, cost)
    results.untold, results.unique = records[-1].untold, records[-1].unique
    folder.tidy(len(records), grows=learner.grows, under_way=not results.finished)
    saved = folder.results()
    if saved is None or len(saved.accuracy) < len(records):
        results.save(folder.path)


def _begin_sitting(results: Results, folder: RunFolder | None, command: str, code: list[str], *, exact: bool) -> None:
    """Records the environment in which the run goes on, and warns of changes that decide the bits."""
    results.command = results.sittings[0]["command"] if results.sittings else command
    if results.finished:
        if code and folder is not None:
            log.warning(
                "%s is finished, and since then %s: its numbers are those of before", folder.path, "; ".join(code)
            )
        return
    now = environment()
    sitting = {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "episodes": len(results.accuracy),
        "environment": now,
        "command": command,
        "code": code,
    }
    changed = [*code, *(differences(results.sittings[-1]["environment"], now) if results.sittings else [])]
    if changed and folder is not None:
        shown = f"{folder.path} was begun under other conditions: {'; '.join(changed)}"
        if exact:
            raise SettingsError(f"{shown}. Restore them, or continue without exact; the bits may differ then")
        log.warning("%s. It goes on, though not bit for bit as it would have", shown)
    results.sittings.append(sitting)
    if folder is not None:
        folder.begin_sitting(sitting)


def _check_functions_have_names(settings: Mapping[str, Json]) -> None:
    """Raises if a function has no name to resume a run by."""
    for setting, name in flatten(settings).items():
        if name in ("<lambda>", "partial"):
            raise SettingsError(f"{setting} is a {name.strip('<>')}, which has no name of its own; write it with `def`")


def describe(learner: Learner, benchmark: Benchmark) -> dict[str, Json]:
    """The description of a run, compared when it is resumed."""
    return {
        "method": registered_name(type(learner), METHODS),
        "benchmark": benchmark.name,
        **name_tasks(benchmark),
        "settings": {**settings_of(learner), "benchmark": dict(benchmark.options)},
        "data": fingerprint(benchmark),
        "source": {**digest_code(learner), **benchmark.source},
        "parameters": count_parameters(learner, benchmark),
    }


def accuracy_on_unique_rows(learner: Learner, benchmark: Benchmark) -> dict[str, float] | None:
    """Test accuracy of each task without rows that have a near-duplicate in training data; None if unknown."""
    if not benchmark.near_duplicates:
        return None
    found = {}
    for task in benchmark:
        unique = torch.ones(len(task.test), dtype=torch.bool)
        unique[list(benchmark.near_duplicates[task.name])] = False
        answers = learner.test_answers(task)  # of all rows, which were asked about already
        found[task.name] = accuracy(answers[unique], task.test.y[unique])
    return found
