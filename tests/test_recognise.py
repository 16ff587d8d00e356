"""A zoo asked about inputs whose task is not given: from Python, at the command line."""

import csv
import gc
import io
import json

import numpy as np
import pytest
import torch

import zoolearn
from toys import contents, pictures
from zoolearn import cli
from zoolearn.beyond.task_inference import WhichTask
from zoolearn.errors import DataError, SettingsError
from zoolearn.training.recipe import Recipe
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown

LEARNING = Recipe(epochs=8, batch_size=8, lr=0.05, device="cpu", augment="no")
NOISE = torch.randint(0, 256, (12, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return small_zoo(tmp_path / "zoo", TASKS[:3], recipe=LEARNING)


def test_most_inputs_are_recognised_and_their_class_is_what_predict_says(zoo):
    before = contents(zoo.path)
    for task in TASKS[:3]:
        found = zoo.recognise(task.test.x)
        named = [place for place, answer in enumerate(found) if answer.task == task.name]
        assert len(named) > 0.7 * len(found)
        labels = zoo.predict(task.test.x, task.name)
        assert [found[place].label for place in named] == [labels[place] for place in named]
        assert all(sum(answer.chances.values()) == pytest.approx(1.0) for answer in found)
    assert contents(zoo.path) == before


def test_it_is_not_sure_of_what_is_like_no_task_unless_it_must_name_one(zoo):
    found = zoo.recognise(NOISE)
    assert sum(answer.task is None for answer in found) > 0.8 * len(NOISE)
    assert all(answer.label is None for answer in found if answer.task is None)
    assert all(answer.task is not None for answer in zoo.recognise(NOISE, sure=0.0))


def test_what_is_found_of_an_input_does_not_depend_on_those_beside_it(zoo):
    x = torch.cat([task.test.x for task in TASKS[:3]])
    alone, strange = zoo.recognise(x), zoo.recognise(NOISE)
    assert {answer.task for answer in alone} >= {task.name for task in TASKS[:3]}
    assert any(answer.task is None for answer in strange)
    order = torch.randperm(len(x) + len(NOISE), generator=torch.Generator().manual_seed(0))
    mixed = zoo.recognise(torch.cat([x, NOISE])[order])
    for place, answer in zip(order.tolist(), mixed, strict=True):
        expected = [*alone, *strange][place]
        assert (answer.task, answer.label) == (expected.task, expected.label)
        assert answer.probability == pytest.approx(expected.probability, abs=1e-5)


def test_a_task_that_was_learned_or_forgotten_meanwhile_counts_at_once(zoo):
    others = {id(held) for held in gc.get_objects() if type(held) is WhichTask}  # of servers in earlier tests
    zoo.recognise(TASKS[0].test.x)
    other = zoolearn.open(zoo.path)
    other.learn(TASKS[3])
    zoo.refresh()
    assert sum(answer.task == TASKS[3].name for answer in zoo.recognise(TASKS[3].test.x)) > 5
    other.forget(TASKS[0].name)
    zoo.refresh()
    gc.collect()
    held = [held for held in gc.get_objects() if type(held) is WhichTask and id(held) not in others]
    assert not held, "nothing forgotten stays in memory"
    assert all(TASKS[0].name not in answer.chances for answer in zoo.recognise(TASKS[0].test.x))


def test_a_zoo_that_cannot_recognise_says_why(tmp_path):
    empty = zoolearn.new(tmp_path / "empty")
    with pytest.raises(DataError, match="knows no task yet"):
        empty.recognise(NOISE)
    bare = small_zoo(tmp_path / "bare", TASKS[:2], replay=0.0)
    with pytest.raises(DataError, match="no rows of task 'stripes' are stored"):
        bare.recognise(NOISE)
    with pytest.raises(SettingsError, match=r"sure is 1\.5"):
        bare.recognise(NOISE, sure=1.5)


def test_a_zoo_that_can_hardly_tell_its_tasks_from_others_refuses_to_guess(tmp_path):
    """Tasks of pictures that nothing tells apart: any picture is as good as any other."""
    alike = [pictures(name, contrast=0) for name in ("sand", "dust", "snow")]
    zoo = small_zoo(tmp_path / "zoo", alike, recipe=LEARNING)
    with pytest.raises(DataError, match=r"cannot tell its tasks apart well enough: it names the right task of \d+%"):
        zoo.recognise(alike[0].test.x)
    assert all(answer.task for answer in zoo.recognise(alike[0].test.x, sure=0.0)), "unless it is asked to guess"


def test_the_command_prints_text_csv_or_json(zoo, tmp_path, capsys):
    np.save(tmp_path / "rows.npy", torch.cat([TASKS[0].test.x[:3], NOISE[:2]])[:, 0].numpy())
    expected = zoo.recognise(torch.cat([TASKS[0].test.x[:3], NOISE[:2]]))

    def said(*words):
        cli.main(["recognise", "zoo", "rows.npy", *words])
        return capsys.readouterr().out

    text = said().splitlines()
    records = [json.loads(line) for line in said("--json").splitlines()]
    table = list(csv.DictReader(io.StringIO(said("--csv"))))
    for line, record, row, answer in zip(text, records, table, expected, strict=True):
        assert ("not sure" in line) == (answer.task is None)
        assert (record["task"], record["class"]) == (answer.task, answer.label)
        assert (row["task"] or None, row["class"] or None) == (answer.task, answer.label)
        assert record["chances"] == pytest.approx(answer.chances)
    assert "not sure" not in said("--sure", "0")
    assert "not sure" in said("--sure", "1")
