"""Model Zoo as a scikit-learn estimator, for arrays of features, or of pictures through a pre-trained net."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import (
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    compute_sample_weight,
)
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zoolearn.beyond.familiarity import Familiarity
from zoolearn.beyond.temperature import apply_temperature, fit_temperature
from zoolearn.data.task import Examples, Task
from zoolearn.errors import UnknownTask, unknown_name
from zoolearn.methods.model_zoo import GROW
from zoolearn.nets.backbones import BACKBONES
from zoolearn.seeds import derive
from zoolearn.training.predict import combine
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.answers.none_of_these import check_sure, fit_familiarity, why_none
from zoolearn.zoo.intake.extracting import Features, Given
from zoolearn.zoo.row_weights import WeightedRows, WeightedZoo, float32_rows

FIRST = "default"  # the task if none is named


class ModelZooClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A zoo of small nets for arrays of features: `fit` for one task, `partial_fit` with a name for one task after another.

    Each call of `partial_fit` is an episode: a new member, trained on the given rows and on up to
    `tasks_per_episode` - 1 earlier calls, so that its cost does not grow with their number. A known name means more
    rows of that task; the members of all its episodes vote. Rows of a single class are joined with earlier ones of
    their task, or wait for a second class; new labels are new classes, and their rows are joined with earlier ones
    of all others. `task_classes_` are sorted, so a new class moves columns. With several tasks, every prediction
    names its task; `classes_` are those of the task learned last.

    With `features`, X are uint8 pictures, (count, height, width, 3) or (count, 3, height, width), and the file (or
    function, with the `size` that it takes) gives their features. Then nothing is trained: the newest episode of a
    task has all its rows and answers alone, and settings of training have no effect.

    With `held_out`, this share of the rows of each call is not trained on but calibrates the task's probabilities,
    and `predict` with `sure` gives None (none of these) if the likeliest class has a lower probability, or if a row
    is unlike the training rows.

    The estimator and its pickle hold training rows (the share `replay`); `without_rows` gives a copy without them.

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
        held_out: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = 0,
        features: Features | None = None,
        size: int | None = None,
    ) -> None:
        self.backbone = backbone
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.dropout = dropout
        self.tasks_per_episode = tasks_per_episode
        self.replay = replay
        self.held_out = held_out
        self.class_weight = class_weight
        self.random_state = random_state
        self.features = features
        self.size = size

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's names)
        """Learns one task from scratch."""
        rows, labels = self._read_rows(X, y, reset=True)
        check_classification_targets(labels)
        classes = unique_labels(labels)
        if len(rows) < 2:
            raise ValueError(f"there is 1 sample (n_samples={len(rows)}); an episode needs at least 2")
        if len(classes) < 2:
            raise ValueError(
                f"the rows hold one class, {classes.tolist()[0]!r}; there is nothing to tell apart with fewer than 2 classes"
            )
        return self._start()._learn(rows, labels, classes, FIRST, sample_weight)

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        classes: Any = None,
        task: str = FIRST,
        sample_weight: Any = None,
    ) -> Self:
        """Learns one more episode, of a new task or of a known one, which may bring new classes.

        `classes` may name classes that come later; their columns exist from the first call on.
        """
        first = not hasattr(self, "learner_")
        rows, labels = self._read_rows(X, y, reset=first)
        check_classification_targets(labels)
        if first:
            self._start()
        elif self.replay and self.learner_.classes and not self.learner_.kept:
            raise ValueError(
                "this copy holds no rows, so it answers and cannot learn on; go on with the one it came of"
            )
        return self._learn(rows, labels, self._all_classes(labels, classes, task), task, sample_weight)

    def _read_rows(self, X: Any, y: Any = "no_validation", *, reset: bool) -> tuple[torch.Tensor, NDArray[Any]]:  # noqa: N803
        """Rows as they are stored, and labels if `y` is given."""
        if not isinstance(y, str):
            _check_labels(y)
        if self.features is None:
            taken = validate_data(self, X, y, reset=reset, dtype=np.float64)
            return (float32_rows(taken), np.empty(0)) if isinstance(y, str) else (float32_rows(taken[0]), taken[1])
        if reset:
            self.extractor_ = Given.of(self.features, self.size).kept
        x = check_array(X, dtype=None, allow_nd=True)
        if isinstance(y, str):
            return self.extractor_.rows(x), np.empty(0)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(x, labels)
        return self.extractor_.rows(x), labels

    def _start(self) -> Self:
        settings: dict[str, Any] = {
            "backbone": BACKBONES["identity"],
            "tasks_per_episode": 1,
            "grow": GROW["statistics"],
        }
        if self.features is None:
            if self.backbone not in BACKBONES:
                raise ValueError(unknown_name("backbone", self.backbone, BACKBONES))
            recipe = Recipe(epochs=self.epochs, batch_size=self.batch_size, lr=self.lr, dropout=self.dropout)
            settings = {"backbone": BACKBONES[self.backbone], "recipe": recipe, "replay": self.replay}
            settings["tasks_per_episode"] = self.tasks_per_episode
        self.learner_ = WeightedZoo(seed=_seed(self.random_state), **settings)
        self.task_classes_: dict[str, NDArray[Any]] = {}
        self.episodes_: dict[str, list[tuple[str, NDArray[Any]]]] = {}
        self.arrived_: dict[str, Counter[Any]] = {}  # training rows of each class of a task
        self.trained_: dict[str, Counter[Any]] = {}  # the rows of each class that an episode was trained on
        self.waiting_: dict[str, WeightedRows] = {}  # of tasks with one class so far
        self.judges_: dict[str, WeightedRows] = {}  # rows held out of each task
        self.temperatures_: dict[str, float] = {}  # fitted when first used
        self.familiar_: dict[str, Familiarity] = {}  # likewise
        return self

    def _all_classes(self, y: NDArray[Any], classes: Any, task: str) -> NDArray[Any]:
        """The sorted classes of a task with these rows."""
        known = self.task_classes_.get(task)
        named = y if classes is None else np.unique(classes)
        for what, labels in (("y", y), ("it", known)):
            if labels is None or classes is None:
                continue
            strangers = np.setdiff1d(labels, named)
            if len(strangers):
                raise ValueError(
                    f"task {task!r}: {what} has the classes {strangers.tolist()}, which `classes` does not name"
                )
        return np.asarray(unique_labels(named) if known is None else unique_labels(known, named))

    def _learn(self, x: torch.Tensor, y: NDArray[Any], classes: NDArray[Any], task: str, weight: Any) -> Self:
        new = self._hold_out(WeightedRows(x, y, self._weights(x, y, weight)), task)
        rows = self._join_earlier(new, task)
        self.arrived_.setdefault(task, Counter()).update(new.y.tolist())
        self.temperatures_, self.familiar_ = {}, {}
        self.task_classes_[task] = self.classes_ = classes
        self.task_ = task
        past = self.episodes_.setdefault(task, [])
        seen = np.unique(rows.y)
        if len(seen) < 2:
            self.waiting_[task] = rows
            return self
        name = f"{task} {self.learner_.episode + 1 if self.features is not None else len(past) + 1}"
        examples = Examples(rows.x, torch.from_numpy(np.searchsorted(seen, rows.y)))
        self.learner_.learn_weighted(Task(name, examples, examples, tuple(map(str, range(len(seen))))), rows.weights)
        if self.features is not None:
            self.learner_.drop([old for old, _ in past])
            past.clear()
        past.append((name, seen))
        self.trained_[name] = Counter(rows.y.tolist())
        self.waiting_.pop(task, None)
        return self

    def _hold_out(self, rows: WeightedRows, task: str) -> WeightedRows:
        """These rows without a held-out share of each class, which is kept for calibration."""
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; it is a share of the rows, from 0 to below 1")
        order = np.random.default_rng(derive(self.learner_.seed, "held out", task)).permutation(len(rows.y))
        held = np.zeros(len(rows.y), bool)
        for label in np.unique(rows.y):
            own = order[rows.y[order] == label]
            held[own[: min(round(self.held_out * len(own)), len(own) - 1)]] = True
        if held.any():
            judges = rows.select(held)
            self.judges_[task] = self.judges_[task] + judges if task in self.judges_ else judges
        return rows.select(~held)

    def _join_earlier(self, rows: WeightedRows, task: str) -> WeightedRows:
        """These rows with waiting ones, and with as many earlier ones of their task as they need.

        Rows of a single class need another class, new classes need rows of all others; features are fitted to
        all rows.
        """
        if task in self.waiting_:
            rows = self.waiting_[task] + rows
        past = self.episodes_.get(task, [])
        known = unique_labels(*(labels for _, labels in past)) if past else rows.y[:0]
        needed = known if len(np.setdiff1d(rows.y, known)) else known[:0]
        for name, labels in reversed(past):
            found = np.unique(rows.y)
            if len(found) > 1 and np.isin(needed, found).all() and self.features is None:
                break
            kept = self.learner_.kept.get(name)
            if kept is not None:
                weights = self.learner_.weights_of(kept) / (self.replay if len(needed) else 1.0)  # they stand for all
                rows = WeightedRows(kept.train.x, labels[kept.train.y.numpy()], weights) + rows
        missing = np.setdiff1d(needed, rows.y)
        if len(missing):
            raise ValueError(
                f"no rows of class {missing.tolist()[0]!r} of task {task!r} are kept (replay is {self.replay}), so that new classes cannot "
                "be told from it; keep some, or give rows of all classes"
            )
        return rows

    def _weights(self, x: torch.Tensor, y: NDArray[Any], given: Any) -> torch.Tensor:
        if self.features is not None and (given is not None or self.class_weight is not None):
            raise ValueError("rows of features all count alike; leave sample_weight and class_weight out")
        weights = _check_sample_weight(given, x.numpy(), dtype=np.float64, ensure_non_negative=True)
        weights = weights * compute_sample_weight(self.class_weight, y)
        if not weights.sum() > 0:
            raise ValueError("all weights are 0; there is nothing to learn from")
        return torch.from_numpy(weights.astype(np.float32))

    def predict_proba(self, X: Any, task: str | None = None) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class, columns as in `task_classes_`; `task` is required if there are several."""
        check_is_fitted(self, "task_")
        rows, _ = self._read_rows(X, reset=False)
        name = self._resolve_task(task)
        return np.asarray(apply_temperature(self._votes(rows, name), self._temperature(name)).numpy())

    def _temperature(self, name: str) -> float:
        if name not in self.temperatures_:
            judges = self.judges_.get(name)
            found = (
                None if judges is None else fit_temperature(self._votes(judges.x, name), self._labels(judges.y, name))
            )
            self.temperatures_[name] = found or 1.0
        return self.temperatures_[name]

    def _votes(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        """The combined probabilities of all episodes of a task, not calibrated."""
        total = torch.zeros(len(rows), len(self.task_classes_[name]), dtype=torch.float64)
        if not self.episodes_[name]:  # one class so far
            total[:, self._labels(self.waiting_[name].y[:1], name)] = 1.0
            return total
        outputs = [self.learner_.predict_proba(rows, episode).double() for episode, _ in self.episodes_[name]]
        known = [tuple(map(str, labels)) for _, labels in self.episodes_[name]]
        _, widest = max(self.episodes_[name], key=lambda episode: len(episode[1]))
        weights = [self._least_share(episode, name) for episode, _ in self.episodes_[name]]
        mean = combine(outputs, weights, known, tuple(map(str, widest)))
        total[:, self._labels(widest, name)] = mean / mean.sum(dim=1, keepdim=True)
        return total

    def _least_share(self, episode: str, name: str) -> float:
        """The share of a task's rows that an episode was trained on, of the class that it saw least of: there it knows least."""
        return min(rows / self.arrived_[name][label] for label, rows in self.trained_[episode].items())

    def _labels(self, y: NDArray[Any], name: str) -> torch.Tensor:
        """Labels as columns of the classes of a task."""
        return torch.from_numpy(np.searchsorted(self.task_classes_[name], y))

    def predict(self, X: Any, task: str | None = None, sure: float = 0.0) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row; `task` is required if there are several.

        With `sure` above 0, an object array with None where the probability is lower, or a row is unlike the
        training rows.
        """
        check_sure(sure)
        probabilities = self.predict_proba(X, task)
        name = self._resolve_task(task)
        named = np.asarray(self.task_classes_[name][probabilities.argmax(axis=1)])
        if not sure:
            return named
        rows, _ = self._read_rows(X, reset=False)
        reasons = why_none(torch.from_numpy(probabilities), sure, self._familiarity(name).strange(rows))
        return np.array([None if why else label for label, why in zip(named, reasons, strict=True)], dtype=object)

    def _familiarity(self, name: str) -> Familiarity:
        """Detects rows that are unlike the training rows of a task, by its newest member."""
        if name not in self.familiar_:
            judges, kept = self.judges_.get(name), self.learner_.kept
            if judges is None or not self.episodes_[name]:
                raise ValueError(
                    f"no rows of task {name!r} were held out to say how sure is sure; teach it with held_out=0.1, say"
                )
            own = {episode: self._labels(labels, name) for episode, labels in self.episodes_[name]}
            newest = [*own][-1]
            net = [member.net for member in self.learner_.members if newest in member.votes][-1]
            parts = [(kept[episode].train.x, places[kept[episode].train.y]) for episode, places in own.items() if episode in kept]  # fmt: skip
            known = Examples(*(torch.cat(part) for part in zip(*parts, strict=True))) if parts else None
            others = [task.train for episode, task in kept.items() if episode not in own]
            held_out = Examples(judges.x, self._labels(judges.y, name))
            self.familiar_[name] = fit_familiarity(net, newest, self.learner_.recipe, known, others, held_out)
        return self.familiar_[name]

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: str | None = None) -> float:  # noqa: N803
        """The accuracy on rows of a task; `task` is required if there are several."""
        return float(accuracy_score(y, self.predict(X, task), sample_weight=sample_weight))

    def without_rows(self) -> Self:
        """A copy that predicts the same but holds no rows, as does its pickle; it cannot learn further."""
        check_is_fitted(self, "task_")
        for name in self.judges_:
            _ = self._temperature(name), self.episodes_[name] and self._familiarity(name)
        bare = copy(self)
        bare.learner_, bare.waiting_, bare.judges_ = self.learner_.without_rows(), {}, {}
        return bare

    @property
    def tasks(self) -> Sequence[str]:
        check_is_fitted(self, "task_")
        return tuple(self.task_classes_)

    def _resolve_task(self, task: str | None) -> str:
        known = self.task_classes_
        if task is None and len(known) > 1:
            raise ValueError(f"{len(known)} tasks were learned ({', '.join(known)}); say which one is meant: task=...")
        if task is not None and task not in known:
            raise UnknownTask(unknown_name("task", task, known))
        return str(self.task_) if task is None else task


def _check_labels(y: Any) -> None:
    """Raises on labels of several kinds, and on missing ones: scikit-learn fails to sort them, without naming any."""
    labels = np.asarray(y)
    if labels.dtype != object or labels.ndim != 1:
        return
    first: dict[str, int] = {}  # the first row with a label of each kind
    for row, label in enumerate(labels.tolist()):
        kind = "names" if isinstance(label, str) else "numbers" if isinstance(label, Real) else "others"
        first.setdefault(kind, row)
    if len(first) > 1 or "others" in first:
        found = ", ".join(f"{labels[row]!r} in row {row}" for row in first.values())
        raise ValueError(f"labels are names or numbers, and all of one kind; y has {found}")


def _seed(random_state: Any) -> int:
    """A seed from scikit-learn's `random_state`: a number, a generator, or None for any."""
    if isinstance(random_state, Integral):
        return derive(0, repr(int(random_state)))
    return derive(0, int(check_random_state(random_state).randint(1 << 31)))
