"""ModelZooClassifier keeps scikit-learn's promises, and learns one task after another."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import zoolearn
from zoolearn.errors import UnknownTask
from zoolearn.zoo.estimator import ModelZooClassifier

pytestmark = pytest.mark.slow  # scikit-learn's own checks are run


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn() -> None:
    """But for one: a row of weight 2 is not two rows where rows are drawn in random batches."""
    drawn = {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows are drawn in batches" for kind in ("dense", "sparse")
    }
    check_estimator(ModelZooClassifier(epochs=12, batch_size=32, lr=0.05), expected_failed_checks=drawn)


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
    assert set(zoo.predict(x, task="late")) == {1, 2}
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
    with pytest.raises(ValueError, match=r"y has the classes \[.*7.*\], which `classes` does not name"):
        zoo.partial_fit(x, y + 7, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"it has the classes \[1\], which `classes` does not name"):
        zoo.partial_fit(x[some], y[some], classes=[0, 2])


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


def test_labels_never_seen_are_new_classes_and_who_knows_fewer_divides_what_others_leave() -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["iris", "versicolor", "virginica"])[y]
    zoo = ModelZooClassifier(epochs=15, tasks_per_episode=1).partial_fit(x[y > 0], names[y > 0])
    zoo.partial_fit(x[y == 0], names[y == 0])  # alone, and the first of the sorted names
    assert list(zoo.classes_) == ["iris", "versicolor", "virginica"]
    assert zoo.score(x, names) > 0.9
    rows = torch.from_numpy(x.astype(np.float32))
    first, second = (zoo.learner_.predict_proba(rows, f"default {episode}").double().numpy() for episode in (1, 2))
    older = np.column_stack([second[:, :1], first * second[:, 1:].sum(axis=1, keepdims=True)])
    assert np.allclose(zoo.predict_proba(x), (second + older) / 2, atol=1e-6)


def test_who_saw_one_row_of_a_class_does_not_vote_it_down_once_many_have_come() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=15, tasks_per_episode=1).partial_fit(x[y < 2], y[y < 2])
    rare, rest = np.where(y == 2)[0][:3], np.where(y == 2)[0][3:]
    for row in rare:
        zoo.partial_fit(x[[row]], y[[row]])
    zoo.partial_fit(x[rest], y[rest])
    assert zoo.score(x[rest], y[rest]) > 0.9, "three members know of three rows, one of fifty"


def test_new_classes_beside_a_part_of_the_older_rows_count_as_they_came() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=15, replay=0.2, tasks_per_episode=1).partial_fit(x[y < 2], y[y < 2])
    zoo.partial_fit(x[y == 2], y[y == 2])
    assert zoo.score(x[y < 2], y[y < 2]) > 0.9, "50 rows of a class stand beside 10 that are kept of each other"
    bare = ModelZooClassifier(epochs=1, replay=0.0).partial_fit(x[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="no rows of class 0 of task 'default' are kept"):
        bare.partial_fit(x[y == 2], y[y == 2])


@pytest.mark.parametrize(
    ("labels", "words"), [(["a", None], "None in row 1"), (["a", 3], "'a' in row 0, 3 in row 1"), ([None, None], "None in row 0")]
)  # fmt: skip
def test_labels_of_several_kinds_are_named_and_the_model_stays_as_it_was(labels, words) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    model = ModelZooClassifier(epochs=1).partial_fit(x, np.repeat(["a", "b"], 10))
    before = model.predict_proba(x)
    for learn in (model.partial_fit, ModelZooClassifier(epochs=1).fit):
        with pytest.raises(ValueError, match=words):
            learn(x, np.array(labels * 10, dtype=object))
    assert np.array_equal(model.predict_proba(x), before)


def test_one_class_waits_for_a_second() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=5).partial_fit(x[y == 1], y[y == 1])
    assert zoo.predict(x[:2]).tolist() == [1, 1]
    assert zoo.partial_fit(x[y == 0], y[y == 0]).score(x[y < 2], y[y < 2]) > 0.9


def test_with_several_tasks_a_question_names_its_own() -> None:
    """Without a name the last one would be meant, and an earlier one's rows scored by it."""
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=10)
    zoo.partial_fit(x[y != 2], y[y != 2], task="early").partial_fit(x[y != 0], y[y != 0], task="late")
    for ask in (zoo.predict, zoo.predict_proba, lambda rows: zoo.score(rows, y)):
        with pytest.raises(ValueError, match=r"2 tasks were learned \(early, late\); say which one is meant"):
            ask(x)
    assert zoo.score(x[y != 2], y[y != 2], task="early") > 0.95


