"""What every learner promises: it is shown one task at a time and answers for every task it has met.

The fields that its constructor takes are its settings; the others are its knowledge. A method is a dataclass with
`_train` (a generator that trains), `answer`, `state` and `load_state` (what is saved, and how it comes back),
`stored_samples` and `num_parameters`; everything else is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

import torch
from msgspec import Meta
from torch import Tensor

from zoolearn.data.task import Array, Task
from zoolearn.errors import DataError, SettingsError, UnknownTask, unknown_name
from zoolearn.files import Json
from zoolearn.methods.settings import plain_settings, read_settings
from zoolearn.nets.backbones import BACKBONES, Backbone, Shape, small_conv
from zoolearn.nets.net import Net
from zoolearn.seeds import derive
from zoolearn.training.fit import Checkpoints, Progress, run_to_end
from zoolearn.training.recipe import Recipe, check_types

NotNegative = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True)
class Seconds:
    """How long an episode took, to train and to evaluate."""

    train: NotNegative = 0.0
    evaluate: NotNegative = 0.0


@dataclass(frozen=True)
class Episode:
    """What a learner did with a task: the tasks it trained on, how it had weighed the past ones, the final loss.

    `weights` is None where nothing was drawn, `loss` where nothing was trained. A run adds what the episode took: seconds,
    rows that nets in training were shown, and rows that nets were asked about while learning, tests aside.
    """

    tasks: tuple[str, ...]
    weights: Mapping[str, NotNegative] | None = None
    loss: float | None = None
    seconds: Seconds = Seconds()
    rows_trained: int | None = None
    rows_asked: int | None = None


@dataclass(frozen=True)
class StateFile:
    """One file's worth of knowledge: tensors and a JSON record."""

    tensors: Mapping[str, Tensor]
    info: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What must be kept after an episode to go on: a JSON record and named parts (folder/number)."""

    info: Mapping[str, Json]
    parts: Mapping[str, StateFile]


@dataclass(kw_only=True, eq=False)
class Learner(ABC):
    """A continual learner: `learn(task)`, then `predict_proba(x, task=name)`."""

    grows: ClassVar[bool] = False  # True: each episode's snapshot adds to the earlier ones; False: it replaces them
    standardizes: ClassVar[bool] = False  # True: its nets know each task's features by that task's own columns
    smooths_labels: ClassVar[bool] = False  # True: all its trainings minimise the usual loss, which can smooth labels

    backbone: Backbone = field(
        default=small_conv, metadata={"help": "network that turns inputs into features", "choices": BACKBONES}
    )
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = field(default=0, metadata={"help": "seed of everything random in the learner"})

    classes: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)  # of every task met, in order
    shape: Shape | None = field(init=False, default=None)
    dtype: torch.dtype | None = field(init=False, default=None)
    latest: Episode | None = field(init=False, default=None)
    episode: int = field(init=False, default=0)  # tasks met so far, counted: the number of the episode under way
    checkpoints: Checkpoints | None = field(init=False, default=None, repr=False)

    def __new__(cls, **settings: Any) -> Self:
        """Refuses values that are of another kind, before any method checks the rest of its settings."""
        check_types(cls, settings)
        recipe = settings.get("recipe")
        if isinstance(recipe, Recipe) and recipe.label_smoothing and not cls.smooths_labels:
            given = f"label_smoothing is {recipe.label_smoothing}"
            raise SettingsError(f"{given}, but the loss of {cls.__name__} does not smooth labels; leave it at 0")
        return super().__new__(cls)

    def learn(self, task: Task) -> None:
        """Learns one new task."""
        run_to_end(self.iter_learn(task))

    def iter_learn(self, task: Task) -> Generator[Progress, None, None]:
        """`learn`, step by step. The task counts as met only when this has run to its end."""
        self._refuse(task)
        self.latest = yield from self._train(task)
        self.classes[task.name] = task.classes
        self.shape, self.dtype = task.shape, task.train.x.dtype
        self.episode += 1

    def iter_finish(self) -> Generator[Progress, None, None]:
        """What is left to do once the last task of a benchmark has been met; most learners do nothing."""
        yield from ()

    def predict_proba(self, x: Array, task: str) -> Tensor:
        """Class probabilities of raw inputs for a task that was met, one row an input."""
        if task not in self.classes:
            raise UnknownTask(unknown_name("task", task, self.classes))
        return self.answer(self._inputs(x), task)

    def predict(self, x: Array, task: str) -> Tensor:
        """The index into `classes[task]` of the most probable class of each input; `Zoo.predict` gives names."""
        return self.predict_proba(x, task).argmax(dim=1)

    def evaluate(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Test accuracy of the tasks given, all of them met; those without an answer yet are left out."""
        return {task.name: accuracy(self.answer(task.test.x, task.name), task.test.y) for task in tasks}

    @abstractmethod
    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains on a new task; the method itself."""

    @abstractmethod
    def answer(self, x: Tensor, task: str) -> Tensor:
        """Class probabilities for a known task; inputs are checked."""

    @abstractmethod
    def state(self) -> State:
        """What the latest episode has added to (or made of) the method's own knowledge."""

    @abstractmethod
    def load_state(self, snapshots: Sequence[State], tasks: Sequence[Task], backbones: Mapping[str, Backbone]) -> None:
        """Takes up the method's own knowledge; `tasks` are those met, or none when nobody will ask to learn on."""

    def save(self) -> State:
        """What must be kept of the latest episode so that `restore` can take it up."""
        own = self.state()
        met = list(self.classes.items())
        info = {
            "episode": self.episode,
            "classes": dict(met[-1:] if self.grows else met),
            "shape": list(self.shape or ()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "own": own.info,
        }
        return State(info, own.parts)

    def restore(
        self,
        snapshots: Sequence[State],
        tasks: Sequence[Task] = (),
        backbones: Mapping[str, Backbone] | None = None,
    ) -> None:
        """Takes up what was saved: all episodes' snapshots if the learner grows, else the last one's."""
        for snapshot in snapshots:
            self.episode = snapshot.info["episode"]
            self.classes.update({name: tuple(classes) for name, classes in snapshot.info["classes"].items()})
            self.shape = tuple(snapshot.info["shape"])
            self.dtype = {"uint8": torch.uint8, "float32": torch.float32}[snapshot.info["dtype"]]
        own = [State(snapshot.info["own"], snapshot.parts) for snapshot in snapshots]
        self.load_state(own, tasks, backbones or {})

    @property
    @abstractmethod
    def stored_samples(self) -> int:
        """Training examples of past tasks that the learner keeps."""

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Trained numbers that the learner keeps."""

    def independent_trainings(self, episode: int) -> Sequence[int]:
        """The seeds of an episode's trainings that need its task and nothing else, so that others can do them ahead."""
        return ()

    def train_independently(self, task: Task, seed: int) -> Generator[Progress, None, object]:
        """One of the `independent_trainings`, which leaves its result in the checkpoints."""
        raise NotImplementedError(f"{type(self).__name__} has no training that needs its task alone")

    def episode_seed(self, *place: int | str) -> int:
        """The seed of the episode under way, for this purpose."""
        return derive(self.seed, "episode", self.episode, *place)

    @property
    def answers_at_once(self) -> bool:
        """Whether a task can be asked about as soon as it is learned, and not only when all are."""
        return True

    @property
    def next_backbone(self) -> Backbone:
        """What the next net is built of."""
        return self.backbone

    def new_net(self, tasks: Iterable[Task], seed: int) -> Net:
        """An untrained net with a head for each of these tasks."""
        tasks = list(tasks)
        net = Net(
            self.next_backbone,
            tasks[0].shape,
            dropout=self.recipe.dropout,
            pixel_mean=self.recipe.pixel_mean,
            pixel_std=self.recipe.pixel_std,
            flip_tta=self.recipe.flip_tta,
            standardize=self.standardizes and len(tasks[0].shape) == 1,
            seed=seed,
        )
        for task in tasks:
            net.add_head(task.name, len(task.classes), task.train.x)
        return net

    def settings(self) -> dict[str, Json]:
        """The learner's settings as plain data; functions by their names."""
        return plain_settings(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json], names: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """The learner that `settings` describes; `names` adds the caller's own functions to our tables."""
        return cls(**read_settings(cls, settings, names or {}))

    def _refuse(self, task: Task) -> None:
        if task.name in self.classes:
            raise DataError(f"task {task.name!r} was learned already; give the new one another name")
        if self.shape is not None and (task.shape != self.shape or task.train.x.dtype != self.dtype):
            raise DataError(
                f"task {task.name!r} has inputs {task.train!r}, this learner takes {self.shape} {self.dtype}; "
                "bring the inputs to that shape or start another learner"
            )

    def _inputs(self, x: Array) -> Tensor:
        inputs = x if isinstance(x, Tensor) else torch.as_tensor(x)
        if self.dtype == torch.float32 and inputs.ndim == 2:
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


def check_share(name: str, value: float) -> None:
    """Refuses a share of the data outside 0 to 1."""
    if not 0 <= value <= 1:
        raise SettingsError(f"{name} is {value}; it is a share, from 0 (nothing) to 1 (all)")
