"""The benchmarks of the paper and two that need no download: one function each, by name in `BENCHMARKS`.

Augmentation follows the paper where it makes sense: pad-crop for MNIST, pad-crop and flip for colour images; none for
permuted pixels (they have no neighbours) and for the 8x8 digits (a shift by 4 moves half of the image out).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from math import cos, radians, sin
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from zoolearn.data import datasets
from zoolearn.data.arrivals import select_classes, split_into_arrivals
from zoolearn.data.datasets import DataSet
from zoolearn.data.datasets.dataset import near_duplicates
from zoolearn.data.fingerprint import fingerprint
from zoolearn.data.orders import Order, order_labels, reorder_tasks
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, SettingsError, unknown_name
from zoolearn.seeds import derive, generator

Data = Path | str | None
ANGLES = (0.0, 10.0, 20.0, 30.0, 40.0)  # of the tasks of rotated streams
TURNS = tuple(36.0 * turn for turn in range(10))  # of a long one


def rotated_mnist(data: Data = None, angles: Sequence[float] = ANGLES) -> Benchmark:
    """All of MNIST, turned counter-clockwise by another angle in each task (Lopez-Paz and Ranzato, 2017)."""
    tasks = tuple(_iter_rotated(datasets.mnist(data), angles, ("crop",)))
    return Benchmark("rotated-mnist", tasks, _unless_usual(angles=([*map(float, angles)], [*ANGLES])))


def permuted_mnist(data: Data = None, tasks: int = 5, permutation_seed: int = 0) -> Benchmark:
    """All of MNIST, with its pixels in another fixed random order in each task but the first (Kirkpatrick et al., 2017)."""
    if tasks < 1:
        raise SettingsError(f"permuted-mnist with {tasks} tasks; give at least 1")
    mnist = datasets.mnist(data)
    unpermuted = Task("permuted-0", mnist.train, mnist.test, mnist.classes)
    made = (unpermuted, *(_permute(mnist, k, permutation_seed) for k in range(1, tasks)))
    options = {**_unless_usual(tasks=(tasks, 5)), "permutation_seed": permutation_seed}
    return Benchmark("permuted-mnist", made, options)


def split_mnist(data: Data = None, classes_per_task: int = 2, class_order: Order = None) -> Benchmark:
    """Five tasks of two digits each: 0-1, 2-3, 4-5, 6-7, 8-9."""
    return _split("split-mnist", datasets.mnist(data), ("crop",), 2, classes_per_task, class_order)


def split_cifar10(data: Data = None, classes_per_task: int = 2, class_order: Order = None) -> Benchmark:
    """Five tasks of two consecutive classes each."""
    return _split("split-cifar10", datasets.cifar10(data), ("crop", "flip"), 2, classes_per_task, class_order)


def split_cifar100(data: Data = None, classes_per_task: int = 5, class_order: Order = None) -> Benchmark:
    """Twenty tasks of five consecutive classes each, in the order of the fine labels."""
    return _split("split-cifar100", datasets.cifar100(data), ("crop", "flip"), 5, classes_per_task, class_order)


def coarse_cifar100(data: Data = None) -> Benchmark:
    """Twenty tasks, one for each superclass of five classes, in the order of the coarse labels."""
    cifar = datasets.cifar100(data)
    tasks = _tasks(cifar, cifar.superclasses, ("crop", "flip"))
    return Benchmark("coarse-cifar100", tasks, near_duplicates=near_duplicates(cifar, cifar.superclasses))


def rotated_cifar100(data: Data = None, angles: Sequence[float] = TURNS) -> Benchmark:
    """The twenty tasks of Split-CIFAR100 again and again, at another angle each time: two hundred tasks."""
    split = split_cifar100(data)
    tasks = tuple(
        replace(task, name=_turned(task.name, angle), train=rotate(task.train, angle), test=rotate(task.test, angle))
        for angle in angles
        for task in split
    )
    twice_there = {_turned(name, angle): rows for angle in angles for name, rows in split.near_duplicates.items()}
    options = _unless_usual(angles=([*map(float, angles)], [*TURNS]))
    return Benchmark("rotated-cifar100", tasks, options, near_duplicates=twice_there)


def _turned(task: str, angle: float) -> str:
    return f"{task}-rotated-{angle:g}"


def split_miniimagenet(data: Data = None, classes_per_task: int = 5, class_order: Order = None) -> Benchmark:
    """Twenty tasks of five classes each, in the order of the train, val and test lists of Ravi and Larochelle (2017).

    Of each class the first 80 % of the images train and the rest test, always: no test image is ever trained on.
    """
    images = datasets.mini_imagenet(data)
    return _split("split-miniimagenet", images, ("crop", "flip"), 5, classes_per_task, class_order)


def rotated_digits(data: Data = None, angles: Sequence[float] = ANGLES, digits_per_class: int = 10) -> Benchmark:
    """Digits of scikit-learn at another angle in each task, from few images of each class.

    Tasks share the test images but no training image, so that what one task learned is news to another.
    """
    digits = datasets.digits()
    parts = _parts(digits.train, len(angles), digits_per_class)
    tasks = (
        Task(f"rotated-{angle:g}", rotate(part, angle), rotate(digits.test, angle), digits.classes)
        for part, angle in zip(parts, angles, strict=True)
    )
    options = _unless_usual(angles=([*map(float, angles)], [*ANGLES]), digits_per_class=(digits_per_class, 10))
    return Benchmark("rotated-digits", tuple(tasks), options)


def split_digits(data: Data = None, classes_per_task: int = 2, class_order: Order = None) -> Benchmark:
    """Five tasks of two digits each, from scikit-learn's digits."""
    return _split("split-digits", datasets.digits(), (), 2, classes_per_task, class_order)


