"""What learners are shown: good data is taken as it is, bad data is refused by name."""

import numpy as np
import pytest
import torch

from toys import benchmark, blobs, pictures, row_set
from zoolearn.data.fingerprint import fingerprint
from zoolearn.data.stream import Benchmark, sample_per_class
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError


def images(count, *shape):
    return torch.zeros(count, *(shape or (1, 4, 4)), dtype=torch.uint8)


def examples(*labels):
    return Examples(images(len(labels)), torch.tensor(labels, dtype=torch.int64))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (images(2, 4, 4), torch.tensor([0, 1]), r"shape \(2, 4, 4\)"),
        (torch.zeros(2, dtype=torch.uint8), torch.tensor([0, 1]), r"shape \(2,\)"),
        (images(2).double(), torch.tensor([0, 1]), "float64; images are uint8, 0 to 255, or float32"),
        (images(2).float() / 0, torch.tensor([0, 1]), "row 0 of x holds nan"),
        (torch.zeros(2, 3, dtype=torch.float64), torch.tensor([0, 1]), "float64; features must be float32"),
        (images(2, 3, 0, 4), torch.tensor([0, 1]), "without values"),
        (images(2), torch.tensor([[0], [1]]), r"y has shape \(2, 1\)"),
        (images(2), torch.tensor([0, 1], dtype=torch.int32), "dtype int32"),
        (images(2), torch.tensor([0, 1, 0]), "2 inputs but 3 labels"),
        (images(2), torch.tensor([0, -1]), "label -1 is negative"),
        (torch.tensor([[0.0], [float("nan")]]), torch.tensor([0, 1]), "row 1 of x holds nan"),
        (torch.tensor([[float("-inf")], [1.0]]), torch.tensor([0, 1]), "row 0 of x holds -inf"),
    ],
)
def test_examples_that_cannot_be_used_are_refused_with_the_reason(x, y, message):
    with pytest.raises(DataError, match=message):
        Examples(x, y)


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (np.zeros((2, 5, 7), np.uint8), (1, 5, 7)),
        (np.zeros((2, 5, 7, 3), np.uint8), (3, 5, 7)),
        (np.zeros((2, 3, 5, 7), np.uint8), (3, 5, 7)),
        (np.zeros((2, 5, 7, 3), np.float64), (3, 5, 7)),
        (np.zeros((2, 9), np.float64), (9,)),
        (np.zeros((2, 9), np.int16), (9,)),
    ],
)
def test_arrays_are_taken_as_people_have_them(given, shape):
    assert Examples.of(given, [0, 1]).shape == shape


def test_colour_images_with_channels_last_keep_every_pixel_in_place():
    given = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), dtype=np.uint8)
    taken = Examples.of(given, np.array([1, 0], np.uint8))
    assert np.array_equal(taken.x.numpy(), given.transpose(0, 3, 1, 2))
    assert taken.y.tolist() == [1, 0]


@pytest.mark.parametrize("labels", [[0.0, 1.0], [True, False]])
def test_labels_that_are_no_whole_numbers_are_refused(labels):
    with pytest.raises(DataError, match="give whole numbers"):
        Examples.of(np.zeros((2, 3)), labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "  "}, "a task is named '  '"),
        ({"train": examples()}, "'shapes' has no train examples"),
        ({"test": examples()}, "'shapes' has no test examples"),
        ({"test": Examples(images(2, 1, 5, 5), torch.tensor([0, 1]))}, "one shape"),
        ({"train": blobs().train}, "one shape"),
        ({"train": examples(0, 1, 2)}, "'shapes' has label 2 but 2 classes"),
        ({"test": examples(0, 3)}, "'shapes' has label 3 but 2 classes"),
        ({"train": examples(0, 0), "test": examples(0), "classes": ()}, "'shapes' has one class, '0'"),
        ({"classes": ("disc", "disc")}, "'shapes' has two classes named 'disc'"),
        ({"classes": ("disc", "square", "star")}, "'shapes' has no training example of class 'star'"),
        ({"train": examples(0, 2), "classes": ()}, "no training example of class '1'"),
        ({"augment": ("rotate",)}, r"augmentation \['rotate'\]"),
        ({"train": blobs().train, "test": blobs().test, "augment": ("flip",)}, "features, not images"),
    ],
)
def test_a_task_that_cannot_be_learned_is_refused_with_the_reason(changes, message):
    good = {"name": "shapes", "train": examples(0, 1), "test": examples(0, 1), "classes": ("disc", "square")}
    with pytest.raises(DataError, match=message):
        Task(**{**good, **changes})


def test_classes_are_numbered_when_they_have_no_names():
    assert Task("shapes", examples(0, 1, 2), examples(0)).classes == ("0", "1", "2")


def test_a_benchmark_is_refused_without_tasks_with_two_of_a_name_or_with_two_shapes():
    with pytest.raises(DataError, match="'empty' has no tasks"):
        Benchmark("empty", ())
    with pytest.raises(DataError, match="two tasks named 'dots'"):
        Benchmark("twice", (pictures("dots"), pictures("rings"), pictures("dots", seed=1)))
    with pytest.raises(DataError, match=r"task 'rings' has .*3x8x8"):
        Benchmark("shapes", (pictures("dots"), pictures("rings", shape=(3, 8, 8))))


