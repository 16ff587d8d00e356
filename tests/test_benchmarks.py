"""Every benchmark against hand-made files, and its shape with the real ones where they are at hand."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from published_files import (
    CIFAR10_NAMES,
    COARSE_NAMES,
    FINE_NAMES,
    MNIST_NAMES,
    REAL,
    mini_imagenet_classes,
    mini_imagenet_colour,
    with_real,
    write_cifar10,
    write_cifar100,
    write_mini_imagenet_folder,
    write_mnist,
)
from zoolearn.data import datasets
from zoolearn.data.benchmarks import (
    BENCHMARKS,
    benchmark,
    coarse_cifar100,
    permuted_mnist,
    rotate,
    rotated_cifar100,
    rotated_digits,
    rotated_mnist,
    split_cifar10,
    split_cifar100,
    split_digits,
    split_miniimagenet,
    split_mnist,
)
from zoolearn.data.fingerprint import fingerprint
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, MissingData, SettingsError


def random_images(count: int = 5, *shape: int) -> Examples:
    x = torch.randint(0, 256, (count, *(shape or (1, 28, 28))), generator=torch.Generator().manual_seed(0))
    return Examples(x.to(torch.uint8), torch.arange(count))


def images(examples: Examples) -> set[bytes]:
    return {image.numpy().tobytes() for image in examples.x}


def of_label(examples: Examples, label: int) -> Examples:
    return examples.select((examples.y == label).nonzero()[:, 0])


# Rotation


@pytest.mark.parametrize(("angle", "quarters"), [(90, 1), (180, 2), (270, 3), (-90, 3), (360, 0)])
@pytest.mark.parametrize("side", [7, 8])
def test_quarter_turns_are_exact_and_counter_clockwise(angle, quarters, side):
    examples = random_images(5, 3, side, side)
    assert torch.equal(rotate(examples, angle).x, torch.rot90(examples.x, quarters, (2, 3)))


def test_other_turns_agree_with_an_image_library():
    smooth = torch.linspace(0, 255, 28).round().to(torch.uint8).expand(1, 1, 28, 28).contiguous()
    smooth = torch.maximum(smooth, smooth.transpose(2, 3))
    turned = rotate(Examples(smooth, torch.zeros(1, dtype=torch.int64)), 30).x[0, 0]
    expected = np.array(Image.fromarray(smooth[0, 0].numpy()).rotate(30, Image.Resampling.BILINEAR), dtype=int)
    inner = slice(6, 22)  # at the edges the two blend with the black outside in different ways
    assert np.abs(turned.numpy().astype(int) - expected)[inner, inner].max() <= 1


def test_oblong_images_are_turned_without_shear():
    dot = torch.zeros(1, 1, 9, 21, dtype=torch.uint8)
    dot[0, 0, 4, 13] = 200  # three to the right of the centre
    turned = rotate(Examples(dot, torch.tensor([0])), 90).x[0, 0]
    assert turned[1, 10] == 200  # three above it


def test_rotation_by_blocks_equals_rotation_at_once():
    many = random_images(1100)
    turned = rotate(many, 25)
    assert turned.x.is_contiguous()
    for rows in (slice(0, 3), slice(510, 514), slice(1097, 1100)):
        assert torch.equal(rotate(Examples(many.x[rows], many.y[rows]), 25).x, turned.x[rows])


def test_no_turn_copies_nothing():
    examples = random_images()
    assert rotate(examples, 0) is examples


# MNIST


def test_rotated_mnist_turns_all_of_mnist(tmp_path):
    write_mnist(tmp_path)
    mnist, tasks = datasets.mnist(tmp_path), rotated_mnist(tmp_path)
    assert [task.name for task in tasks] == [f"rotated-{angle}" for angle in (0, 10, 20, 30, 40)]
    assert torch.equal(tasks[0].train.x, mnist.train.x)
    assert torch.equal(tasks[3].test.x, rotate(mnist.test, 30).x)
    assert all(torch.equal(task.train.y, mnist.train.y) for task in tasks)
    assert tasks[4].classes == tuple("0123456789")
    assert tasks[4].augment == ("crop",)
    assert [task.name for task in rotated_mnist(tmp_path, angles=(0, 2.5))] == ["rotated-0", "rotated-2.5"]


def test_permuted_mnist_moves_pixels_the_same_way_in_training_and_test(tmp_path):
    written = write_mnist(tmp_path)
    tasks = permuted_mnist(tmp_path)
    assert len(tasks) == 5
    assert torch.equal(tasks[0].train.x[:, 0], torch.from_numpy(written[MNIST_NAMES[0]]))
    orders = [permutation(tasks[0].train.x, task.train.x) for task in tasks]
    assert orders[0] == list(range(784))
    assert len(set(map(tuple, orders))) == 5
    for task, order in zip(tasks, orders, strict=True):
        assert torch.equal(tasks[0].test.x.flatten(1)[:, order], task.test.x.flatten(1))
        assert task.augment == ()
        assert task.train.x.is_contiguous()


def permutation(before: torch.Tensor, after: torch.Tensor) -> list[int]:
    """Where each pixel came from, told by its values over all images."""
    columns = {bytes(column.tolist()): place for place, column in enumerate(before.flatten(1).T)}
    return [columns[bytes(column.tolist())] for column in after.flatten(1).T]


def test_permuted_mnist_is_the_same_each_time_and_another_with_another_seed(tmp_path):
    write_mnist(tmp_path)
    first, second, other = (
        permuted_mnist(tmp_path),
        permuted_mnist(tmp_path),
        permuted_mnist(tmp_path, permutation_seed=1),
    )
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first) != fingerprint(other)


def test_permuted_mnist_needs_a_task(tmp_path):
    with pytest.raises(SettingsError, match="permuted-mnist with 0 tasks; give at least 1"):
        permuted_mnist(tmp_path, tasks=0)


def test_split_mnist_takes_digits_in_pairs(tmp_path):
    written = write_mnist(tmp_path)
    tasks = split_mnist(tmp_path)
    assert [task.name for task in tasks] == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert tasks[2].classes == ("4", "5")
    assert tasks[2].train.y.tolist() == [0, 1] * 3
    rows = np.isin(written[MNIST_NAMES[1]], [4, 5])
    assert torch.equal(tasks[2].train.x[:, 0], torch.from_numpy(written[MNIST_NAMES[0]][rows]))


# CIFAR


@pytest.mark.parametrize("version", ["binary", "python"])
def test_split_cifar10_takes_classes_in_pairs(tmp_path, version):
    x, _ = write_cifar10(tmp_path, version=version)
    tasks = split_cifar10(tmp_path)
    assert [task.classes for task in tasks] == list(zip(CIFAR10_NAMES[::2], CIFAR10_NAMES[1::2], strict=True))
    assert torch.equal(tasks[1].train.x[:2].flatten(1), torch.from_numpy(x[2:4]))
    assert all(task.augment == ("crop", "flip") for task in tasks)


@pytest.mark.parametrize("version", ["binary", "python"])
def test_split_cifar100_takes_fine_labels_in_fives(tmp_path, version):
    x, fine = write_cifar100(tmp_path, version=version)["train"]
    tasks = split_cifar100(tmp_path)
    assert len(tasks) == 20
    assert tasks[7].name == "35-39"
    assert tasks[7].classes == tuple(FINE_NAMES[35:40])
    rows = np.flatnonzero((fine >= 35) & (fine < 40))
    assert torch.equal(tasks[7].train.x.flatten(1), torch.from_numpy(x[rows]))
    assert tasks[7].train.y.tolist() == (fine[rows] - 35).tolist()
    assert all(task.train.x.is_contiguous() for task in tasks)


@pytest.mark.parametrize("version", ["binary", "python"])
def test_coarse_cifar100_has_a_task_for_each_superclass(tmp_path, version):
    x, fine = write_cifar100(tmp_path, version=version)["train"]
    tasks = coarse_cifar100(tmp_path)
    assert [task.name for task in tasks] == COARSE_NAMES
    assert tasks[3].classes == tuple(FINE_NAMES[label] for label in (3, 23, 43, 63, 83))
    rows = np.flatnonzero(fine % 20 == 3)
    assert torch.equal(tasks[3].train.x.flatten(1), torch.from_numpy(x[rows]))
    assert tasks[3].train.y.tolist() == (fine[rows] // 20).tolist()


def test_rotated_cifar100_meets_the_split_tasks_again_at_other_angles(tmp_path):
    write_cifar100(tmp_path, version="binary")
    split, tasks = split_cifar100(tmp_path), rotated_cifar100(tmp_path)
    assert len(tasks) == 200
    assert [task.name for task in (tasks[0], tasks[19], tasks[20])] == [
        "0-4-rotated-0",
        "95-99-rotated-0",
        "0-4-rotated-36",
    ]
    assert torch.equal(tasks[3].train.x, split[3].train.x)
    assert torch.equal(tasks[43].train.x, rotate(split[3].train, 72).x)
    assert torch.equal(tasks[43].test.x, rotate(split[3].test, 72).x)
    assert tasks[43].classes == split[3].classes
    assert [task.name for task in rotated_cifar100(tmp_path, angles=(0, 2.5))[20:22]] == [
        "0-4-rotated-2.5",
        "5-9-rotated-2.5",
    ]


# mini-ImageNet


def test_split_miniimagenet_takes_classes_in_the_order_of_the_lists(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    tasks = split_miniimagenet(tmp_path)
    names = [name for names in mini_imagenet_classes().values() for name in names]
    assert [task.classes for task in tasks] == [tuple(names[:5]), tuple(names[5:])]
    reds = [mini_imagenet_colour(label, 0)[0] for label in range(5, 10)]
    assert tasks[1].train.x[:, 0, 0, 0].tolist() == [red for red in reds for _ in range(4)]
    assert tasks[1].train.y.tolist() == [label for label in range(5) for _ in range(4)]
    assert tasks[1].augment == ("crop", "flip")


def test_no_test_image_of_miniimagenet_is_ever_trained_on(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    first, again = split_miniimagenet(tmp_path), split_miniimagenet(tmp_path)
    trained = set().union(*(images(task.train) for task in (*first, *again)))
    tested = set().union(*(images(task.test) for task in (*first, *again)))
    assert len(trained) == 40
    assert len(tested) == 10
    assert not trained & tested


def test_tasks_of_miniimagenet_are_views_of_the_mapped_file(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    tasks = split_miniimagenet(tmp_path)
    storages = {part.x.untyped_storage().data_ptr() for task in tasks for part in (task.train, task.test)}
    assert len(storages) == 1
    assert all(task.train.x.is_contiguous() for task in tasks)


def test_classes_that_do_not_fill_the_tasks_are_refused(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / "mini-imagenet" / "test.csv").write_text("filename,label\n")
    with pytest.raises(DataError, match="split-miniimagenet: 8 classes cannot be split into tasks of 5"):
        split_miniimagenet(tmp_path)


# Digits


def test_rotated_digits_share_test_images_but_no_training_image():
    upright = rotated_digits(angles=(0, 360))
    first, second = images(upright[0].train), images(upright[1].train)
    assert len(first) == len(second) == 100
    assert not first & second
    tested = images(upright[0].test)
    assert tested == images(upright[1].test)
    assert not tested & (first | second)


def test_rotated_digits_are_the_same_each_time_with_as_many_of_each_class_as_asked():
    tasks = rotated_digits(digits_per_class=3)
    assert [task.name for task in tasks] == [f"rotated-{angle}" for angle in (0, 10, 20, 30, 40)]
    assert all(task.train.y.bincount().tolist() == [3] * 10 for task in tasks)
    assert all(task.augment == () for task in tasks)
    assert fingerprint(tasks) == fingerprint(rotated_digits(digits_per_class=3))


@pytest.mark.parametrize("count", [0, 25])
def test_rotated_digits_name_how_many_samples_there_are(count):
    with pytest.raises(DataError, match=rf"digits_per_class is {count} in each of 5 tasks, .* give 1 to 24"):
        rotated_digits(digits_per_class=count)


def test_split_digits_takes_digits_in_pairs():
    tasks = split_digits()
    assert [task.name for task in tasks] == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert tasks[4].classes == ("8", "9")
    assert tasks[4].shape == (1, 8, 8)


def test_an_order_of_ones_own_decides_which_classes_meet_and_their_labels():
    reverse = split_digits(class_order=list("9876543210"))
    assert [task.classes for task in reverse] == [("9", "8"), ("7", "6"), ("5", "4"), ("3", "2"), ("1", "0")]
    usual, turned = split_digits()[4], reverse[0]
    assert torch.equal(turned.train.x, usual.train.x)
    assert torch.equal(turned.train.y, 1 - usual.train.y), "labels follow the order that was given"
    assert reverse.options == {"class_order": list("9876543210")}
    turned_on = split_digits(class_order=list("1234567890"))[0]
    assert turned_on.classes == ("1", "2")
    assert images(of_label(turned_on.test, 1)) == images(of_label(datasets.digits().test, 2))


def test_a_seed_orders_the_classes_and_tasks_may_be_larger():
    orders = [benchmark("split-digits", class_order=seed, classes_per_task=5) for seed in (1, 1, 2)]
    assert fingerprint(orders[0]) == fingerprint(orders[1]) != fingerprint(orders[2])
    assert [task.name for task in orders[0]] == ["0-4", "5-9"]
    assert sorted(orders[0][0].classes + orders[0][1].classes) == list("0123456789")
    assert orders[2].options == {"classes_per_task": 5, "class_order": 2}
    for task in orders[0]:
        for label, name in enumerate(task.classes):
            assert images(of_label(task.test, label)) == images(of_label(datasets.digits().test, int(name)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"class_order": list("012345678")},
            "class_order of split-digits leaves out '9'; name each of its 10 classes once",
        ),
        ({"class_order": list("0123456789x")}, "has the unknown class 'x'; name each of its 10 classes once"),
        ({"class_order": list("01234567899")}, "has '9' twice; name each of its 10 classes once"),
        ({"classes_per_task": 3}, "10 classes cannot be split into tasks of 3; classes_per_task can be 2, 5, 10"),
        ({"permutation_seed": 1}, "split-digits takes no permutation_seed; permuted-mnist can"),
        ({"colours": 3}, "split-digits takes no colours; no benchmark can"),
    ],
)
def test_an_order_that_cannot_be_is_named(options, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        benchmark("split-digits", **options)


def test_permutations_of_another_seed_are_another_stream_and_say_so(tmp_path):
    write_mnist(tmp_path)
    streams = [benchmark("permuted-mnist", tmp_path, permutation_seed=seed) for seed in (0, 3)]
    assert [stream.options for stream in streams] == [{"permutation_seed": seed} for seed in (0, 3)]
    assert torch.equal(streams[0][0].test.x, streams[1][0].test.x), "the first task is not permuted"
    assert not torch.equal(streams[0][1].test.x, streams[1][1].test.x)
    assert permuted_mnist(tmp_path, permutation_seed=3).options == {"permutation_seed": 3}


# By name


def test_every_benchmark_can_be_had_by_its_own_name(tmp_path):
    write_mnist(tmp_path)
    write_cifar10(tmp_path, version="binary")
    write_cifar100(tmp_path, version="binary")
    write_mini_imagenet_folder(tmp_path)
    for name in BENCHMARKS:
        made = benchmark(name, tmp_path)
        assert made.name == name
        assert all(len(task.classes) >= 2 and all(task.classes) for task in made)


def test_images_may_be_varied_as_the_paper_says_and_digits_are_never_mirrored(tmp_path):
    write_mnist(tmp_path)
    write_cifar10(tmp_path, version="binary")
    write_cifar100(tmp_path, version="binary")
    write_mini_imagenet_folder(tmp_path)
    allowed = {
        "rotated-mnist": ("crop",),
        "permuted-mnist": (),
        "split-mnist": ("crop",),
        "split-cifar10": ("crop", "flip"),
        "split-cifar100": ("crop", "flip"),
        "coarse-cifar100": ("crop", "flip"),
        "rotated-cifar100": ("crop", "flip"),
        "split-miniimagenet": ("crop", "flip"),
        "rotated-digits": (),
        "split-digits": (),
    }
    made = {name: {task.augment for task in benchmark(name, tmp_path)} for name in BENCHMARKS}
    assert made == {name: {kinds} for name, kinds in allowed.items()}


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(SettingsError, match=r"unknown benchmark 'split-cifar-100'; did you mean 'split-cifar100'\?"):
        benchmark("split-cifar-100")


def test_missing_data_is_named(tmp_path):
    with pytest.raises(MissingData, match="zoo data --download cifar-10`"):
        benchmark("split-cifar10", tmp_path)


def test_order_number_of_tasks_and_samples_combine():
    whole = benchmark("split-digits", task_order=3)
    part = benchmark("split-digits", task_order=3, first_tasks=2, samples_per_class=4, samples_seed=1)
    assert [task.name for task in part] == [task.name for task in whole][:2]
    assert sorted(task.name for task in whole) == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert part[0].train.y.bincount().tolist() == [4, 4]
    assert images(part[0].train) <= images(whole[0].train)
    assert torch.equal(part[0].test.x, whole[0].test.x)


def test_the_tasks_after_those_that_settings_were_chosen_on():
    whole = benchmark("split-digits", task_order=3)
    rest = benchmark("split-digits", task_order=3, after_tasks=2)
    assert [task.name for task in rest] == [task.name for task in whole][2:]
    assert rest.options == {"task_order": 3, "after_tasks": 2}


def test_a_stream_of_any_length(tmp_path):
    write_mnist(tmp_path)
    longer = benchmark("permuted-mnist", tmp_path, tasks=7, after_tasks=3)
    assert [task.name for task in longer] == ["permuted-3", "permuted-4", "permuted-5", "permuted-6"]
    assert longer.options == {"tasks": 7, "permutation_seed": 0, "after_tasks": 3}
    assert torch.equal(longer[0].test.x, benchmark("permuted-mnist", tmp_path)[3].test.x)


def test_seeds_choose_order_and_samples():
    orders = {tuple(task.name for task in benchmark("split-digits", task_order=seed)) for seed in range(5)}
    assert len(orders) > 1
    draws = [fingerprint(benchmark("split-digits", samples_per_class=4, samples_seed=seed)) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples_per_class": 0}, "samples_per_class is 0; give at least 1, or leave it out for all"),
        ({"first_tasks": -1}, "first_tasks is -1; give at least 1, or leave it out for all"),
        ({"first_tasks": 6}, "first_tasks is 6, but split-digits has 5 tasks; give at most 5"),
        ({"after_tasks": 5}, "after_tasks is 5, but split-digits has 5 tasks; give at most 4"),
        ({"first_tasks": 2, "after_tasks": 2}, "after_tasks is 2, but split-digits has 5 tasks; give at most 1"),
        (
            {"tasks": 7},
            "split-digits takes no tasks; permuted-mnist can",
        ),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(SettingsError, match=message):
        benchmark("split-digits", **settings)


def test_more_samples_than_there_are_is_an_error_with_the_count():
    with pytest.raises(DataError, match=r"has only .* examples of class"):
        benchmark("split-digits", samples_per_class=1000)


# The real files


@pytest.mark.parametrize(
    ("name", "tasks", "classes", "train", "test"),
    [
        pytest.param("rotated-mnist", 5, 10, 60_000, 10_000, marks=with_real("mnist")),
        pytest.param("permuted-mnist", 5, 10, 60_000, 10_000, marks=with_real("mnist")),
        pytest.param("split-mnist", 5, 2, 12_665, 2_115, marks=with_real("mnist")),
        pytest.param("split-cifar10", 5, 2, 10_000, 2_000, marks=with_real("cifar-10")),
        pytest.param("split-cifar100", 20, 5, 2_500, 500, marks=with_real("cifar-100")),
        pytest.param("coarse-cifar100", 20, 5, 2_500, 500, marks=with_real("cifar-100")),
    ],
)
def test_real_benchmarks_have_their_known_sizes(name, tasks, classes, train, test):
    made = benchmark(name, REAL)
    first = made[0]
    assert (len(made), len(first.classes), len(first.train), len(first.test)) == (tasks, classes, train, test)


@with_real("cifar-100")
def test_real_superclasses_come_in_their_order():
    made = benchmark("coarse-cifar100", REAL)
    assert [task.name for task in made[:3]] == ["aquatic_mammals", "fish", "flowers"]
    assert made[0].classes == ("beaver", "dolphin", "otter", "seal", "whale")


@with_real("mini-imagenet")
def test_real_miniimagenet_has_twenty_tasks_that_train_on_no_test_image():
    made = benchmark("split-miniimagenet", REAL)
    assert (len(made), len(made[0].classes)) == (20, 5)
    trained = set().union(*(images(task.train) for task in made))
    assert not any(image.numpy().tobytes() in trained for task in made for image in task.test.x)