BENCHMARKS: dict[str, Callable[..., Benchmark]] = {
    "rotated-mnist": rotated_mnist,
    "permuted-mnist": permuted_mnist,
    "split-mnist": split_mnist,
    "split-cifar10": split_cifar10,
    "split-cifar100": split_cifar100,
    "coarse-cifar100": coarse_cifar100,
    "rotated-cifar100": rotated_cifar100,
    "split-miniimagenet": split_miniimagenet,
    "rotated-digits": rotated_digits,
    "split-digits": split_digits,
}


def benchmark(
    name: str,
    data: Data = None,
    *,
    samples_per_class: int | None = None,
    samples_seed: int = 0,
    task_order: Order = None,
    first_tasks: int | None = None,
    after_tasks: int | None = None,
    only: Sequence[int] | None = None,
    arrivals: Sequence[int] | None = None,
    arrivals_seed: int = 0,
    **making: Any,
) -> Benchmark:
    """A benchmark by name; its tasks shuffled, cut to the first, the last or some, and their training data thinned, as asked.

    `after_tasks` leaves out the first tasks: those that settings were chosen on, where they are judged on the others.
    What the benchmark's own function takes makes another one of its kind: `tasks`, `permutation_seed`, `angles` and
    `digits_per_class` of streams, `classes_per_task` and `class_order` of splits.
    `only` are the places of tasks, from 0, in their order.
    With `arrivals` tasks come in parts of these numbers of classes, between one another: (3, 1, 1) of tasks of five classes.

    >>> benchmark("split-digits", samples_per_class=20, first_tasks=2).tasks
    (Task('0-1', 2 classes, train=40, test=109), Task('2-3', 2 classes, train=40, test=109))
    """
    return restrict(
        load_benchmark(name, data, **making),
        samples_per_class=samples_per_class,
        samples_seed=samples_seed,
        task_order=task_order,
        first_tasks=first_tasks,
        after_tasks=after_tasks,
        only=only,
        arrivals=arrivals,
        arrivals_seed=arrivals_seed,
    )


def reload_benchmark(
    header: Mapping[str, Any], data: Data, run: Path, make: Callable[..., Benchmark] | None = None
) -> Benchmark:
    """The benchmark that a run's header tells of, made again, by `make` if it is not ours; refused if the data differs."""
    options = dict(header["settings"].get("benchmark") or {})
    if "features" in options:
        raise DataError(f"{run} was made on pre-trained features; it has no pictures of its own to go on with")
    making = {name: options.pop(name) for name in [*options] if name not in CUTS}
    whole = make(data, **making) if make else load_benchmark(header["benchmark"], data, **making)
    tasks = restrict(whole, **options)
    if fingerprint(tasks) != header["data"]:
        raise DataError(f"the data of {tasks.name} is not what {run} was made with; give its data root (--data)")
    return tasks


