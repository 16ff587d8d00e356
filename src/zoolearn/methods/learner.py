"""The base class of all methods: a learner is shown one task at a time and answers for every task that it has met.

Its constructor's arguments are its settings; every other field is declared as saved or derived (`state.py`). A method is a
dataclass with `_train` (a generator that trains), `voters`, `stored_samples` and `num_parameters`; everything else is here.
A method whose answers are not those of nets' heads overrides `answer`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from zoolearn.data.task import Array, Task, merge_classes
from zoolearn.errors import DataError, SettingsError, UnknownTask, unknown_name
from zoolearn.methods.state import Stateful, derived, saved
from zoolearn.nets.backbones import BACKBONES, Backbone, Shape, backbone_name, small_conv
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.settings import check_settings, setting
from zoolearn.training.fit import Adjust, Checkpointing, Listener, Loss, MakeOptimizer, Work, iter_fit, run_to_end
from zoolearn.training.predict import average, iter_probabilities, join
from zoolearn.training.recipe import Recipe


@dataclass(frozen=True)
class Episode:
    """What a learner did in an episode: the tasks it trained on, the weights of past tasks, the final loss.

    A run adds the costs: seconds, rows passed through nets in training and in evaluation mode (without tests).
    """

    tasks: tuple[str, ...]
    weights: Mapping[str, float] | None = None
    loss: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # to train, and to evaluate
    processor_seconds: float | None = None  # of both, over all threads and workers
    rows_trained: int | None = None
    rows_asked: int | None = None
    by_arrival: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # accuracies of tasks that grew


def recipe_field(**own: Any) -> Any:
    """The recipe field of a method whose defaults differ from the paper's: `own` replaces them."""
    return field(default_factory=lambda: Recipe(**own))


