"""Promises that are about the whole library: what is kept is no pickle, and few other libraries are needed."""

import json
import pickle
import tomllib
from pathlib import Path

import torch
from safetensors import safe_open

import zoolearn
from toys import TINY
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.zoo.intake.leaks import digest_rows
from zoos import HAZY, small_zoo


def test_runs_and_zoos_are_kept_and_read_without_a_pickle(tmp_path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was written or read")

    for library, names in ((pickle, ("dump", "dumps", "load", "loads")), (torch, ("save", "load"))):
        for name in names:
            monkeypatch.setattr(library, name, refuse)
    learner = zoolearn.ModelZoo(backbone=mlp_100, recipe=TINY, tasks_per_episode=2)
    zoolearn.run(learner, zoolearn.Benchmark("hazy", tuple(HAZY[:2])), out=tmp_path / "run", checkpoint_every=1)
    zoo = small_zoo(tmp_path / "zoo", HAZY[:2])
    x, name = HAZY[0].test.x, HAZY[0].name
    assert torch.equal(zoolearn.load(tmp_path / "run").predict(x, name), learner.predict(x, name))
    assert zoolearn.open(tmp_path / "zoo").predict(x, name) == zoo.predict(x, name)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size and path.name[0] != "."]
    assert {path.suffix for path in kept} == {".json", ".jsonl", ".safetensors", ".bin"}
    rows = {
        getattr(part, which).numpy().tobytes()
        for task in HAZY[:2]
        for part in (task.train, task.test)
        for which in "xy"
    }
    rows |= {digest_rows(part.x).tobytes() for task in HAZY[:2] for part in (task.train, task.test)}
    for path in kept:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".jsonl":
            assert [*map(json.loads, path.read_text(encoding="utf-8").splitlines())]
        elif path.suffix == ".bin":
            assert path.read_bytes() in rows
        else:
            with safe_open(path, framework="pt") as file:
                assert list(file.keys())


def test_the_library_asks_for_nine_others_at_most() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) <= 9


def test_the_package_holds_no_code_of_others() -> None:
    """What others wrote is installed, not copied: a library in our own files would be large, or one long line."""
    for file in (Path(zoolearn.__file__).parent).rglob("*"):
        if file.is_file() and file.suffix != ".pyc":
            lines = file.read_text(encoding="utf-8").splitlines()
            assert len(lines) < 500, file
            assert max(map(len, lines), default=0) < 400, file