def load_benchmark(name: str, data: Data = None, **making: Any) -> Benchmark:
    """A benchmark by name, with all of its tasks and their data; `making` is what its function takes, None as usual."""
    if name not in BENCHMARKS:
        raise SettingsError(unknown_name("benchmark", name, BENCHMARKS))
    given = {option: value for option, value in making.items() if value is not None}
    for option in given:
        able = [known for known, make in BENCHMARKS.items() if option in signature(make).parameters]
        if name not in able:
            raise SettingsError(f"{name} takes no {option}; {' and '.join(able) or 'no benchmark'} can")
    return BENCHMARKS[name](data, **given)


def restrict(
    whole: Benchmark,
    *,
    samples_per_class: int | None = None,
    samples_seed: int = 0,
    task_order: Order = None,
    first_tasks: int | None = None,
    after_tasks: int | None = None,
    only: Sequence[int] | None = None,
    validation: int | None = None,
    arrivals: Sequence[int] | None = None,
    arrivals_seed: int = 0,
) -> Benchmark:
    """A whole benchmark made smaller, as `benchmark` does; `validation` percent of what is left to train on judge instead of the test data."""
    counts = {"samples_per_class": samples_per_class, "first_tasks": first_tasks, "after_tasks": after_tasks}
    for setting, value in counts.items():
        if value is not None and value < 1:
            raise SettingsError(f"{setting} is {value}; give at least 1, or leave it out for all")
    chosen = reorder_tasks(whole, task_order)
    for setting, value, most in (
        ("first_tasks", first_tasks, len(chosen)),
        ("after_tasks", after_tasks, (first_tasks or len(chosen)) - 1),
    ):
        if value is not None and value > most:
            raise SettingsError(f"{setting} is {value}, but {whole.name} has {len(chosen)} tasks; give at most {most}")
    if first_tasks is not None:
        chosen = chosen[:first_tasks]
    if after_tasks is not None:
        chosen = chosen[after_tasks:]
    if only:
        if first_tasks is not None or after_tasks is not None:
            raise SettingsError(f"only is {list(only)} beside first_tasks or after_tasks; give the one or the others")
        chosen = _places(chosen, list(only))
    if samples_per_class is not None:
        chosen = chosen.per_class(samples_per_class, samples_seed)
    if validation is not None:
        chosen = chosen.validation_split(validation)
    return split_into_arrivals(chosen, arrivals, arrivals_seed) if arrivals else chosen


def _places(whole: Benchmark, only: list[int]) -> Benchmark:
    for place in only:
        if not 0 <= place < len(whole):
            raise SettingsError(
                f"only names task {place}, but {whole.name} has {len(whole)} tasks; give 0 to {len(whole) - 1}"
            )
    return replace(whole, tasks=tuple(whole[place] for place in only), options={**whole.options, "only": only})


CUTS = frozenset(signature(restrict).parameters) - {"whole"}


def record_options(
    *,
    samples_per_class: int | None = None,
    samples_seed: int = 0,
    only: Sequence[int] | None = None,
    angles: Sequence[float] | None = None,
    arrivals: Sequence[int] | None = None,
    arrivals_seed: int = 0,
    **others: Any,
) -> dict[str, Any]:
    """What a benchmark that was made with these options says of them.

    >>> record_options(samples_per_class=20, task_order=None) == benchmark("split-digits", samples_per_class=20).options
    True
    """
    if samples_per_class is not None:
        others |= {"samples_per_class": samples_per_class, "samples_seed": samples_seed}
    if only:
        others["only"] = list(only)
    if angles:
        others["angles"] = [*map(float, angles)]
    if arrivals:
        others |= {"arrivals": list(arrivals), "arrivals_seed": arrivals_seed}
    given = {name: value for name, value in others.items() if value is not None}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in given.items()}


