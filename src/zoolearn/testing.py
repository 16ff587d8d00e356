"""The contract of learners: `check_learner(Mine)` checks a method for everything that all methods here guarantee.

Each check is a function of a `Subject` and raises an AssertionError with a sentence; `CHECKS` lists them. They use toy
tasks of two and three classes that a small net learns in a moment.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from zoolearn.data.arrivals import join_parts, part_by_class
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.data.toys import blobs, pictures, toy_benchmark
from zoolearn.errors import DataError, UnknownTask, ZooError
from zoolearn.methods.learner import Learner, accuracy
from zoolearn.methods.registry import learner_from, settings_of
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress, run
from zoolearn.runs.state import save, saved_types
from zoolearn.runs.store import load
from zoolearn.training.fit import Progress, run_to_end
from zoolearn.training.recipe import Recipe

TINY = Recipe(epochs=2, batch_size=8, lr=0.05, device="cpu")
LEARNING = Recipe(epochs=10, batch_size=8, lr=0.05, device="cpu", augment="no")
SITTINGS = 100  # more than any method needs to finish when it is cut again and again
TOYS = toy_benchmark(3, per_class=8, test_per_class=6)
GROWN = part_by_class(pictures("rings", 3, per_class=8, test_per_class=6), [[0, 2], [1]])
GROWING = Benchmark("growing toys", (GROWN[0], TOYS[1], GROWN[1]))


def show(learner: Learner, tasks: Iterable[Task]) -> Learner:
    """The learner after it has met these tasks and finished."""
    for task in tasks:
        learner.learn(task)
    run_to_end(learner.iter_finish())
    return learner


@dataclass(frozen=True, eq=False)
class Subject:
    """A method to check: a class of learners, or a function that makes them, and settings."""

    make: Callable[..., Learner]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def fresh(self, recipe: Recipe = TINY, **settings: Any) -> Learner:
        return self.make(**{"backbone": mlp_100, "recipe": recipe, **self.settings, **settings})

    @cached_property
    def learned(self) -> Learner:
        """A learner that has met all toys; not to be changed."""
        return show(self.fresh(LEARNING), TOYS)

    @cached_property
    def undisturbed(self) -> Mapping[str, Tensor]:
        """The answers of a learner that met all toys without interruption."""
        return answers(show(self.fresh(), TOYS))


def check_learner(make: Callable[..., Learner], **settings: Any) -> None:
    """Runs every check on a method; the first failure is an AssertionError that says what it did.

    >>> from zoolearn import FineTune
    >>> check_learner(FineTune)
    """
    subject = Subject(make, settings)
    for check in CHECKS:
        check(subject)


def check_declarations(subject: Subject) -> None:
    """Every field is a setting with a help, or saved, or derived; settings are plain data that give the learner back."""
    learner = subject.fresh(seed=3)
    kind: type = type(learner)
    saved_types(kind)
    helpless = [part.name for part in fields(learner) if part.init and not part.metadata.get("help")]
    _claim(helpless == ["recipe"], f"settings {helpless} have no help in their metadata")
    again = learner_from(type(learner), settings_of(learner), {mlp_100.__name__: mlp_100})
    _claim(settings_of(again) == settings_of(learner), "settings that were written down give another learner")


def check_answers(subject: Subject) -> None:
    """Answers are probabilities, one row an input, and right more often than by chance for the newest task."""
    for task in TOYS:
        output = subject.learned.predict_proba(task.test.x, task.name)
        _claim(output.shape == (len(task.test), len(task.classes)), f"{task.name!r}: answers have shape {output.shape}")
        _claim(output.dtype == torch.float32, f"answers are {output.dtype}, not float32")
        _claim(bool((output >= 0).all()), "a probability is below 0")
        _claim(torch.allclose(output.sum(dim=1), torch.ones(len(output)), atol=1e-5), "probabilities do not sum to 1")
    right = accuracy(output, task.test.y)
    _claim(right > 0.5 * (1 + 1 / len(task.classes)), f"the newest task is right in {right:.0%} only")


def check_asking(subject: Subject) -> None:
    """Predicting changes nothing, and an answer does not depend on the other rows."""
    learner, task = subject.learned, TOYS[0]
    whole = learner.predict_proba(task.test.x, task.name)
    single = torch.cat([learner.predict_proba(row[None], task.name) for row in task.test.x[:4]])
    _claim(torch.allclose(single, whole[:4], atol=1e-5), "an answer depends on the rows beside it")
    _claim(torch.equal(learner.predict_proba(task.test.x, task.name), whole), "the same question has two answers")
    _claim(learner.predict_proba(task.test.x[:0], task.name).shape == (0, len(task.classes)), "no rows have answers")


def check_seeds(subject: Subject) -> None:
    """The same seed gives the same answers and another seed others; the caller's randomness and data are left alone."""
    tasks = [pictures("stripes", augment=("crop",)), pictures("dots", 3)]
    outside = _random_states()
    before = [part.clone() for task in tasks for part in (task.train.x, task.train.y, task.test.x, task.test.y)]
    first, again, other = (answers(show(subject.fresh(seed=seed), tasks), tasks) for seed in (0, 0, 1))
    _claim(equal(first, again), "the same seed gives other answers")
    _claim(not equal(first, other), "another seed gives the same answers")
    _claim(_random_states() == outside, "the caller's random state was changed")
    after = [part for task in tasks for part in (task.train.x, task.train.y, task.test.x, task.test.y)]
    _claim(all(map(torch.equal, before, after)), "the data of a task was changed")