@dataclass(kw_only=True, eq=False)
class Learner(Stateful, ABC):
    """A continual learner: `learn(task)`, then `predict_proba(x, task=name)`."""

    standardizes: ClassVar[bool] = False  # True: nets standardise float features by the statistics of each task
    optimizers: ClassVar[Sequence[str]] = ("sgd",)  # that it supports; methods that change gradients may need SGD
    smooths_labels: ClassVar[bool] = False  # True: supports `Recipe.label_smoothing`
    tasks_grow: ClassVar[bool] = False  # True: a known task may bring more rows and classes

    backbone: Backbone = setting(small_conv, "network that turns inputs into features", choices=BACKBONES)
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = setting(0, "seed of everything random in the learner")

    classes: dict[str, tuple[str, ...]] = saved(default_factory=dict, repr=True)  # of every task met, in order
    shape: Shape | None = saved(default=None, repr=True)
    dtype: torch.dtype | None = saved(default=None, repr=True)
    latest: Episode | None = derived(default=None)  # what the last episode did
    checkpoints: Checkpointing | None = derived(default=None)
    listener: Listener | None = derived(default=None)

    def __new__(cls, **settings: Any) -> Self:
        """Checks the types of settings before any method checks the rest."""
        check_settings(cls, settings)
        recipe = settings.get("recipe")
        if isinstance(recipe, Recipe) and recipe.label_smoothing and not cls.smooths_labels:
            given = f"label_smoothing is {recipe.label_smoothing}"
            raise SettingsError(f"{given}, but the loss of {cls.__name__} does not smooth labels; leave it at 0")
        if isinstance(recipe, Recipe) and recipe.optimizer not in cls.optimizers:
            able = " or ".join(cls.optimizers)
            raise SettingsError(
                f"optimizer is {recipe.optimizer}, but {cls.__name__} is trained by {able}; leave it at that"
            )
        return super().__new__(cls)

    def learn(self, task: Task) -> None:
        """Learns a new task, or more rows and classes of a known one."""
        run_to_end(self.iter_learn(task))

    def iter_learn(self, task: Task) -> Work[None]:
        """`learn` as a generator of progress; if it is not run to its end, the learner stays as it was."""
        self._check_task(task)
        classes = merge_classes(self.classes.get(task.name, ()), task.classes)
        with self.begin_episode():
            self.latest = yield from self._train(task.relabel(classes))
        self.classes[task.name] = classes
        self.shape, self.dtype = task.shape, task.train.x.dtype
        self.episode += 1

    def iter_finish(self) -> Work[None]:
        """Called after the last task of a benchmark; most learners do nothing."""
        yield from ()

    def predict_proba(self, x: Array, task: str) -> Tensor:
        """Class probabilities (inputs, classes) of raw inputs for a known task."""
        if task not in self.classes:
            raise UnknownTask(unknown_name("task", task, self.classes))
        return self.answer(self._inputs(x), task)

    def predict(self, x: Array, task: str) -> Tensor:
        """The index into `classes[task]` of the most probable class of each input; `Zoo.predict` gives names."""
        return self.predict_proba(x, task).argmax(dim=1)

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of these known tasks, by name; tasks without an answer yet are left out."""
        return {task.name: accuracy(self.test_answers(task), task.test.y) for task in tasks}

    def test_answers(self, task: Task) -> Tensor:
        """Class probabilities of the test rows of a known task."""
        return self.answer(task.test.x, task.name)

    @abstractmethod
    def _train(self, task: Task) -> Work[Episode]:
        """Trains on a new task or, where `tasks_grow`, on a part of a known one, labelled by all its classes so far."""

    @abstractmethod
    def voters(self, task: str) -> Sequence[tuple[Net, float]]:
        """The nets that answer for a known task, and the weight of each one's vote."""

    def answer(self, x: Tensor, task: str) -> Tensor:
        """Class probabilities for a known task: sum_m vote_m p_m(y | x) / sum_m vote_m (equation 3); `x` was checked."""
        nets, weights = zip(*self.voters(task), strict=True)
        pieces = iter_probabilities(nets, x, task, self.recipe)
        return join([self.combine_votes(outputs, weights, task) for outputs in pieces])

    def combine_votes(self, outputs: Sequence[Tensor], weights: Sequence[float], task: str) -> Tensor:
        """The voters' outputs for a task as one."""
        return average(outputs, weights)

    def rebuild_net(self, spec: Mapping[str, Any], seed: int) -> Net:
        """An untrained net of a saved `Net.spec`, with the modules that this method adds."""
        net = Net.from_spec(spec, {backbone_name(self.backbone): self.backbone})
        net.seed = seed
        return net

    @property
    @abstractmethod
    def stored_samples(self) -> int:
        """Training examples of past tasks that the learner keeps."""

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Trained parameters that the learner keeps."""

    def episode_seed(self, *place: int | str) -> int:
        """A seed derived from the current episode and a purpose."""
        return derive(self.seed, "episode", self.episode, *place)

    def fit(
        self,
        net: Net,
        tasks: Sequence[Task],
        seed: int | None = None,
        *,
        recipe: Recipe | None = None,
        loss: Loss | None = None,
        adjust: Adjust | None = None,
        optimizer: MakeOptimizer | None = None,
        balanced: bool = False,
        heads: Sequence[str] | None = None,
    ) -> Work[float]:
        """`iter_fit` with the episode's seed, and the learner's recipe and checkpoints."""
        return iter_fit(
            net,
            tasks,
            recipe or self.recipe,
            seed=self.episode_seed() if seed is None else seed,
            loss=loss,
            adjust=adjust,
            optimizer=optimizer,
            balanced=balanced,
            heads=heads,
            checkpoints=self.checkpoints,
            listener=self.listener,
        )

    @property
    def answers_at_once(self) -> bool:
        """Whether a task can be predicted as soon as it is learned, and not only after the last one."""
        return True

    def new_net(self, tasks: Iterable[Task], seed: int, backbone: Backbone | None = None) -> Net:
        """An untrained net with a head for each of these tasks, of the learner's backbone or another."""
        tasks = list(tasks)
        self._check_pixels(tasks[0])
        net = Net(
            backbone or self.backbone,
            tasks[0].shape,
            dropout=self.recipe.dropout,
            pixel_mean=self.recipe.pixel_mean,
            pixel_std=self.recipe.pixel_std,
            flip_tta=self.recipe.flip_tta,
            standardize=self.standardizes and len(tasks[0].shape) == 1 and tasks[0].train.x.is_floating_point(),
            seed=seed,
        )
        for task in tasks:
            net.add_head(task.name, len(task.classes), task.train.x)
        return net

    def check_growth(self, task: str) -> None:
        """Raises if a known task is learned again and the method cannot grow tasks."""
        if not self.tasks_grow:
            raise DataError(
                f"task {task!r} was learned already, and {type(self).__name__} cannot learn more of a task; give the new one "
                "another name, or use a method whose tasks grow, such as model-zoo"
            )

    def _check_pixels(self, task: Task) -> None:
        given, usual = ((recipe.pixel_mean, recipe.pixel_std) for recipe in (self.recipe, Recipe()))
        if task.train.x.is_floating_point() and len(task.shape) == 3 and given not in (usual, (0.0, 1.0)):
            raise SettingsError(
                f"pixel_mean is {given[0]} and pixel_std {given[1]}, but task {task.name!r} has float images, which are "
                "taken as they are; scale them where they are made, and leave these out"
            )

    def _check_task(self, task: Task) -> None:
        if task.name in self.classes:
            self.check_growth(task.name)
        elif task.part:
            replace(task, part=False)  # with nothing before it, it must be whole
        if self.shape is not None and (task.shape != self.shape or task.train.x.dtype != self.dtype):
            raise DataError(
                f"task {task.name!r} has inputs {task.train!r}, this learner takes {self.shape} {self.dtype}; "
                "bring the inputs to that shape or start another learner"
            )

    def _inputs(self, x: Array) -> Tensor:
        inputs = x if isinstance(x, Tensor) else torch.as_tensor(x)
        if self.dtype == torch.float32 and (inputs.ndim == 2 or inputs.is_floating_point()):
            inputs = inputs.to(torch.float32)
        if inputs.shape[1:] != self.shape or inputs.dtype != self.dtype:
            raise DataError(
                f"inputs have shape {tuple(inputs.shape)} and dtype {inputs.dtype}; this learner takes "
                f"(count, {', '.join(map(str, self.shape or ()))}) {self.dtype}"
            )
        if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
            raise DataError("inputs hold NaN or infinite values; clean them first")
        return inputs


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """The fraction of rows whose most probable class is the label.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([0, 0]))
    0.5
    """
    return int((probabilities.argmax(dim=1) == labels).sum()) / len(labels)