def test_a_slice_of_a_benchmark_is_a_benchmark_and_says_how_it_was_cut():
    whole = benchmark(4)
    first = whole[:2]
    assert [task.name for task in first] == ["stripes", "dots"]
    assert first.options == {"first_tasks": 2}
    assert [task.name for task in whole[1:4:2]] == ["dots", "waves"]
    assert whole[1:4:2].options == {"only": [1, 3]}
    assert whole[1:][1:].options == {"after_tasks": 2}
    assert whole[:3][:2].options == {"first_tasks": 2}
    assert whole[:3][1:].options == {"first_tasks": 3, "after_tasks": 1}
    assert whole[1:][:2].options == {"only": [1, 2]}
    assert whole[-1].name == whole[np.int64(3)].name == "waves"
    assert len(whole[:9]) == 4
    with pytest.raises(DataError, match="no tasks"):
        whole[4:]


def test_a_sample_holds_so_many_training_rows_of_each_class_and_all_test_rows():
    task = pictures(classes=3, per_class=9)
    sampled = sample_per_class(task, 4, seed=0)
    assert torch.bincount(sampled.train.y).tolist() == [4, 4, 4]
    assert row_set(sampled.train.x) < row_set(task.train.x)
    assert sampled.test is task.test
    labels = {row.numpy().tobytes(): int(label) for row, label in zip(task.train.x, task.train.y, strict=True)}
    assert all(
        labels[row.numpy().tobytes()] == int(label) for row, label in zip(sampled.train.x, sampled.train.y, strict=True)
    )


def test_the_seed_says_which_rows_are_sampled():
    task = pictures(per_class=20)
    assert torch.equal(sample_per_class(task, 5, 0).train.x, sample_per_class(task, 5, 0).train.x)
    assert not torch.equal(sample_per_class(task, 5, 0).train.x, sample_per_class(task, 5, 1).train.x)


def test_asking_for_more_rows_than_there_are_names_the_class():
    with pytest.raises(DataError, match=r"'stripes' has only 12 examples of class 'stripes 0', 13 per class"):
        sample_per_class(pictures(), 13, seed=0)
    with pytest.raises(DataError, match="0 samples per class"):
        sample_per_class(pictures(), 0, seed=0)


def test_a_sampled_benchmark_says_so():
    sampled = benchmark(2).per_class(3, seed=7)
    assert [len(task.train) for task in sampled] == [6, 9]
    assert sampled.options == {"samples_per_class": 3, "samples_seed": 7}


def test_shuffling_changes_the_order_and_nothing_else():
    whole = benchmark(6)
    shuffled = whole.shuffle(1)
    assert list(shuffled) != list(whole)
    assert {task.name for task in shuffled} == {task.name for task in whole}
    assert list(shuffled) == list(whole.shuffle(1))
    assert shuffled.options == {"task_order": 1}
    assert len({tuple(task.name for task in whole.shuffle(seed)) for seed in range(5)}) > 1


def test_keeping_a_share_keeps_that_share_of_every_class():
    y = torch.tensor([0] * 20 + [1] * 10 + [2] * 3)
    x = torch.arange(33 * 16).reshape(33, 1, 4, 4).to(torch.uint8)
    task = Task("uneven", Examples(x, y), examples(0, 1, 2))
    kept = task.subsample(0.3, seed=0)
    assert torch.bincount(kept.train.y).tolist() == [6, 3, 1]
    assert row_set(kept.train.x) < row_set(task.train.x)
    assert torch.bincount(task.subsample(0.0, seed=0).train.y).tolist() == [1, 1, 1]


def test_keeping_is_a_function_of_seed_and_task():
    task = pictures(per_class=40)
    assert torch.equal(task.subsample(0.25, 3).train.x, task.subsample(0.25, 3).train.x)
    assert not torch.equal(task.subsample(0.25, 3).train.x, task.subsample(0.25, 4).train.x)
    assert task.subsample(1.0, 3) is task
    twin = Task("another name", task.train, task.test)
    assert not torch.equal(task.subsample(0.25, 3).train.x, twin.subsample(0.25, 3).train.x)


def changed_pixel(task, split):
    x = getattr(task, split).x.clone()
    x[-1, 0, 3, 5] += 1
    return Task(task.name, **{**whole(task), split: Examples(x, getattr(task, split).y)})


def whole(task):
    return {"train": task.train, "test": task.test, "classes": task.classes, "augment": task.augment}


@pytest.mark.parametrize(
    "change",
    [
        lambda task: changed_pixel(task, "train"),
        lambda task: changed_pixel(task, "test"),
        lambda task: Task("renamed", **whole(task)),
        lambda task: Task(task.name, **{**whole(task), "classes": ("left", "right")}),
        lambda task: Task(task.name, **{**whole(task), "augment": ("flip",)}),
        lambda task: Task(task.name, **{**whole(task), "train": Examples(task.train.x, task.train.y.flip(0))}),
        lambda task: Task(task.name, **{**whole(task), "test": task.test.select(torch.arange(5))}),
    ],
    ids=["train pixel", "test pixel", "name", "classes", "augment", "labels", "rows"],
)
def test_the_fingerprint_changes_with_anything_that_a_result_depends_on(change):
    tasks = (pictures("stripes"), pictures("dots"))
    before = fingerprint(Benchmark("toys", tasks))
    assert fingerprint(Benchmark("toys", tuple(pictures(task.name) for task in tasks))) == before
    assert fingerprint(Benchmark("toys", (change(tasks[0]), tasks[1]))) != before
    assert fingerprint(Benchmark("toys", tasks[::-1])) != before


def test_arrays_are_told_from_tensors_and_names_may_come_in_a_list():
    with pytest.raises(DataError, match=r"x is a ndarray, not a tensor; Examples\.of"):
        Examples(np.zeros((4, 3), np.float32), torch.tensor([1, 0, 1, 0]))
    rows = Examples.of(np.zeros((4, 3), np.float32), [0, 1, 0, 1])
    assert Task("toy", rows, rows, ["a", "b"]).classes == ("a", "b")
