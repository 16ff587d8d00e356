"""Random walks through the life of a zoo: whatever is done to it in whatever order, it stays whole and says what it does.

`python tests/zoo_walks.py 100 12` takes 100 walks of 12 changes each, of zoos with random settings. A change may be
refused in one clear sentence; then nothing of the zoo may have changed.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import zoolearn
from toys import TINY, contents, pictures
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.task import Task
from zoolearn.errors import ZooError
from zoolearn.methods.learner import accuracy
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.fit import run_to_end
from zoolearn.zoo import Zoo
from zoolearn.zoo.disk.stored import load_inputs, load_labels
from zoolearn.zoo.distilling import iter_distil_zoo
from zoos import alike, stray_files

NAMES = ("birds", "fish", "trees")
KINDS = ("red", "green", "blue", "grey")


def random_settings(rng: random.Random) -> dict[str, Any]:
    """Of a new zoo: the paper's, warm starts, and all ideas of preset `beyond` or some of them."""
    ideas = {name: rng.random() < 0.5 for name in ("refit_heads", "all_tasks", "whiten", "open_softmax", "read_layers")}
    warm = WarmStart(**ideas, supersede=rng.random() < 0.7, chains=rng.choice([1, 2, 3]))
    own: dict[str, Any] = {"grow": warm} if rng.random() < 0.7 else {}
    replay = rng.choice([1.0, 0.5, 0.2, 0.0])
    statistics = {"keep_statistics": rng.random() < 0.5} if rng.random() < 0.5 else {}
    return {
        "replay": replay,
        "tasks_per_episode": rng.choice([1, 2, 3]),
        "seed": rng.randrange(99),
        **own,
        **statistics,
    }


def rows_of(rng: random.Random, name: str, kinds: list[str], per_class: int = 12) -> Task:
    """Fresh rows of some classes."""
    drawn = pictures(name, seed=rng.randrange(9999), classes=len(kinds), per_class=per_class, test_per_class=8)
    return replace(drawn, classes=tuple(kinds))


def learn(zoo: Zoo, rng: random.Random) -> object:
    return zoo.learn(rows_of(rng, rng.choice(NAMES), rng.sample(KINDS, 2)))


def grow(zoo: Zoo, rng: random.Random) -> object:
    """By rows of known classes, of a new one, or both."""
    name = rng.choice([*zoo.tasks])
    known, new = [*zoo.tasks[name].classes], [kind for kind in KINDS if kind not in zoo.tasks[name].classes]
    kinds = rng.sample(known, rng.randint(0 if new else 1, len(known))) + rng.sample(new, rng.randint(0, len(new)))
    gate = rng.choice([None, None, 0.0, 0.05])
    return zoo.learn(rows_of(rng, name, kinds or known, rng.choice([1, 6, 24])), new_classes="any", unless_worse=gate)


def fit_head_alone(zoo: Zoo, rng: random.Random) -> object:
    """By more rows of known classes, for which no net is trained."""
    name = rng.choice([*zoo.tasks])
    more = rows_of(rng, name, [*zoo.tasks[name].classes], rng.choice([2, 12])).train
    file = zoo.path.with_name("more.npz")
    np.savez(file, x=more.x.numpy(), y=[zoo.tasks[name].classes[label] for label in more.y.tolist()])
    return zoo.learn_from(name, file, heads_only=True)


def undone(change: Callable[[Zoo, random.Random], object]) -> Callable[[Zoo, random.Random], None]:
    """A change, and `undo`: every answer is what it was."""

    def change_and_undo(zoo: Zoo, rng: random.Random) -> None:
        before, episodes = heard(zoo), len(zoo.index.episodes)
        change(zoo, rng)
        if len(zoo.index.episodes) > episodes:  # no gate has taken it back already
            zoo.undo()
        assert alike(heard(zoo), before), "an undo did not bring back what was"

    return change_and_undo


def distil(zoo: Zoo, rng: random.Random) -> object:
    folder = zoo.path.with_name("small")
    shutil.rmtree(folder, ignore_errors=True)
    return run_to_end(iter_distil_zoo(zoo, folder, epochs=1))


def correct(zoo: Zoo, rng: random.Random) -> object:
    return zoo.correct(*_some_rows(zoo, rng))


def purge(zoo: Zoo, rng: random.Random) -> object:
    return zoo.purge(*_some_rows(zoo, rng))


