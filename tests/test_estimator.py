"""ModelZooClassifier keeps scikit-learn's promises, and learns one task after another."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import zoolearn
from zoolearn.errors import UnknownTask
from zoolearn.zoo.estimator import ModelZooClassifier


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn() -> None:
    check_estimator(ModelZooClassifier(epochs=12, batch_size=32, lr=0.05))


def test_columns_of_any_scale_are_learned_from() -> None:
    x, y = load_wine(return_X_y=True)
    assert cross_val_score(ModelZooClassifier(epochs=10), x * 1e4, y, cv=3).mean() > 0.93


def test_each_task_keeps_its_own_classes_and_answers() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=15)
    zoo.partial_fit(x[y != 2], np.array(["setosa", "versicolor"])[y[y != 2]], task="early")
    before = zoo.predict_proba(x, task="early")
    zoo.partial_fit(x[y != 0], y[y != 0], task="late")
    assert list(zoo.tasks) == ["early", "late"]
    assert set(zoo.predict(x, task="early")) == {"setosa", "versicolor"}
    assert set(zoo.predict(x)) == {1, 2}
    assert not np.array_equal(before, zoo.predict_proba(x, task="early")), "the second member speaks for it too"
    with pytest.raises(UnknownTask, match="did you mean 'late'"):
        zoo.predict(x, task="lat")


def test_more_rows_of_a_task_add_to_its_answers() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=15).partial_fit(x[::2], y[::2])
    zoo.partial_fit(x[1::2], y[1::2])
    assert len(zoo.learner_.members) == 2
    assert zoo.score(x, y) > 0.93
    some = y != 1
    zoo.partial_fit(x[some], y[some])
    assert zoo.predict_proba(x).shape == (150, 3)
    assert zoo.score(x[some], y[some]) > 0.93, "the third member speaks for the two classes that it saw"
    with pytest.raises(ValueError, match="name all classes in the first call"):
        zoo.partial_fit(x, y + 7)


def test_rows_of_some_classes_teach_those_classes_and_no_others() -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    shown, labels = x[y != 0], names[y[y != 0]]
    zoo = ModelZooClassifier(epochs=15).partial_fit(shown, labels, classes=names[::-1])
    assert zoo.score(shown, labels) > 0.9
    said = dict(zip(zoo.classes_, zoo.predict_proba(shown).T, strict=True))
    assert said.keys() == set(names)
    assert not said["setosa"].any(), "nobody has shown one"
    for name in ("versicolor", "virginica"):
        assert said[name][labels == name].mean() > 0.8
        assert said[name][labels != name].mean() < 0.2


def test_the_votes_of_two_episodes_meet_in_the_columns_of_their_classes() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=5, tasks_per_episode=1)
    for shown in (y != 0, y != 1):
        zoo.partial_fit(x[shown], y[shown], classes=[0, 1, 2])
    rows = torch.from_numpy(x.astype(np.float32))
    first, second = (zoo.learner_.predict_proba(rows, f"default {episode}").double().numpy() for episode in (1, 2))
    total = np.stack([second[:, 0], first[:, 0], first[:, 1] + second[:, 1]], axis=1)
    assert np.allclose(zoo.predict_proba(x), total / 2, atol=1e-6)


def test_it_is_a_public_name() -> None:
    assert zoolearn.ModelZooClassifier is ModelZooClassifier
