"""What a step of each method costs: training on a tenth task, against fine-tuning on the same batches."""

from collections.abc import Callable
from copy import deepcopy

from benchmarks.streams import stream
from benchmarks.tables import Table
from benchmarks.timing import ratio, stopwatch, take_turns
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.nets.backbones import BACKBONES
from zoolearn.training.recipe import Recipe

PAST = 9
BATCH = 16
PLAIN = "fine-tune"
BARS: dict[str, tuple[dict[str, object], str]] = {  # settings, and the times a plain step that are allowed
    "ewc": ({}, "1.25"),
    "si": ({}, "1.25"),
    "er": ({"memory_batch": BATCH}, "2.3"),
    "a-gem": ({"memory_batch": BATCH}, "2.3"),
    "mega-ii": ({"memory_batch": BATCH}, "-"),
    "tag": ({}, "1.5"),
    "gem": ({"memory_size": BATCH, "memory_per": "task"}, f"{1 + PAST}: its passes"),
}


def measure(*, quick: bool) -> list[Table]:
    """A row for each method."""
    tasks = stream(PAST + 1, (3, 32, 32), 64 if quick else 320, 16)
    table = Table(
        f"small-conv, batch {BATCH}, task {PAST + 1}: a step / a plain step, time", ["method", "times", "bar"]
    )
    learners = {name: _after_past(name, settings, tasks) for name, (settings, _) in BARS.items()}
    learners[PLAIN] = _after_past(PLAIN, {}, tasks)
    seconds = take_turns(
        {name: _training(learner, tasks[PAST]) for name, learner in learners.items()}, 1 if quick else 7
    )
    for name, (_, bar) in BARS.items():
        table.rows.append([name, 1 / ratio(seconds, name, PLAIN), bar])
    table.notes.append("what comes after the last step of a task (Fisher information, memory) is not counted")
    return [table]


def _after_past(name: str, settings: dict[str, object], tasks: Benchmark) -> Learner:
    recipe = Recipe(epochs=1, batch_size=BATCH, augment="no", device="cpu")
    learner = METHODS[name](backbone=BACKBONES["small-conv"], recipe=recipe, **settings)
    for task in tasks[:PAST]:
        learner.learn(task)
    return learner


def _training(learner: Learner, task: Task) -> Callable[[], float]:
    """Seconds from the first step on the task to the last one."""

    def contend() -> float:
        once = deepcopy(learner)
        with stopwatch() as watch:
            for progress in once.iter_learn(task):
                if progress.step == progress.steps:
                    break
        return watch.seconds

    return contend
