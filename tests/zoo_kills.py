"""Kills programs that change a zoo, at random instants and at every file operation, and looks at what they leave.

    OMP_NUM_THREADS=1 python tests/zoo_kills.py 200              # instants, and every file operation
    OMP_NUM_THREADS=1 python tests/zoo_kills.py 200 0 grow gate  # instants alone, of changes that contain a word
    OMP_NUM_THREADS=1 python tests/zoo_kills.py 200 8 learn undo forget grow --tasks 300

A child of this process does the work and is killed with SIGKILL. What is then in the folder must be the zoo as it was
before or after, whole; the next program must find its way, and in the end no stray file is left. Of a zoo of many tasks,
all files must be there, but only those are read that the change has made.
"""

import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
from PIL import Image

import zoolearn
from extractors import toy_file
from toys import pictures
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.task import Examples, Task
from zoolearn.files import checksum
from zoolearn.methods.model_zoo import from_scratch
from zoolearn.training.fit import run_to_end
from zoolearn.zoo import Zoo
from zoolearn.zoo.disk.incoming import PLACES
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.refeaturing import iter_refeature
from zoos import TASKS, alike, answers, small_zoo, stray_files

FRESH = pictures("fresh", per_class=30)
MANY = 10  # tasks


def learn_files(zoo: Zoo) -> None:
    zoo.learn_from("fresh", zoo.path.parent / "fresh.npz")


def learn_and_take_back(zoo: Zoo, task: Task = FRESH, new_classes: Sequence[str] = ()) -> None:
    """With a gate that lets nothing pass."""
    with patch("zoolearn.zoo.zoo.find_worse", lambda changes, limit: tuple(changes)):
        assert zoo.learn(task, unless_worse=0.01, new_classes=new_classes).worse


MORE = replace(pictures(TASKS[0].name, seed=7, per_class=6, classes=3), classes=(*TASKS[0].classes, "newcomer"))


def grow(zoo: Zoo) -> None:
    """By more rows and a class."""
    zoo.learn(MORE, new_classes=["newcomer"])


def measure_again(zoo: Zoo) -> None:
    """By the right label of a row that is held out: nothing is trained."""
    held_out = next(row.number for row in zoo.stored_rows(TASKS[0].name) if row.side == "test")
    zoo.correct(TASKS[0].name, {held_out: TASKS[0].classes[1]})


CHANGES: dict[str, Callable[[Zoo], object]] = {
    "learn": lambda zoo: zoo.learn(FRESH),
    "learn from files": learn_files,
    "learn, gate": learn_and_take_back,
    "grow": grow,
    "grow, gate": lambda zoo: learn_and_take_back(zoo, MORE, ["newcomer"]),
    "grow, heads only": lambda zoo: zoo.learn_from(TASKS[0].name, zoo.path.parent / "more.npz", heads_only=True),
    "grow, no rows": grow,  # in a zoo that keeps none
    "grow, some rows": grow,  # and statistics of all
    "correct": lambda zoo: zoo.correct(TASKS[0].name, {1: TASKS[0].classes[1], 2: None}),
    "correct, held out": measure_again,
    "correct --purge": lambda zoo: zoo.purge(TASKS[0].name, {1: None}),
    "undo": lambda zoo: zoo.undo(),
    "forget": lambda zoo: zoo.forget(TASKS[1].name),
    "forget --drop": lambda zoo: zoo.forget(TASKS[3].name, drop=True),
    "prune": lambda zoo: zoo.prune(loss=0.3),
    "prune --commit": lambda zoo: (zoo.prune(loss=0.3), zoo.commit_pruning()),
}


def refeature(zoo: Zoo) -> None:
    run_to_end(iter_refeature(zoo, Given.of(zoo.path.parent / "other.onnx")))


ON_FEATURES: dict[str, Callable[[Zoo], object]] = {"refeature": refeature, "undo refeature": lambda zoo: zoo.undo()}


def in_colour(task: Task) -> Task:
    return replace(task, train=Examples(task.train.x.expand(-1, 3, -1, -1), task.train.y),
                   test=Examples(task.test.x.expand(-1, 3, -1, -1), task.test.y))  # fmt: skip


SEEN = in_colour(pictures("seen", per_class=12))  # by an extractor


def zoo_on_features(place: Path) -> Path:
    """One that has learned from files, and two extractors beside it."""
    for row, (x, label) in enumerate(zip(SEEN.train.x, SEEN.train.y, strict=True)):
        path = place / "seen" / SEEN.classes[int(label)] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x.permute(1, 2, 0).numpy()).save(path)
    for name, seed in (("first.onnx", 0), ("other.onnx", 1)):
        (place / name).write_bytes(toy_file(seed))
    zoo = zoolearn.new(place / "on features", features=place / "first.onnx")
    zoo.learn_from("seen", place / "seen")
    return zoo.path


def brought_over(folder: Path) -> Path:
    """The same on other features."""
    made = shutil.copytree(folder, folder.with_name("on others"))
    refeature(zoolearn.open(made))
    return made


ALL = [*TASKS, FRESH, SEEN]


def copied(source: str, target: str) -> None:
    """A link to what is never changed, so that a large zoo is copied in a moment; else a copy."""
    (os.link if Path(source).parent.name in PLACES else shutil.copy2)(source, target)


def check_whole(zoo: Zoo) -> None:
    """Every file is there and what it should be; in a zoo of many tasks, only new ones are read for that."""
    if len(zoo.tasks) <= MANY:
        assert run_to_end(zoo.verify()) == []
    zoo.folder.index.check(zoo.index)
    for path in (zoo.path / name for name in zoo.index.files()):
        assert path.stat().st_nlink > 1 or checksum(path) == path.stem, f"{path} was altered"