def _some_rows(zoo: Zoo, rng: random.Random) -> tuple[str, dict[int, str | None]]:
    name = rng.choice([*zoo.tasks])
    rows = rng.sample(zoo.stored_rows(name), min(3, len(zoo.stored_rows(name))))
    return name, {row.number: rng.choice([None, *zoo.tasks[name].classes]) for row in rows}


def commit_pruning(zoo: Zoo, rng: random.Random) -> object:
    zoo.prune(loss=0.2)
    return zoo.commit_pruning()


OFTEN = {"learn": 4, "grow": 6, "forget": 4, "fit a head alone": 2}
CHANGES: dict[str, Callable[[Zoo, random.Random], object]] = {
    "learn": learn,
    "grow": grow,
    "correct": correct,
    "purge": purge,
    "fit a head alone": fit_head_alone,
    "learn, undo": undone(learn),
    "grow, undo": undone(grow),
    "distil": distil,
    "rename": lambda zoo, rng: zoo.rename(rng.choice([*zoo.tasks]), rng.choice(NAMES)),
    "undo": lambda zoo, rng: zoo.undo(),
    "forget": lambda zoo, rng: zoo.forget(rng.choice([*zoo.tasks])),
    "forget --drop": lambda zoo, rng: zoo.forget(rng.choice([*zoo.tasks]), drop=True),
    "prune": lambda zoo, rng: zoo.prune(loss=rng.choice([0.0, 0.2, 1.0])),
    "restore": lambda zoo, rng: zoo.unprune(),
    "commit": commit_pruning,
}


def heard(zoo: Zoo) -> dict[str, Tensor]:
    """What it says about the held-out rows of every task."""
    return {name: zoo.predict_proba(load_inputs(zoo.folder, task, "test"), name) for name, task in zoo.tasks.items()}


def check(zoo: Zoo) -> None:
    """It is whole, a second reader says the same, and every task is measured as it answers its held-out rows."""
    assert run_to_end(zoo.verify()) == []
    assert stray_files(zoo) == set()
    other, said = zoolearn.open(zoo.path), heard(zoo)
    assert alike(said, heard(other)), "a second reader hears something else"
    for name, task in zoo.tasks.items():
        labels = load_labels(zoo.folder, task, "test")
        assert torch.allclose(said[name].sum(dim=1), torch.ones(len(labels)), atol=1e-4)
        assert said[name].shape == (len(labels), len(task.classes))
        measured = zoo.measure(name).accuracy
        assert abs(accuracy(said[name], labels) - measured) < 1.5 / len(labels), f"{name} is not {measured:.1%}"
        for at in range(task.episode, len(zoo.index.episodes) + 1):
            try:
                other.predict_proba(load_inputs(zoo.folder, task, "test")[:2], name, at=at)
            except ZooError:
                assert any(member.silent for member in zoo.members) or _was_thinned(zoo), "an episode is not answered"


def _was_thinned(zoo: Zoo) -> bool:
    """Whether members were removed for good."""
    return len(zoo.members) < max((member.number for member in zoo.members), default=0)


def walk(place: Path, seed: int, steps: int) -> Counter[str]:
    """One zoo's life; raises on the first thing that is not as it should be."""
    rng = random.Random(seed)
    settings, done, told = random_settings(rng), Counter[str](), list[str]()
    zoo = zoolearn.new(place / "zoo", backbone=mlp_100, recipe=TINY, **settings)
    try:
        for _ in range(steps):
            often = [OFTEN.get(name, 1) for name in CHANGES]
            name = rng.choices([*CHANGES], often)[0] if zoo.tasks else "learn"
            told.append(name)
            before = contents(zoo.path)
            try:
                CHANGES[name](zoo, rng)
            except ZooError as error:
                done[f"{name}, refused"] += 1
                told[-1] += f" ({error})"
                after = contents(zoo.path)
                assert {file: before[file] for file in zoo.index.files()} == {
                    file: after[file] for file in zoo.index.files()
                }, "a refused change left its mark"
                zoo.folder.tidy()  # as the next change would
            else:
                done[name] += 1
            check(zoo)
    except Exception as error:
        error.add_note(f"walk {seed}, {settings}: {'; '.join(told)}")
        raise
    return done


def main(walks: int, steps: int, first: int = 0) -> None:
    torch.set_num_threads(1)
    total = Counter[str]()
    for seed in range(first, first + walks):
        place = Path(tempfile.mkdtemp(prefix="zoo-walks-"))
        try:
            total += walk(place, seed, steps)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    for name, count in sorted(total.items()):
        print(f"{name:<24}{count:>6}")
    print(f"{walks} walks, nothing found")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