def check_test_data(subject: Subject) -> None:
    """Test data has no part in what is learned, though the learner is evaluated after every task."""
    tasks = TOYS[:2].tasks
    others = [
        Task(task.name, task.train, Examples(255 - task.test.x[:6], (task.test.y[:6] + 1) % 2), task.classes)
        for task in tasks
    ]
    learners = [subject.fresh(), subject.fresh()]
    for learner, shown in zip(learners, (tasks, others), strict=True):
        for place, task in enumerate(shown):
            learner.learn(task)
            learner.evaluate(list(shown)[: place + 1])
        run_to_end(learner.iter_finish())
    _claim(equal(*(answers(learner, tasks) for learner in learners)), "other test data gives other answers")


def check_abandoned(subject: Subject) -> None:
    """An abandoned episode, at its first report or after its last, leaves no trace."""
    first, second, third = TOYS
    rehearsal = subject.fresh()
    rehearsal.learn(first)
    steps = sum(1 for _ in rehearsal.iter_learn(second))
    for cut in {min(1, steps), steps}:
        learner = subject.fresh()
        learner.learn(first)
        work = learner.iter_learn(second)
        list(islice(work, cut))
        work.close()
        _claim(list(learner.classes) == [first.name], "an abandoned task counts as met")
        after = answers(show(learner, [second, third]))
        _claim(equal(after, subject.undisturbed), "an abandoned episode changed what came after it")


def check_features(subject: Subject) -> None:
    """Float features are learned too, asked as float64, and what is not finite is refused."""
    tasks = [blobs("near"), blobs("far", classes=3)]
    learner = show(subject.fresh(LEARNING), tasks)
    right = accuracy(learner.predict_proba(tasks[-1].test.x.double().numpy(), "far"), tasks[-1].test.y)
    _claim(right > 2 / 3, f"features are right in {right:.0%} only")
    _check_refused(lambda: learner.predict_proba(torch.full((1, 6), float("nan")), "far"), DataError, "NaN")


