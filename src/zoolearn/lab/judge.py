"""Further evaluations of a finished Model Zoo: inferred tasks, other voting rules, single members, distillation."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from zoolearn.beyond.distil import iter_distil
from zoolearn.beyond.task_inference import EVIDENCE, InferredAccuracy, WhichTask, inferred_accuracy
from zoolearn.beyond.voting import MemberStats, accuracy_by_rule, collect_outputs, member_stats
from zoolearn.data.benchmarks import BENCHMARKS, reload_benchmark
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.files import Json, load_json, save_json
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.registry import learner_from
from zoolearn.runs.decode import decode
from zoolearn.runs.own import Own
from zoolearn.runs.results import Count, NotNegative, Results, Share
from zoolearn.runs.state import restore
from zoolearn.runs.store import RunFolder
from zoolearn.training.fit import Progress, Work
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.training.step import Step

FILE = "judged.json"
TIMED_ROWS = 64


class Performance(msgspec.Struct):
    """Accuracy with a given task, size, and time per row."""

    accuracy: Share
    num_parameters: Count
    ms: NotNegative


class Distilled(Performance):
    """One net in place of a zoo."""

    epochs: Count


class Judged(msgspec.Struct, rename={"unknown_task": "unknown task"}):
    """The content of `judged.json`."""

    run: dict[str, Json]
    benchmark: str
    unknown_task: dict[str, InferredAccuracy]  # by evidence
    zoo: Performance
    voting: dict[str, Share]  # by rule
    members: MemberStats
    distilled: Distilled


def record_judgement(content: Json, where: str) -> Judged:
    """The content of a record; an error names where it was read."""
    return decode(content, Judged, where, "what `zoo judge` writes")


def iter_judge(
    run: Path | str,
    data: Path | str | None = None,
    epochs: int = 1,
    names: Mapping[str, Callable[..., Any]] | None = None,
    benchmark: Own | None = None,
) -> Generator[Step | Progress, None, Judged]:
    """The content of `judged.json` in a run's folder; made if it is missing, or distilled for other epochs.

    The caller's code must be given: functions by the `names` that the run has for them, and its `benchmark`.
    """
    folder = RunFolder(Path(run))
    if (folder.path / FILE).exists():
        before = record_judgement(load_json(folder.path / FILE), str(folder.path / FILE))
        if before.distilled.epochs == epochs:
            return before
    zoo, tasks = _restore_zoo(folder, data, names, benchmark)
    recipe = replace(zoo.recipe, epochs=epochs)
    answers = {task.name: zoo.test_answers(task) for task in tasks}
    outputs = []
    for done, of_task in enumerate(collect_outputs(zoo, tasks), start=1):
        outputs.append(of_task)
        yield Step("asking every member", done, len(tasks))
    unknown = {}
    for done, (name, find) in enumerate(EVIDENCE.items()):
        yield Step(f"finding out tasks by {name}", done, len(EVIDENCE))
        unknown[name] = inferred_accuracy(WhichTask(zoo, find), tasks, answers)
    small = yield from _distil(zoo, recipe, tasks)
    right = sum(accuracy(answers[task.name], task.test.y) for task in tasks) / len(tasks)
    ms = _milliseconds(lambda task: zoo.answer(task.test.x[:TIMED_ROWS], task.name), tasks)
    record = Judged(
        run=Results.load(folder.path).settings,
        benchmark=folder.header()["benchmark"],
        unknown_task=unknown,
        zoo=Performance(right, zoo.num_parameters, ms),
        voting=accuracy_by_rule(outputs),
        members=member_stats(outputs, flips=zoo.recipe.flip_tta),
        distilled=small,
    )
    save_json(folder.path / FILE, msgspec.to_builtins(record), indent=1)
    return record


def _restore_zoo(
    folder: RunFolder, data: Path | str | None, names: Mapping[str, Callable[..., Any]] | None, own: Own | None
) -> tuple[ModelZoo, list[Task]]:
    header = folder.header()
    if header["method"] != "model-zoo":
        raise SettingsError(f"{folder.path} is a run of {header['method']}; only runs of model-zoo are judged so")
    tasks = list(reload_benchmark(header, data, folder.path, _maker(header, own)))
    zoo = learner_from(ModelZoo, header["settings"], names)
    restore(zoo, folder.snapshots(folder.episodes(), grows=True), tasks)
    if not zoo.replay or len(zoo.classes) < len(tasks):
        raise SettingsError(f"{folder.path} stores no rows or is not finished; stored rows of every task are needed")
    return zoo, tasks


def _maker(header: Mapping[str, Json], own: Own | None) -> Callable[..., Benchmark] | None:
    if own is None and header["benchmark"] not in BENCHMARKS:
        raise SettingsError(
            f"benchmark {header['benchmark']!r} is not one of zoolearn's; name the function that made it, or the zoo folder (--benchmark FILE.py:NAME)"
        )
    return None if own is None else lambda data, **making: own.benchmark(data, making)


def _distil(zoo: ModelZoo, recipe: Recipe, tasks: list[Task]) -> Work[Distilled]:
    net, _ = yield from iter_distil(zoo, list(zoo.kept.values()), recipe)

    def ask(task: Task, rows: int | None = None) -> float:
        return accuracy(probabilities(net, task.test.x[:rows], task.name, zoo.recipe), task.test.y[:rows])

    whole = sum(ask(task) for task in tasks) / len(tasks)
    return Distilled(whole, net.num_parameters, _milliseconds(lambda task: ask(task, TIMED_ROWS), tasks), recipe.epochs)


def _milliseconds(ask: Callable[[Task], object], tasks: list[Task]) -> float:
    """Milliseconds for one row, in batches of 64, averaged over the tasks."""
    started = perf_counter()
    for task in tasks:
        ask(task)
    return 1000 * (perf_counter() - started) / (TIMED_ROWS * len(tasks))
