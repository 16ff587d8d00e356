"""Exported files give the zoo's answers, take any number of rows, and hold no row of the data."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import zoolearn
from toys import blobs, pictures
from zoolearn.data.arrivals import part_by_class
from zoolearn.errors import StoreError
from zoolearn.training.recipe import Recipe
from zoos import small_zoo

pytestmark = pytest.mark.slow  # nets are exported

RECIPE = Recipe(epochs=2, device="cpu")
FIRST, SECOND = (pictures(name, 3, shape=(3, 12, 12)) for name in ("first", "second"))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "zoo"
    return small_zoo(folder, [FIRST, SECOND], backbone=zoolearn.small_conv, recipe=RECIPE, replay=0.5)


def test_onnx_takes_raw_pixels_and_gives_the_averaged_probabilities(zoo, tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made = zoo.export("first", tmp_path / "first.onnx", "onnx")
    assert (made.members, made.rows) == (2, 30)
    assert made.difference < 1e-5
    session = onnxruntime.InferenceSession(made.path, providers=["CPUExecutionProvider"])
    for rows in (1, 7):
        x = FIRST.test.x[:rows]
        (found,) = session.run(None, {"inputs": x.numpy()})
        np.testing.assert_allclose(found, zoo.predict_proba(x, "first").numpy(), atol=1e-5)
    notes = session.get_modelmeta().custom_metadata_map
    assert (notes["task"], json.loads(notes["classes"])) == ("first", list(FIRST.classes))
    assert list(tmp_path.iterdir()) == [made.path], "one file"


def test_onnx_of_a_grown_task_answers_as_members_do_that_know_all_classes_and_those_that_do_not(tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    first, then = part_by_class(blobs("blobs", 4), [[0, 2], [3, 1]])
    zoo = small_zoo(tmp_path / "zoo", [first])
    zoo.learn(then, new_classes="any")
    made = zoo.export("blobs", tmp_path / "blobs.onnx", "onnx")
    session = onnxruntime.InferenceSession(made.path, providers=["CPUExecutionProvider"])
    x = torch.cat([first.test.x, then.test.x])
    (found,) = session.run(None, {"inputs": x.numpy()})
    knows = [len(zoo.index.knows(member, "blobs")) for member in zoo.index.voters("blobs")]
    assert (knows, found.shape) == ([2, 4], (len(x), 4))
    np.testing.assert_allclose(found, zoo.predict_proba(x, "blobs").numpy(), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(zoo.tasks["blobs"].classes)


def test_torch_loads_what_was_exported_without_zoolearn_and_without_a_stored_row(tmp_path) -> None:
    task = blobs("blobs", 3)
    zoo = zoolearn.new(tmp_path / "zoo", epochs=2)
    zoo.learn(task)
    made = zoo.export("blobs", tmp_path / "blobs.pt2", "torch")
    notes = {"task.json": ""}
    program = torch.export.load(made.path, extra_files=notes).module()
    assert json.loads(notes["task.json"])["classes"] == list(task.classes)
    assert torch.allclose(program(task.test.x[:1]), zoo.predict_proba(task.test.x[:1], "blobs"), atol=1e-5)
    raw = made.path.read_bytes()
    assert not any(row.numpy().tobytes() in raw for row in [*task.train.x, *task.test.x])


def test_a_zoo_that_is_asked_in_another_precision_can_be_exported(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", [FIRST], recipe=replace(RECIPE, precision="bfloat16"))
    assert zoo.export("first", tmp_path / "first.pt2", "torch").difference < 1e-5


def test_a_file_that_answers_differently_never_gets_its_name(zoo, tmp_path, monkeypatch) -> None:
    wrong = torch.full((30, 3), 1 / 3)
    monkeypatch.setattr("zoolearn.zoo.export.export._write_torch", lambda *_: wrong)
    monkeypatch.setattr("zoolearn.zoo.export.export.os.replace", lambda *_: None)
    with pytest.raises(StoreError, match="answers differently"):
        zoo.export("first", tmp_path / "first.pt2", "torch")
    assert not (tmp_path / "first.pt2").exists()


def test_an_unknown_task_is_told(zoo, tmp_path) -> None:
    with pytest.raises(zoolearn.UnknownTask, match="did you mean 'first'"):
        zoo.export("fist", tmp_path / "x.onnx")