def test_a_generator_gives_a_seed_and_its_place_in_memory_does_not() -> None:
    x, y = load_iris(return_X_y=True)
    said = [
        ModelZooClassifier(epochs=1, random_state=np.random.RandomState(0)).fit(x, y).predict_proba(x) for _ in (1, 2)
    ]
    assert np.array_equal(*said)
    assert not np.array_equal(said[0], ModelZooClassifier(epochs=1, random_state=1).fit(x, y).predict_proba(x))


def test_rows_of_more_weight_are_believed_where_rows_contradict_each_other() -> None:
    rng = np.random.default_rng(0)
    x = np.tile(rng.normal(size=(40, 3)), (2, 1))
    y = np.repeat([0, 1], 40)  # every row is in both classes
    for heavy in (0, 1):
        zoo = ModelZooClassifier(epochs=10).fit(x, y, sample_weight=np.where(y == heavy, 9.0, 1.0))
        assert zoo.predict_proba(x)[:, heavy].mean() == pytest.approx(0.9, abs=0.06)
    chosen = ModelZooClassifier(epochs=10, class_weight={0: 1.0, 1: 9.0}).fit(x, y)
    assert np.array_equal(chosen.predict_proba(x), zoo.predict_proba(x)), (
        "the weights of classes are weights of their rows"
    )
    assert zoo.score(x, y, sample_weight=y + 1e-9) == pytest.approx(1.0)


def test_weights_of_rows_are_kept_as_long_as_their_rows() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=1, replay=0.2).fit(x, y, sample_weight=x[:, 0])
    kept = zoo.learner_.kept["default 1"].train.x
    assert torch.equal(zoo.learner_.row_weights["default 1"], kept[:, 0])


def test_a_batch_of_one_class_is_learned_from() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=15)
    for label in (0, 1, 2):  # sorted, as files often are
        zoo.partial_fit(x[y == label], y[y == label], classes=[0, 1, 2])
        assert (zoo.predict(x[y == label]) == label).mean() > 0.9
    assert len(zoo.learner_.members) == 2, "the first batch had to wait for the second"
    assert zoo.score(x, y) > 0.6


def test_a_copy_without_rows_answers_the_same_and_neither_holds_nor_pickles_any() -> None:
    x, y = load_iris(return_X_y=True)
    zoo = ModelZooClassifier(epochs=2).fit(x, y)
    bare = zoo.without_rows()
    assert np.array_equal(bare.predict_proba(x), zoo.predict_proba(x))
    row = x[0].astype(np.float32).tobytes()
    assert row in pickle.dumps(zoo)
    assert row not in pickle.dumps(bare)
    with pytest.raises(ValueError, match="holds no rows, so it answers and cannot learn on"):
        bare.partial_fit(x, y)
    assert zoo.partial_fit(x, y).score(x, y) > 0.6, "the one it came of goes on"


def test_it_is_a_public_name() -> None:
    assert zoolearn.ModelZooClassifier is ModelZooClassifier


def blob_rows(seed, count=200, spread=1.6):
    """Three classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    return rng.normal(scale=spread, size=(count, 4)) + np.eye(3, 4)[y] * 3, y


def test_chances_hold_where_rows_are_held_out():
    x, y = blob_rows(0, 150, spread=2.5)
    fresh, labels = blob_rows(1, 900, spread=2.5)

    def overconfidence(model):
        said = model.predict_proba(fresh)
        return said.max(axis=1).mean() - (said.argmax(axis=1) == labels).mean()

    plain, judged = (
        ModelZooClassifier(backbone="mlp-100", epochs=40, lr=0.05, held_out=share).fit(x, y) for share in (0.0, 0.3)
    )
    assert overconfidence(plain) > 0.1
    assert abs(overconfidence(judged)) < 0.7 * overconfidence(plain)
    assert len(judged.learner_.kept["default 1"].train) == 105


def test_what_is_not_sure_or_strange_is_none_and_a_copy_without_rows_says_the_same():
    x, y = blob_rows(0)
    model = ModelZooClassifier(epochs=20, held_out=0.2)
    model.partial_fit(x, np.array(["a", "b", "c"])[y], task="one")
    model.partial_fit(x + 40, y, task="two")
    said = model.predict(x, task="one", sure=0.8)
    chances = model.predict_proba(x, task="one")
    assert {*said} == {"a", "b", "c", None}
    assert all(label is None for label, row in zip(said, chances, strict=True) if row.max() < 0.8)
    far = model.predict(x + 40, task="one", sure=1e-9)
    assert (far == None).mean() > 0.9  # noqa: E711 (of each)
    bare = model.without_rows()
    assert bare.predict(x, task="one", sure=0.8).tolist() == said.tolist()
    assert not bare.judges_
    with pytest.raises(ValueError, match="were held out to say how sure"):
        ModelZooClassifier(epochs=1).fit(x, y).predict(x, sure=0.5)