def check_refusals(subject: Subject) -> None:
    """Unknown tasks and inputs of another kind are refused, and nothing is lost by it."""
    learner = show(subject.fresh(), TOYS[:2])
    before = answers(learner, TOYS[:2])
    _check_refused(lambda: learner.predict_proba(TOYS[0].test.x, "stripe"), UnknownTask, "did you mean 'stripes'")
    _check_refused(lambda: subject.fresh().predict_proba(TOYS[0].test.x, "stripes"), UnknownTask, "there is none")
    _check_refused(lambda: learner.learn(pictures("wide", shape=(1, 8, 9))), DataError, "this learner takes (1, 8, 8)")
    _check_refused(lambda: learner.learn(blobs()), DataError, "task 'blobs' has inputs")
    for x in (torch.zeros(2, 1, 8, 9).byte(), torch.zeros(2, 1, 8, 8), torch.zeros(1, 8, 8).byte()):
        _check_refused(lambda x=x: learner.predict_proba(x, "stripes"), DataError, "(count, 1, 8, 8) torch.uint8")  # type: ignore[misc]
    _claim(list(learner.classes) == ["stripes", "dots"], "what was refused counts as met")
    _claim(equal(answers(learner, TOYS[:2]), before), "what was refused changed the answers")


def check_growth(subject: Subject) -> None:
    """A known task grows by classes and rows; or the method says that it cannot, and stays as it was."""
    first, second, third = GROWING
    learner = subject.fresh(LEARNING)
    learner.learn(first)
    learner.learn(second)
    before = answers(learner, [first, second]) if learner.answers_at_once else {}
    try:
        learner.learn(third)
    except DataError as refusal:
        _claim("was learned already" in str(refusal), f"it refuses to let a task grow without saying so: {refusal}")
        _claim(equal(answers(learner, [first, second]), before), "a refusal to let a task grow changed the answers")
        return
    run_to_end(learner.iter_finish())
    whole = first.join_part(third)
    _claim(learner.classes[first.name] == whole.classes, f"a task that grew has classes {learner.classes[first.name]}")
    output = learner.predict_proba(whole.test.x, first.name)
    _claim(output.shape == (len(whole.test), len(whole.classes)), f"answers for a grown task have shape {output.shape}")
    _claim(torch.allclose(output.sum(dim=1), torch.ones(len(output)), atol=1e-5), "probabilities do not sum to 1")
    is_new = whole.test.y == len(first.classes)
    recall = accuracy(output[is_new], whole.test.y[is_new])
    _claim(recall > 0.5, f"a class that came later is right in {recall:.0%} only")
    _claim(
        learner.evaluate([whole])[first.name] == accuracy(output, whole.test.y), "accuracy is not that of the answers"
    )
    _claim(learner.episode == len(GROWING), f"episode is {learner.episode} after {len(GROWING)} arrivals")
    _check_cut(subject, GROWING)


def check_skipped_steps(subject: Subject) -> None:
    """A step that loss scaling skips, as it overflowed in float16, leaves nothing behind that is not finite."""

    def overflows_at_first(device: str, enabled: bool) -> torch.amp.GradScaler:
        return torch.amp.GradScaler(device, init_scale=2.0**40, backoff_factor=2.0**-30)

    recipe = Recipe(epochs=1, batch_size=8, lr=0.001, device="cpu", augment="no", precision="float16")
    learner = subject.fresh(recipe)
    with patch("zoolearn.training.fit.GradScaler", overflows_at_first):
        for task in TOYS[:2]:
            learner.learn(task)
            for name, tensor in _saved(learner).items():
                _claim(bool(tensor.isfinite().all()), f"{name} is not finite")


def check_counts(subject: Subject) -> None:
    """Every training row that is kept is counted in `stored_samples`, and there are no more than were shown."""
    learner, shown = subject.learned, torch.cat([task.train.x for task in TOYS]).flatten(1)
    _claim(0 <= learner.stored_samples <= len(shown), f"stored_samples is {learner.stored_samples} of {len(shown)}")
    parts = [part for part in _saved(learner).values() if part.shape[1:] == TOYS[0].shape and part.dtype == torch.uint8]
    kept = {row.numpy().tobytes() for part in parts for row in part.flatten(1)}
    found = sum(row.numpy().tobytes() in kept for row in shown)
    _claim(
        found <= learner.stored_samples, f"{found} training rows are kept, stored_samples is {learner.stored_samples}"
    )
    _claim(learner.num_parameters > 0, f"num_parameters is {learner.num_parameters}")
    _claim(learner.episode == len(TOYS), f"episode is {learner.episode} after {len(TOYS)} tasks")


