"""Model Zoo as a scikit-learn estimator, for arrays of features."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from zoolearn.data.task import Examples, Task
from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.backbones import BACKBONES
from zoolearn.seeds import derive
from zoolearn.training.recipe import Recipe

FIRST = "default"  # the task of callers who have one only


class ModelZooClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A zoo of small nets over columns of features: `fit` for one task, `partial_fit` with a name for one task after another.

    Each call of `partial_fit` is an episode: a new member, trained on the rows given and on up to `tasks_per_episode` - 1
    earlier calls. A name that was met before means more rows of that task: the members of all its episodes vote.
    `classes_` and `predict` are those of the task that was learned last, unless another is named.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> ModelZooClassifier(epochs=20).fit(x, y).score(x, y) > 0.9
    True
    """

    def __init__(
        self,
        *,
        backbone: str = "tabular",
        epochs: int = 30,
        batch_size: int = 16,
        lr: float = 0.01,
        dropout: float = 0.0,
        tasks_per_episode: int = 5,
        replay: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.backbone = backbone
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.dropout = dropout
        self.tasks_per_episode = tasks_per_episode
        self.replay = replay
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's names)
        """Learns one task from scratch."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        return self._start()._learn(rows, labels, unique_labels(labels), FIRST)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, task: str = FIRST) -> Self:  # noqa: N803
        """Learns one more episode, of a new task or of one met before; `classes` names all classes it will ever have."""
        first = not hasattr(self, "learner_")
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        if first:
            self._start()
        return self._learn(rows, labels, self._all_classes(labels, classes, task), task)

    def _start(self) -> Self:
        if self.backbone not in BACKBONES:
            raise ValueError(unknown_name("backbone", self.backbone, BACKBONES))
        recipe = Recipe(epochs=self.epochs, batch_size=self.batch_size, lr=self.lr, dropout=self.dropout)
        self.learner_ = ModelZoo(
            backbone=BACKBONES[self.backbone],
            recipe=recipe,
            seed=derive(0, repr(self.random_state)),
            tasks_per_episode=self.tasks_per_episode,
            replay=self.replay,
        )
        self.task_classes_: dict[str, NDArray[Any]] = {}
        self.episodes_: dict[str, list[tuple[str, NDArray[Any]]]] = {}
        return self

    def _all_classes(self, y: NDArray[Any], classes: Any, task: str) -> NDArray[Any]:
        known = self.task_classes_.get(task)
        given: NDArray[Any] = (
            np.unique(classes) if classes is not None else unique_labels(y) if known is None else known
        )
        strangers = np.setdiff1d(y, given)
        if len(strangers) or (known is not None and not np.array_equal(known, given)):
            raise ValueError(
                f"task {task!r} has the classes {list(given if known is None else known)}, y holds {list(np.unique(y))}; "
                "name all classes in the first call"
            )
        return np.asarray(given)

    def _learn(self, x: NDArray[Any], y: NDArray[Any], classes: NDArray[Any], task: str) -> Self:
        seen = np.unique(y)
        if len(x) < 2:
            raise ValueError(f"there is 1 sample (n_samples={len(x)}); an episode needs at least 2")
        if len(seen) < 2:
            raise ValueError(
                f"the rows hold one class, {seen[0]!r}; there is nothing to tell apart with fewer than 2 classes"
            )
        rows = Examples(_float32(x), torch.from_numpy(np.searchsorted(seen, y)))
        past = self.episodes_.setdefault(task, [])
        name = f"{task} {len(past) + 1}"
        self.learner_.learn(Task(name, rows, rows, tuple(map(str, range(len(seen))))))
        past.append((name, np.searchsorted(classes, seen)))
        self.task_classes_[task] = classes
        self.classes_ = classes
        self.task_ = task
        return self

    def predict_proba(self, X: Any, task: str | None = None) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class of a task, by default the one learned last; columns as in its `task_classes_`."""
        check_is_fitted(self, "task_")
        rows = _float32(validate_data(self, X, dtype=np.float64, reset=False))
        name = self._named(task)
        total = np.zeros((len(rows), len(self.task_classes_[name])))
        for episode, places in self.episodes_[name]:
            total[:, places] += self.learner_.predict_proba(rows, episode).double().numpy()
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict(self, X: Any, task: str | None = None) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row, for a task, by default the one learned last."""
        probabilities = self.predict_proba(X, task)
        return np.asarray(self.task_classes_[self._named(task)][probabilities.argmax(axis=1)])

    @property
    def tasks(self) -> Sequence[str]:
        """The names of the tasks met."""
        check_is_fitted(self, "task_")
        return tuple(self.task_classes_)

    def _named(self, task: str | None) -> str:
        if task is None:
            return str(self.task_)
        if task not in self.task_classes_:
            raise UnknownTask(unknown_name("task", task, self.task_classes_))
        return task


def _float32(x: NDArray[Any]) -> torch.Tensor:
    """Rows as nets take them; what does not fit in 32 bits is brought to their limits."""
    largest = float(np.finfo(np.float32).max)
    return torch.from_numpy(np.clip(x, -largest, largest).astype(np.float32))
