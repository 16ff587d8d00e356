"""What a program that runs for months must not pile up: descriptors, maps, objects, names of what is forgotten."""

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zoolearn
from processes import eventually
from servers import serving
from toys import blobs
from zoolearn.files import load_tensors, save_tensors
from zoolearn.zoo.disk import stored_files
from zoolearn.zoo.disk.folder import ZooFolder
from zoos import TASKS, small_zoo

X = TASKS[0].test.x
FILES = Path("/proc/self/fd")
needs_proc = pytest.mark.skipif(not FILES.exists(), reason="open files are listed by Linux")


def open_files() -> int:
    return len(os.listdir(FILES))


def maps(folder: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(folder))


@pytest.fixture
def collected():
    """Counting is exact: nothing is let go by the collector of circles, nor has it anything left to do."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@needs_proc
@pytest.mark.parametrize("mapped", [0, 1 << 40], ids=["mapped", "read"])
def test_rows_that_are_in_use_keep_no_file_open(tmp_path, monkeypatch, mapped):
    zoo = small_zoo(tmp_path / "zoo")
    monkeypatch.setattr(stored_files, "MAPPED", mapped)
    before = open_files()
    rows = [zoo.task(name) for name in zoo.tasks]
    assert open_files() == before
    assert (maps(zoo.path) > 0) == (mapped == 0)
    assert [task.train.x.equal(known.train.x) for task, known in zip(rows, TASKS, strict=False)] == [True] * 3


def test_writing_to_stored_rows_changes_memory_only(tmp_path, monkeypatch):
    rows = torch.arange(1 << 10)
    for mapped in (0, 1 << 40):
        monkeypatch.setattr(stored_files, "MAPPED", mapped)
        folder = ZooFolder(tmp_path / str(mapped))
        stored = folder.store_tensor(rows)
        folder.tensor(stored).zero_()
        assert folder.verify_tensor(stored).equal(rows)


@needs_proc
def test_a_life_of_a_zoo_keeps_no_file_open_and_none_mapped(tmp_path, monkeypatch, collected):
    monkeypatch.setattr(stored_files, "MAPPED", 0)
    folder = small_zoo(tmp_path / "zoo", [blobs("first")]).path
    before = open_files()
    for day in range(3):
        zoo = zoolearn.open(folder)
        zoo.learn(blobs(f"task {day}", seed=day))
        zoo.learn(replace(blobs("more", seed=10 + day), name="first"))
        zoo.recognise(blobs("first").test.x[:2], sure=0.0)
        zoo.predict(blobs("first").test.x[:2], "first", sure=0.9)
        zoo.undo()
        if day:
            zoo.forget(f"task {day - 1}")
    del zoo
    assert open_files() == before
    assert maps(folder) == 0


def test_what_was_read_of_a_zoo_is_let_go_at_once(tmp_path, collected):
    folder = small_zoo(tmp_path / "zoo", [blobs("first"), blobs("second", seed=1)]).path
    rows = blobs("first").test.x[:2]
    uses = {
        "predict": lambda zoo: zoo.predict(rows, "first", sure=0.9),
        "recognise": lambda zoo: zoo.recognise(rows, sure=0.0),
        "learn": lambda zoo: zoo.learn(blobs("third", seed=2)),
        "undo": lambda zoo: zoo.undo(),
        "prune": lambda zoo: zoo.prune(loss=0.1),
        "forget": lambda zoo: zoo.forget("first"),
    }
    for name, use in uses.items():
        gc.collect()
        use(zoolearn.open(folder))
        assert gc.collect() == 0, f"{name} leaves objects that keep each other"


def test_reading_and_writing_tensors_loses_no_object(tmp_path, collected):
    def use(size: int) -> None:
        save_tensors(tmp_path / "file", {str(place): torch.zeros(size, place + 1) for place in range(10)})
        load_tensors(tmp_path / "file")

    use(1)
    gc.collect()
    before = sys.getallocatedblocks()
    for size in range(2, 52):
        use(size)
    gc.collect()
    assert sys.getallocatedblocks() - before < 1000  # safetensors by way of torch: 9,000


def test_numbers_that_numpy_lacks_are_written_and_read(tmp_path):
    tensors = {"half": torch.arange(3).to(torch.bfloat16), "eighth": torch.ones(2, 2).to(torch.float8_e5m2)}
    save_tensors(tmp_path / "file", tensors)
    found, _ = load_tensors(tmp_path / "file")
    assert {name: (tensor.dtype, tensor.float().tolist()) for name, tensor in found.items()} == {
        name: (tensor.dtype, tensor.float().tolist()) for name, tensor in tensors.items()
    }


@pytest.mark.slow
def test_a_server_lets_go_of_what_was_made_of_a_forgotten_task(tmp_path):
    folder = small_zoo(tmp_path / "zoo", TASKS[:2]).path
    with serving(folder, sample_seconds=0.0) as client:
        client.rows("stripes", X[:1].tolist(), "?sure=0.5")
        client.get("/tasks")
        service, live = client.service, client.service.live
        assert service.counters.tasks == {*live.compared} == {"stripes"} < {*live.majorities}
        zoolearn.open(folder).forget("stripes")
        eventually(lambda: live.zoo.generation == zoolearn.open(folder).generation and not live.compared)
        assert not service.counters.tasks
        assert {*live.majorities} == {TASKS[1].name}
        assert b"stripes" not in service.counters.render({})
