"""Test rows that have a near-duplicate to train on: known for CIFAR-100, and left out of a second accuracy."""

from dataclasses import replace

import torch

from toys import benchmark, learner_of
from zoolearn.data.datasets import near_duplicates as published
from zoolearn.data.datasets.dataset import DataSet, near_duplicates
from zoolearn.data.task import Examples
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.learner import accuracy
from zoolearn.nets.net import passed
from zoolearn.runs.results import Results
from zoolearn.runs.run import accuracy_on_unique_rows, run

COPIES = (0, 3, 4)


def mislabelled(task):
    """The task with copies whose labels are wrong, so that a net is right about the others alone."""
    labels = task.test.y.clone()
    labels[list(COPIES)] = 1 - labels[list(COPIES)].clamp(max=1)
    return replace(task, test=Examples(task.test.x, labels))


TOYS = replace(benchmark(2), tasks=tuple(map(mislabelled, benchmark(2))))
COPIED = {task.name: COPIES for task in TOYS}


def test_the_published_list_is_whole():
    rows = published.CIFAR100
    assert len(rows) == len({*rows}) == 891
    assert list(rows) == sorted(rows)
    assert (rows[0], rows[-1], sum(rows)) == (17, 9979, 4601819)


def test_rows_of_the_test_set_are_found_in_the_tasks_that_they_belong_to():
    labels = torch.tensor([0, 1, 2, 1, 0, 2, 2])
    examples = Examples(torch.zeros(7, 1, 2, 2, dtype=torch.uint8), labels)
    dataset = DataSet(examples, examples, ("a", "b", "c"), near_duplicates=(1, 4, 6))
    assert near_duplicates(dataset, {"a-b": [0, 1], "c": [2]}) == {"a-b": (1, 3), "c": (2,)}
    assert near_duplicates(replace(dataset, near_duplicates=()), {"a-b": [0, 1]}) == {}


def test_a_run_tells_its_accuracy_without_them_also_when_it_is_read_again(tmp_path):
    learner = learner_of(FineTune)
    results = run(learner, replace(TOYS, near_duplicates=COPIED), tmp_path / "run")
    for place, task in enumerate(TOYS):
        kept = [row for row in range(len(task.test)) if row not in COPIES]
        said = learner.predict_proba(task.test.x, task.name)[kept]
        assert results.unique[task.name] == accuracy(said, task.test.y[kept]) != results.accuracy[-1][place]
    assert results.summary()["unique_accuracy"] == sum(results.unique.values()) / 2
    assert Results.load(tmp_path / "run").unique == results.unique
    again = run(learner_of(FineTune), replace(TOYS, near_duplicates=COPIED), tmp_path / "run")
    assert again.unique == results.unique


def test_nets_that_are_frozen_are_not_asked_again():
    zoo = learner_of(Isolated)
    run(zoo, TOYS)
    before = passed.rows.copy()
    assert accuracy_on_unique_rows(zoo, replace(TOYS, near_duplicates=COPIED)).keys() == COPIED.keys()
    assert passed.rows == before


def test_where_nobody_has_looked_and_where_training_rows_judge_nothing_is_told():
    assert run(learner_of(FineTune), TOYS).unique is None
    assert replace(TOYS, near_duplicates=COPIED).validation_split(20).near_duplicates == {}