def rotate(examples: Examples, angle: float) -> Examples:
    """The images turned counter-clockwise by `angle` degrees about their centre, bilinear, black where nothing was.

    >>> corner = Examples.of(torch.tensor([[[255, 0], [0, 0]]], dtype=torch.uint8), [0])
    >>> rotate(corner, 90).x.tolist()
    [[[[0, 0], [255, 0]]]]
    """
    if angle == 0:
        return examples
    turned = torch.empty_like(examples.x, memory_format=torch.contiguous_format)
    grid = _rotation_grid(angle, *examples.shape[1:])
    for source, target in zip(torch.split(examples.x, 512), torch.split(turned, 512), strict=True):
        # One grid serves all images if they pass as the channels of a single one.
        planes = source.flatten(0, 1)[None].to(torch.float32)
        made = grid_sample(planes, grid, align_corners=False).view_as(target)
        target.copy_(made if target.is_floating_point() else made.round_())
    return Examples(turned, examples.y)


def _rotation_grid(angle: float, height: int, width: int) -> Tensor:
    """Where each pixel comes from, in the unit coordinates of `grid_sample` (so that oblong images keep their shape)."""
    cosine, sine = cos(radians(angle)), sin(radians(angle))
    turn = torch.tensor([[cosine, -sine * height / width, 0], [sine * width / height, cosine, 0]])
    return affine_grid(turn[None], [1, 1, height, width], align_corners=False)


def _iter_rotated(dataset: DataSet, angles: Iterable[float], augment: tuple[str, ...]) -> Iterable[Task]:
    for angle in angles:
        train, test = rotate(dataset.train, angle), rotate(dataset.test, angle)
        yield Task(f"rotated-{angle:g}", train, test, dataset.classes, augment)


def _permute(dataset: DataSet, place: int, seed: int) -> Task:
    pixels = dataset.train.x[0].numel()
    order = torch.randperm(pixels, generator=generator(derive(seed, "pixels", place)))
    train, test = (_reorder(examples, order) for examples in (dataset.train, dataset.test))
    return Task(f"permuted-{place}", train, test, dataset.classes)


def _reorder(examples: Examples, order: Tensor) -> Examples:
    return Examples(examples.x.flatten(1)[:, order].view(examples.x.shape), examples.y)


def _unless_usual(**options: tuple[Any, Any]) -> dict[str, Any]:
    """What a benchmark says of how it was made: the options whose value is not the usual one."""
    return {name: value for name, (value, usual) in options.items() if value != usual}


def _split(
    name: str, dataset: DataSet, augment: tuple[str, ...], usual: int, size: int, class_order: Order
) -> Benchmark:
    """Tasks of `size` classes that follow one another in their order, each named by its first and last place there."""
    count = len(dataset.classes)
    if size < 2 or count % size:
        fitting = ", ".join(str(number) for number in range(2, count + 1) if count % number == 0)
        kind = DataError if size == usual else SettingsError
        raise kind(f"{name}: {count} classes cannot be split into tasks of {size}; classes_per_task can be {fitting}")
    labels = order_labels(name, dataset.classes, class_order)
    groups = {f"{first}-{first + size - 1}": labels[first : first + size] for first in range(0, count, size)}
    order = list(class_order) if isinstance(class_order, Sequence) else class_order
    options = _unless_usual(classes_per_task=(size, usual), class_order=(order, None))
    return Benchmark(name, _tasks(dataset, groups, augment), options, near_duplicates=near_duplicates(dataset, groups))


def _tasks(dataset: DataSet, groups: Mapping[str, Sequence[int]], augment: tuple[str, ...]) -> tuple[Task, ...]:
    tasks = []
    for name, labels in groups.items():
        train, test = select_classes(dataset.train, labels), select_classes(dataset.test, labels)
        tasks.append(Task(name, train, test, tuple(dataset.classes[label] for label in labels), augment))
    return tuple(tasks)


def _parts(examples: Examples, count: int, per_class: int) -> Iterable[Examples]:
    """Disjoint parts with `per_class` examples of each class, the same on every machine."""
    rows = [(examples.y == label).nonzero()[:, 0] for label in range(int(examples.y.max()) + 1)]
    fewest = min(map(len, rows))
    if not 1 <= per_class <= fewest // count:
        raise DataError(
            f"digits_per_class is {per_class} in each of {count} tasks, but the rarest digit has {fewest} training images; "
            f"give 1 to {fewest // count}"
        )
    draw = generator(derive(0, "parts"))
    shuffled = [of_class[torch.randperm(len(of_class), generator=draw)] for of_class in rows]
    for part in range(count):
        chosen = torch.cat([of_class[part * per_class : (part + 1) * per_class] for of_class in shuffled])
        yield examples.select(chosen.sort().values)
