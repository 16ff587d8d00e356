"""An accuracy is never shown without what it is worth: interval, majority rate, classes, confidence."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import zoolearn
from test_zoo_cli import said
from toys import TINY, blobs, contents, pictures
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, UnknownTask
from zoolearn.zoo.inputs.source import Numbers
from zoolearn.zoo.learning.scores import Change, Scores, Share
from zoolearn.zoo.summary import snapshot
from zoos import HAZY, TASKS, alike, answers, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown


@pytest.fixture
def hazy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return small_zoo(tmp_path / "zoo", HAZY[:2])


def test_an_interval_is_wide_for_few_rows_and_never_leaves_0_to_1():
    assert (round(Share(5, 5).low, 3), Share(5, 5).high) == (0.566, 1.0)  # Wilson's, as tables give it
    assert Share(0, 5).low == 0.0
    assert Share(500, 1000).high - Share(500, 1000).low < 0.07 < Share(5, 10).high - Share(5, 10).low
    assert (Share(0, 0).low, Share(0, 0).high) == (0.0, 1.0)


def test_the_interval_that_is_printed_holds_zero_just_where_no_difference_can_be_seen():
    for gained, lost, rows in ((0, 3, 6), (3, 0, 6), (0, 4, 20), (0, 5, 20), (5, 0, 20), (30, 10, 200)):
        change = Change(gained, lost, rows)
        low, high = map(float, re.findall(r"[+-][\d.]+", change.in_points())[1:])
        assert low <= change.value * 100 <= high
        assert (low < 0 < high) == (change.difference == "cannot be seen")
    many = Change(0, 5, 20)
    assert many.interval(looks=1)[1] < 0 < many.interval(looks=50)[1], "of many that are looked at, one is far off"


def test_a_change_of_one_row_out_of_two_is_within_its_interval():
    change = Change.between(torch.eye(2)[[0, 0]], torch.eye(2)[[0, 1]], torch.tensor([0, 1]))
    assert change == Change(gained=1, lost=0, rows=2)
    assert change.low < 0 < change.value == 0.5 < change.high
    assert Change(gained=60, lost=0, rows=1000).low > 0  # and sixty of a thousand are beyond it
    assert [Change(0, lost, 20).difference for lost in (4, 5)] == [
        "cannot be seen",
        "worse",
    ]  # by hand, as the guide says


def test_scores_are_those_of_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1, 1, 1], 50)
    labels = rng.choice(3, 50, p=[0.6, 0.3, 0.1])
    scores = Scores.of(torch.from_numpy(probabilities), torch.from_numpy(labels), ("a", "b", "c"))
    named = probabilities.argmax(axis=1)
    assert np.array_equal(scores.confusion, metrics.confusion_matrix(labels, named))
    assert scores.accuracy.value == pytest.approx(metrics.accuracy_score(labels, named))
    assert scores.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(labels, named))
    assert scores.log_loss == pytest.approx(metrics.log_loss(labels, probabilities))
    assert sum(part.accuracy.rows for part in scores.bins) == 50
    assert scores.majority.value == np.bincount(labels).max() / 50


def test_a_task_below_always_naming_one_class_is_told_as_such():
    answered = torch.tensor([[0.9, 0.1]] * 59 + [[0.2, 0.8]] * 5)
    scores = Scores.of(answered, torch.tensor([0] * 59 + [0] + [1] * 4), ("whole", "cracked"))
    assert scores.accuracy.value == 63 / 64 > scores.majority.value
    assert "not surely better than always answering 'whole'" in scores.notes()[0]
    worse = Scores.of(answered.flip(1), torch.tensor([0] * 60 + [1] * 4), ("whole", "cracked"))
    assert "no better than always answering 'whole', which would be right for 93.8%" in worse.notes()[0]


def test_overconfidence_and_probabilities_worse_than_guessing_are_told():
    sure = torch.tensor([[0.99, 0.01]] * 100)
    notes = Scores.of(sure, torch.tensor([0] * 55 + [1] * 45), ("a", "b")).notes()
    assert any(note.startswith("overconfident: on average 99% sure, but right for 55%") for note in notes)
    assert any("worse than guessing" in note for note in notes)
    fair = torch.tensor([[0.9, 0.1]] * 90 + [[0.1, 0.9]] * 90)
    assert Scores.of(fair, torch.tensor(([0] * 9 + [1]) * 9 + ([1] * 9 + [0]) * 9), ("a", "b")).notes() == []


def test_the_scores_of_a_task_are_those_of_its_answers_on_held_out_rows(hazy):
    for task in HAZY[:2]:
        scores = hazy.scores(task.name)
        answers = Scores.of(hazy.predict_proba(task.test.x, task.name), task.test.y, task.classes)
        assert (scores.classes, scores.confusion) == (answers.classes, answers.confusion)
        assert scores.accuracy.value == hazy.measure(task.name).accuracy
        assert hazy.accuracy(task.name) == scores.accuracy
        assert hazy.measure(task.name).balanced == pytest.approx(scores.balanced_accuracy)
        assert hazy.majority(task.name) == (scores.most_frequent, scores.majority.value)


def test_show_gives_every_accuracy_its_interval_and_the_majority_rate_on_one_scale(hazy, capsys):
    shown = said(capsys, "show", "zoo")
    for name in hazy.tasks:
        (line,) = (line.split() for line in shown.splitlines() if line.split()[:1] == [name] and "-" in line)
        accuracy = hazy.accuracy(name)
        assert f"{100 * accuracy.low:.0f}-{100 * accuracy.high:.0f}" in line
        assert f"{100 * hazy.majority(name)[1]:.1f}" in line
    assert "0-100 %" in shown
    detail = said(capsys, "show", "zoo", HAZY[0].name)
    for name in HAZY[0].classes:
        assert f"{hazy.scores(HAZY[0].name).of_class(name).value:.1%}" in detail
    assert "unknown task 'none'" in said(capsys, "show", "zoo", "none", code=1)


def uneven(name: str, seed: int) -> Task:
    """A task of which one class has a tenth of the rows of the other."""
    task = pictures(name, per_class=30, test_per_class=40, contrast=20, seed=seed)

    def cut(rows: Examples) -> Examples:
        return rows.select(torch.cat([(rows.y == 0).nonzero()[:, 0], (rows.y == 1).nonzero()[::10, 0]]))

    return Task(name, cut(task.train), cut(task.test), task.classes)


def test_balanced_accuracy_stands_beside_accuracy_wherever_a_task_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    zoo = small_zoo(tmp_path / "zoo", [uneven("first", 0), uneven("second", 1)])
    measure = zoo.measure("first")
    assert measure.balanced < measure.accuracy - 0.1, "the rare class is answered worse"
    (line,) = (
        line.split() for line in said(capsys, "show", "zoo").splitlines() if line[:6] == "first " and "." in line
    )
    assert f"{100 * measure.balanced:.1f}" in line
    assert f"the mean over classes, is {measure.balanced:.1%}" in " ".join(said(capsys, "show", "zoo", "first").split())
    told = snapshot(zoo)["/tasks"]["tasks"][0]
    assert (told["balanced_accuracy"], told["history"][-1]["balanced_accuracy"]) == (measure.balanced,) * 2
    third = uneven("third", 2)
    np.savez("third.npz", x=third.train.x.numpy(), y=third.train.y.numpy())
    learned = said(capsys, "learn", "zoo", "third", "third.npz")
    (line,) = (line.split() for line in learned.splitlines() if line.startswith("first "))
    assert f"{zoolearn.open('zoo').measure('first').balanced:.1%}" == line[3]


def test_show_fits_a_terminal_of_80_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zoolearn.cli.output.console", lambda: Console(width=80, highlight=False))
    zoo = small_zoo(tmp_path / "zoo", [pictures("garden birds", 10, test_per_class=120, contrast=20), HAZY[0]])
    shown = said(capsys, "show", "zoo").splitlines()
    assert max(map(len, shown)) <= 80
    (line,) = (line for line in shown if line.startswith("garden birds") and "." in line)
    measure = zoo.measure("garden birds")
    for value in (measure.accuracy, measure.balanced, zoo.majority("garden birds")[1], measure.confidence):
        assert f"{100 * value:.1f}" in line.replace("!", " ").split(), "no number is cut or folded"
    assert "1,200" in line.split()


def test_learning_shows_the_majority_rate_and_intervals_of_changes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    zoolearn.new("zoo", recipe=TINY, backbone=zoolearn.mlp)
    for name, task in zip(("first", "second"), HAZY, strict=False):
        np.savez(f"{name}.npz", x=task.test.x.numpy(), y=task.test.y.numpy())
        learned = said(capsys, "learn", "zoo", name, f"{name}.npz")
        assert "with 95 % certainty" in learned
        assert f"always answering '0' would get {1 / len(task.classes):.1%}" in learned
    zoo = zoolearn.open("zoo")
    rows = zoo.task("first").test
    change = Change.between(*(zoo.predict_proba(rows.x, "first", at) for at in (1, 2)), rows.y)
    assert f"{100 * change.value:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})" in learned


def test_new_labelled_data_is_scored_class_by_class_and_mistakes_are_named(hazy, tmp_path, capsys):
    task = HAZY[0]
    for place, (row, label) in enumerate(zip(task.test.x, task.test.y.tolist(), strict=True)):
        folder = tmp_path / "new" / task.classes[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(row[0].numpy()).save(folder / f"{place}.png")
    (folder / "broken.png").write_bytes(b"no")
    before = contents(hazy.path)
    expected = Scores.of(hazy.predict_proba(task.test.x, task.name), task.test.y, task.classes)
    told = json.loads(said(capsys, "test", "zoo", task.name, "new", "--json"))
    assert told["right"] == expected.accuracy.right
    assert told["confusion"] == [list(row) for row in expected.confusion]
    assert [row["name"] for row in told["broken"]] == [f"new/{folder.name}/broken.png"]
    assert len(told["mistakes"]) == expected.rows - expected.accuracy.right > 1
    sure = [mistake["probability"] for mistake in told["mistakes"]]
    assert sure == sorted(sure, reverse=True) != sure[::-1], "the surest first"
    text = said(capsys, "test", "zoo", task.name, "new")
    assert told["mistakes"][0]["input"] in text
    assert f"accuracy {expected.accuracy.value:.1%}" in text
    assert "1 row left out" in text
    assert contents(hazy.path) == before


def test_a_test_on_rows_that_it_was_trained_on_is_told_as_none(hazy, tmp_path, capsys):
    task = HAZY[0]
    rows = torch.cat([task.train.x[:5], task.test.x])
    np.savez("mixed.npz", x=rows.numpy(), y=torch.cat([task.train.y[:5], task.test.y]).numpy(), classes=task.classes)
    assert hazy.test(task.name, "mixed.npz").seen == 5
    told = said(capsys, "test", "zoo", task.name, "mixed.npz")
    assert "5 rows of these the zoo was trained on: the accuracy is no test" in told


def test_a_test_on_classes_that_the_task_has_not_is_refused(hazy):
    rows = Numbers("rows", HAZY[0].test.x[:, 0].numpy(), ["heron"] * len(HAZY[0].test))
    with pytest.raises(DataError, match=r"rows\[0\]: unknown class 'heron'.*can only be tested on its own classes"):
        hazy.test("stripes", rows)


def test_a_renamed_task_answers_as_before_and_its_old_name_is_nowhere(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3])
    zoo.prune(loss=0.5)
    before, measures = answers(zoo), dict(zoo.index.measures)
    zoo.rename("stripes", "lines")
    again = zoolearn.open(tmp_path / "zoo")
    assert list(again.tasks) == ["lines", *(task.name for task in TASKS[1:3])]
    assert torch.equal(again.predict_proba(TASKS[0].test.x, "lines"), before.pop("stripes"))
    assert alike(answers(again), before)
    assert again.measure("lines") == measures["stripes"]
    assert not [line for line in again.index.log if line.task == "stripes"]
    assert again.index.log[-1].did == "renamed"
    with pytest.raises(UnknownTask, match="unknown task 'stripes'"):
        again.rename("stripes", "more")
    with pytest.raises(DataError, match="was learned already"):
        again.rename("lines", TASKS[1].name)
    again.learn(TASKS[3])  # and it goes on as ever
    again.forget("lines", drop=True)


def test_a_task_of_few_rows_says_that_they_are_few(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = blobs()
    small = Task(task.name, task.train, Examples(task.test.x[:2], task.test.y[:2]), task.classes)
    zoolearn.new("zoo", recipe=TINY).learn(small)
    assert "accuracy not surely above that of always naming one class: blobs" in said(capsys, "show", "zoo")
