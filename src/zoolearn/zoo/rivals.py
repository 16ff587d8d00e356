"""Compares a zoo with other methods on its own rows: one net fine-tuned, one net for each task, one net on everything."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from statistics import fmean

from zoolearn.data.fingerprint import fingerprint
from zoolearn.data.stream import Benchmark
from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.learner import Learner
from zoolearn.runs.execute import Plan, execute
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec
from zoolearn.runs.standing import Standing
from zoolearn.runs.store import load
from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.zoo.as_benchmark import StoredTasks
from zoolearn.zoo.learning.scores import Share, balanced_accuracy
from zoolearn.zoo.zoo import Zoo

FINE_TUNED, ISOLATED = "one net, fine-tuned on each task", "a net for each task"
ONCE, EACH_TIME = "one net on all rows, once at the end", "the same, again after each lesson"
METHODS = {FINE_TUNED: "fine-tune", ISOLATED: "isolated", ONCE: "multi-head"}
BYTES = 4  # of a weight


def iter_compare(
    zoo: Zoo, out: Path, epochs: int | None = None, command: str = ""
) -> Generator[Step | Progress, None, list[Standing]]:
    """The zoo and its rivals, which are trained one after another in folders of `out`.

    Finished ones are reused; where rows, settings or the caller's code have changed, a folder has another name.
    """
    specs = rival_specs(zoo, epochs)
    held_out = {name: zoo.accuracy(name).rows for name in zoo.tasks}
    found = {"the zoo": measure_zoo(zoo)}
    out.mkdir(parents=True, exist_ok=True)
    for done, (name, spec) in enumerate(specs.items()):
        yield Step(name, done, len(specs))
        whole = spec.whole()
        folder = out / name_run(spec, whole)
        run = execute(spec, Plan(out=folder, checkpoint_every=1, command=command), whole)
        try:
            while True:
                if isinstance(event := next(run), Progress):
                    yield event
        except StopIteration as end:
            balanced = measure_balanced(zoo, load(folder, zoo.names))
            found[name] = measure_run(name, end.value, held_out, balanced)
    return [*found.values(), add_retraining(found[ONCE], rows_at_hand(zoo))]


def name_run(spec: RunSpec, whole: Benchmark) -> str:
    """The folder of a run: its method, and a digest of its settings, rows and code."""
    parts = [spec.identity, fingerprint(whole), *map(str, sorted(spec.source.items()))]
    return f"{spec.method}-{blake2b(repr(parts).encode(), digest_size=4).hexdigest()}"


def rival_specs(zoo: Zoo, epochs: int | None = None) -> dict[str, RunSpec]:
    """A run of each rival on the zoo's stored rows, with its order, net, recipe and seed.

    `epochs` default to as many rows in all as the zoo's members were trained on.
    """
    if sum(not arrival.corrects for entry in zoo.tasks.values() for arrival in entry.arrivals) < 2:
        raise DataError(
            f"{zoo.path} has had fewer than two lessons; a comparison is about what a later one does to earlier ones: `zoo learn` "
            "another task, or more of this one"
        )
    epochs = epochs or _count_epochs(zoo)
    made_by = StoredTasks.at(str(zoo.path))
    settings = {"backbone": zoo.settings.backbone, **zoo.settings.recipe, "epochs": epochs}
    grew = any(len(entry.arrivals) > 1 for entry in zoo.tasks.values())
    own = {ISOLATED: {"replay": 1.0}} if grew else {}  # a net for a task that grows is trained again on all of its rows
    return {
        name: RunSpec(
            method, made_by.name, {**settings, **own.get(name, {})}, {}, zoo.settings.seed, {"benchmark": made_by}
        ).check()
        for name, method in METHODS.items()
    }


def _count_epochs(zoo: Zoo) -> int:
    trained = rows_trained(zoo)
    if trained is None:
        raise SettingsError(
            f"how many rows the members of {zoo.path} were trained on is not recorded; say how long its rivals train: --epochs"
        )
    return max(1, round(trained / sum(rows_at_hand(zoo))))


def rows_trained(zoo: Zoo) -> int | None:
    """The rows that all members were trained on; None if unknown for one."""
    counts = [member.rows_trained for member in zoo.members]
    return None if None in counts else sum(count for count in counts if count is not None)


def lacks_members(zoo: Zoo) -> bool:
    """Whether members were deleted: a number is missing, or an episode that trained one has none left."""
    trained = {episode.number for episode in zoo.index.episodes if episode.tasks}
    numbers = [member.number for member in zoo.members]
    return not trained <= {member.episode for member in zoo.members} or numbers != [*range(1, len(numbers) + 1)]


def rows_at_hand(zoo: Zoo) -> list[int]:
    """The stored training rows of each task, or of each part of one, in the order of arrival."""
    return [len(task.train) for task in StoredTasks.at(str(zoo.path)).benchmark()]


def measure_zoo(zoo: Zoo) -> Standing:
    """The accuracy and costs of the zoo, from its stored votes."""
    shares = [zoo.accuracy(name) for name in zoo.tasks]
    seconds = sum(member.seconds for member in zoo.members)
    megabytes = sum(member.bytes for member in zoo.members) / 1e6
    kept, balanced = sum(rows_at_hand(zoo)), fmean(zoo.measure(name).balanced for name in zoo.tasks)
    return Standing("the zoo", *mean_interval(shares), balanced, seconds, rows_trained(zoo), megabytes, kept)


def measure_balanced(zoo: Zoo, learner: Learner) -> float:
    """The mean balanced accuracy of a run's learner over the zoo's tasks."""
    shares = []
    for name in zoo.tasks:
        test, classes = zoo.task(name).test, zoo.tasks[name].classes
        answers = learner.predict_proba(test.x, name)
        shares.append(balanced_accuracy(answers[:, [learner.classes[name].index(each) for each in classes]], test.y))
    return fmean(shares)


def measure_run(name: str, results: Results, rows: Mapping[str, int], balanced: float) -> Standing:
    """The accuracy and costs of a finished run; `rows` are the held-out rows of each task."""
    last = zip(results.tasks, results.accuracy[-1], strict=True)
    shares = [Share.of(value, rows[task]) for task, value in last if value is not None]
    megabytes = results.num_parameters * BYTES / 1e6
    seconds, kept = results.seconds["train"], results.stored_samples
    return Standing(name, *mean_interval(shares), balanced, seconds, results.rows_trained, megabytes, kept)


def add_retraining(once: Standing, rows: Sequence[int]) -> Standing:
    """The cost of training the net on all rows again whenever a task arrives; the last training costs `once`.

    >>> once = Standing("one net", 0.9, 0.8, 0.95, balanced=0.9, seconds=60.0, rows_trained=600, megabytes=1.0, rows_kept=60)
    >>> again = add_retraining(once, [10, 20, 30])
    >>> again.rows_trained, again.seconds
    (1000, 100.0)
    """
    times = sum(sum(rows[: place + 1]) for place in range(len(rows))) / sum(rows)
    trained = None if once.rows_trained is None else round(once.rows_trained * times)
    return replace(once, name=EACH_TIME, seconds=once.seconds * times, rows_trained=trained)


def mean_interval(shares: Sequence[Share]) -> tuple[float, float, float]:
    """The mean accuracy over tasks with its 95 % interval, from the intervals of tasks (Zou and Donner, 2008).

    >>> [round(value, 3) for value in mean_interval([Share(50, 100), Share(90, 100)])]
    [0.7, 0.639, 0.753]
    """
    mean = sum(share.value for share in shares) / len(shares)
    down = math.hypot(*(share.value - share.low for share in shares)) / len(shares)
    up = math.hypot(*(share.high - share.value for share in shares)) / len(shares)
    return mean, mean - down, mean + up


def list_differences(zoo: Zoo, epochs: int | None = None) -> tuple[str, ...]:
    """What is equal in the comparison and what is not, in sentences to be read with it."""
    settings, epochs = zoo.settings, epochs or _count_epochs(zoo)
    sentences = [
        f"All have the same net ({settings.backbone}), recipe and seed, one training each. The rivals train for {epochs} "
        "epochs: unless you say how many, as many as give them the rows that the zoo's members were shown in all.",
        "The accuracy is the mean over the tasks, on their held-out rows; its interval says what that tells about further "
        "rows, not about other seeds. Balanced, every class of a task counts the same, however few rows it has.",
        "The zoo's seconds were recorded when it learned, the others' were measured now. Of the net that is trained again "
        "after each lesson only the last training was done; the cost of the earlier ones is computed from their rows.",
        "Megabytes are of the nets; `rows kept` are the training rows that each needs for the next lesson.",
    ]
    if lacks_members(zoo):
        sentences.append(
            "Members of the zoo were deleted (`zoo prune --commit` or `zoo forget`), and what they took is not recorded: its "
            "seconds and rows trained, and what follows from them for its rivals' epochs, are of those that are left alone."
        )
    if settings.descends:
        sentences.append(
            "The zoo's members grow out of those before them, with heads fitted to rows; its rivals start from scratch."
        )
    if settings.replay < 1:
        sentences.append(
            f"The zoo keeps {settings.replay:.0%} of each task's rows, and its rivals were trained on these alone; its "
            "members saw all rows of a new task."
        )
    return tuple(sentences)