def check_runs(subject: Subject) -> None:
    """A run interrupted again and again, between and within episodes, ends as an uninterrupted one, and so does its folder."""
    _check_cut(subject, TOYS)


def _check_cut(subject: Subject, stream: Benchmark) -> None:
    tasks = join_parts(stream).values()
    with TemporaryDirectory() as folder:
        whole = subject.fresh()
        results = run(whole, stream, Path(folder, "whole"))
        _claim(len(results.accuracy) == len(stream) and results.finished, "the run has not an accuracy for every task")
        path = Path(folder, "cut")
        for _ in range(SITTINGS):
            learner = subject.fresh()
            latest = _continue_run(learner, stream, path)
            if latest is not None and latest.finished:
                break
        else:
            raise AssertionError("a run that is cut every two reports never ends")
        output = answers(whole, tasks)
        _claim(latest.accuracy == results.accuracy, "a run that was cut and continued has other accuracies")
        _claim(equal(_saved(learner), _saved(whole)), "a run that was cut and continued saved something else")
        _claim(equal(answers(learner, tasks), output), "a run that was cut and continued gives other answers")
        again = load(path, {type(whole).__name__: type(whole)})
        _claim(equal(answers(again, tasks), output), "what was loaded gives other answers")
        _claim(settings_of(again) == settings_of(whole), "what was loaded has other settings")
        _claim(again.num_parameters == whole.num_parameters, "what was loaded has another number of parameters")


def _continue_run(learner: Learner, stream: Benchmark, folder: Path) -> Results | None:
    """Continues a run until the second report of a training: one checkpoint later, within an episode."""
    latest, reports = None, 0
    work = progress(learner, stream, folder, checkpoint_every=1)
    for event in work:
        if isinstance(event, Progress):
            reports += 1
        else:
            latest = event
        if reports == 2:
            break
    work.close()
    return latest


def check_loaded(subject: Subject) -> None:
    """A learner loaded without data learns further as if nothing had happened, or says why not and stays as it was."""
    with TemporaryDirectory() as folder:
        learner = subject.fresh()
        run(learner, TOYS[:2], folder)
        again = load(folder, {type(learner).__name__: type(learner)})
    before = answers(again, TOYS[:2])
    try:
        show(again, TOYS[2:])
    except DataError as refusal:
        _claim("is not at hand" in str(refusal), f"it refuses to learn on without a word of the data: {refusal}")
        _claim(equal(answers(again, TOYS[:2]), before), "a refusal to learn on changed the answers")
    else:
        _claim(equal(answers(again), subject.undisturbed), "what was loaded learns something else")


CHECKS: tuple[Callable[[Subject], None], ...] = (
    check_declarations,
    check_answers,
    check_asking,
    check_seeds,
    check_test_data,
    check_abandoned,
    check_features,
    check_refusals,
    check_growth,
    check_skipped_steps,
    check_counts,
    check_runs,
    check_loaded,
)


def answers(learner: Learner, tasks: Iterable[Task] = TOYS) -> dict[str, Tensor]:
    """A learner's answers for the test rows of tasks."""
    return {task.name: learner.predict_proba(task.test.x, task.name) for task in tasks}


def equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Whether two tables of tensors are equal bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def _random_states() -> tuple[object, ...]:
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()


def _saved(learner: Learner) -> dict[str, Tensor]:
    return {name: tensor for file in save(learner).files.values() for name, tensor in file.items()}


def _claim(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


def _check_refused(work: Callable[[], object], kind: type[ZooError], words: str) -> None:
    try:
        work()
    except kind as refusal:
        _claim(words in str(refusal), f"the refusal {str(refusal)!r} does not say {words!r}")
    else:
        raise AssertionError(f"nothing was refused where {kind.__name__} was expected: {words}")