def fork(work: Callable[[], object]) -> int:
    """Does some work in a child, which runs nothing else at its end: the threads that libraries would wait for are not there."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def wait_for(child: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the change failed in the child (exit {code})"


class Trial:
    """One kind of change on one zoo: the states before and after it, and how long it takes."""

    def __init__(self, name: str, place: Path, base: Path) -> None:
        self.name, self.base, self.folder = name, base, place / "zoo"
        self.change = {**CHANGES, **ON_FEATURES}[name]
        self.before = answers(zoolearn.open(base), ALL)
        started = time.perf_counter()
        self.operations = self.killed_at_operation(1 << 30)
        self.seconds = time.perf_counter() - started  # of a child, which is slower than this process
        self.after = answers(zoolearn.open(self.folder), ALL)

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.base, self.folder, copy_function=copied)

    def killed_after(self, seconds: float) -> str:
        """Kills the change after some time and gives what was found."""
        self.reset()
        child = fork(lambda: self.change(zoolearn.open(self.folder)))
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        wait_for(child)
        return self.found()

    def killed_at_operation(self, number: int) -> int:
        """Kills the change just before its file operation of this number; gives how many there were before the end."""
        self.reset()
        reader, writer = os.pipe()
        child = fork(lambda: (kill_before(number, writer), self.change(zoolearn.open(self.folder))))
        os.close(writer)
        wait_for(child)
        with os.fdopen(reader, "rb") as counted:
            return len(counted.read())

    def found(self) -> str:
        """Checks what is in the folder, then that the change can be made after all, and that nothing stray is left."""
        index = zoolearn.zoo.zoo.ZooFolder(self.folder).read()  # before anything is cleaned up
        zoo = zoolearn.open(self.folder)
        assert zoo.generation == index.generation
        check_whole(zoo)
        state = "before" if alike(answers(zoo, ALL), self.before) else "after"
        if state == "after":
            partly = self.name == "prune --commit"  # two changes, of which the first may be all that was done
            assert partly or alike(answers(zoo, ALL), self.after), f"{self.name} left neither state"
        strays = {name for name in stray_files(zoo) if not name.startswith("checkpoints/")}
        assert not strays, f"{self.name} left {strays}"
        if state == "before":
            self.change(zoo)
            assert alike(answers(zoolearn.open(self.folder), ALL), self.after), f"{self.name} cannot be made up for"
        return state


def kill_before(number: int, counter: int) -> None:
    """Makes this process kill itself before the file operation of this number; each one is counted in a pipe."""
    done = 0
    for module, name in ((os, "replace"), (os, "fsync"), (os, "unlink"), (os, "rmdir"), (os, "mkdir"), (os, "open")):
        original = getattr(module, name)

        def counting(*arguments, _original=original, **options):
            nonlocal done
            done += 1
            os.write(counter, b".")
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return _original(*arguments, **options)

        setattr(module, name, counting)


def main(instants: int, operations: int, words: Sequence[str] = (), tasks: int = len(TASKS), seed: int = 0) -> None:
    torch.set_num_threads(1)
    rng = random.Random(seed)
    place = Path(tempfile.mkdtemp(prefix="zoo-kills-"))
    import numpy as np

    np.savez(place / "fresh.npz", x=FRESH.train.x.numpy(), y=FRESH.train.y.numpy())
    old = MORE.train.y < 2
    labels = [MORE.classes[label] for label in MORE.train.y[old].tolist()]
    np.savez(place / "more.npz", x=MORE.train.x[old].numpy(), y=labels)
    more = [pictures(f"more {number}", seed=number) for number in range(len(TASKS), tasks)]
    grow = from_scratch if more else WarmStart()  # of members that grow out of others, forgetting would train all again
    base = small_zoo(place / "base", [*TASKS, *more], tasks_per_episode=2, grow=grow).path
    bare = small_zoo(place / "bare", TASKS[:2], replay=0.0).path
    some = small_zoo(place / "some", TASKS[:2], replay=0.5).path
    found: Counter[tuple[str, str]] = Counter()
    try:
        bases = dict.fromkeys(CHANGES, base) | {"grow, no rows": bare, "grow, some rows": some}
        if more:
            del bases["forget --drop"]  # some of so many tasks would be left without a member
        seen = zoo_on_features(place)
        bases |= zip(ON_FEATURES, (seen, brought_over(seen)), strict=True)
        chosen = [name for name in bases if not words or any(word in name for word in words)]
        trials = [Trial(name, place, bases[name]) for name in chosen]
        for number in range(instants):
            trial = trials[number % len(trials)]
            found[trial.name, trial.killed_after(rng.uniform(0, 1.2 * trial.seconds))] += 1
        for trial in trials:
            for number in sorted(rng.sample(range(1, trial.operations + 1), min(operations, trial.operations))):
                trial.killed_at_operation(number)
                found[trial.name, trial.found()] += 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for name in chosen:
        print(f"{name:<18} before: {found[name, 'before']:>4}   after: {found[name, 'after']:>4}")
    print(f"{found.total()} kills, nothing lost")


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("instants", type=int)
    parser.add_argument("operations", type=int, nargs="?", default=1 << 30)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--tasks", type=int, default=len(TASKS))
    options = parser.parse_intermixed_args()
    main(options.instants, options.operations, options.words, options.tasks)
